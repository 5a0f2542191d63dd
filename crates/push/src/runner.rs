//! Runs notices; leaves all other tasks to the server's own tools.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use longhaul_core::{Progress, ResultKind};
use longhaul_engine::{Cleaned, Driven, Ended, Engine, Every, Leg, LegEnd, ToolRunner};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::notices::{Arguments, Told};
use crate::permits::Places;
use crate::schedule::{PAUSES_MS, pause_ms};
use crate::sender::{Answer, Sender, Sent};
use crate::{Endpoint, Endpoints, Reach, gone, payload};

/// How long a notice waits, without a worker, when its endpoint is told as much as it may be.
const FULL_PAUSE: Duration = Duration::from_secs(2);

/// Runs notices by sending webhooks, and all other tasks as another runner does.
pub struct NoticeRunner {
    inner: Arc<dyn ToolRunner>,
    engine: Engine,
    endpoints: Endpoints,
    sender: Sender,
    places: Places,
}

/// What one try came to: the text that its step records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Try {
    /// The endpoint has taken it.
    Told { status: u16 },
    /// The endpoint has switched itself off, now or before.
    Off,
    /// It is tried again.
    Failed {
        why: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
}

/// Why a try could not be made: it is made again in another leg.
type NotTried = Box<dyn std::error::Error + Send + Sync>;

impl NoticeRunner {
    /// A runner for these endpoints. `engine` records which of them have switched themselves off.
    #[must_use]
    pub fn new(inner: Arc<dyn ToolRunner>, engine: Engine, endpoints: Endpoints, reach: Reach) -> Self {
        Self { inner, engine, endpoints, sender: Sender::new(reach), places: Places::default() }
    }

    async fn tell(&self, leg: &Leg) -> LegEnd {
        let Ok(Told { arguments }) = serde_json::from_str(leg.request()) else {
            return failed("the stored announcement cannot be read");
        };
        let Some(endpoint) = self.endpoints.named(&arguments.endpoint) else {
            return untold(&format!("the endpoint `{}` is not configured any more", arguments.endpoint));
        };
        match self.try_until_told(leg, endpoint, &arguments).await {
            Ok(end) => end,
            Err(error) => LegEnd::Crashed { reason: error.to_string() },
        }
    }

    async fn try_until_told(&self, leg: &Leg, endpoint: &Endpoint, arguments: &Arguments) -> Result<LegEnd, NotTried> {
        let (id, body) = (arguments.announcement.id(), payload(&arguments.announcement));
        let (mut asked_ms, mut last) = (None, String::new());
        for (number, scheduled_ms) in (1_u8..).zip(PAUSES_MS) {
            if number > 1 {
                leg.sleep_ms(pause_ms(scheduled_ms, asked_ms, &*self.engine.ports().ids)).await;
            }
            let every = Every::fixed(FULL_PAUSE);
            let text = leg.poll_until(&format!("try {number}"), every, || self.try_once(endpoint, &id, &body)).await?;
            match serde_json::from_str(&text)? {
                Try::Told { status } => {
                    return Ok(completed(
                        &format!("`{}` was told, and answered {status}", endpoint.name),
                        ResultKind::Success,
                    ));
                }
                Try::Off => return Ok(untold(&format!("`{}` answered 410, and is switched off", endpoint.name))),
                Try::Failed { why, retry_after_ms } => {
                    let message = Some(format!("try {number} of {}: {why}", PAUSES_MS.len()));
                    let (done, total) = (f64::from(number), Some(PAUSES_MS.len() as f64));
                    leg.progress(Progress { done, total, message });
                    (asked_ms, last) = (retry_after_ms, why);
                }
            }
        }
        Ok(failed(&format!("`{}` was not told, after {} tries: {last}", endpoint.name, PAUSES_MS.len())))
    }

    /// The text of a [`Try`]; `None` if the endpoint is told as much at the moment as it may be.
    async fn try_once(&self, endpoint: &Endpoint, id: &str, body: &str) -> Result<Option<String>, NotTried> {
        let Some(_place) = self.places.take(&endpoint.name) else { return Ok(None) };
        let outcome = if gone::is_off(&self.engine, endpoint).await? {
            Try::Off
        } else {
            let at = self.engine.ports().clock.now();
            let answer = self.sender.send(endpoint, Sent { id, body, at }).await;
            if answer.is_gone() {
                gone::switch_off(&self.engine, endpoint).await?;
            }
            match answer {
                Answer::Status { .. } if answer.is_gone() => Try::Off,
                Answer::Status { status, .. } if answer.is_success() => Try::Told { status },
                Answer::Status { status, retry_after_ms } => {
                    Try::Failed { why: format!("the endpoint answered {status}"), retry_after_ms }
                }
                Answer::None { why } => Try::Failed { why: why.to_owned(), retry_after_ms: None },
            }
        };
        Ok(Some(serde_json::to_string(&outcome)?))
    }
}

#[async_trait]
impl ToolRunner for NoticeRunner {
    async fn run(&self, leg: Leg) -> LegEnd {
        if !leg.task().is_notice() {
            return self.inner.run(leg).await;
        }
        match leg.drive(self.tell(&leg)).await {
            Driven::Ended(end) => end,
            Driven::Suspended(suspended) => LegEnd::Suspended(suspended),
        }
    }

    async fn clean(&self, ended: &Ended) -> Cleaned {
        self.inner.clean(ended).await
    }
}

/// A result of the form that tools' results have.
fn completed(text: &str, kind: ResultKind) -> LegEnd {
    let is_error = kind == ResultKind::ToolError;
    let result = json!({"content": [{"type": "text", "text": text}], "isError": is_error}).to_string();
    LegEnd::Completed { result, kind }
}

/// The end of a notice that nobody wants any more.
fn untold(why: &str) -> LegEnd {
    completed(why, ResultKind::ToolError)
}

/// The end of a notice that was not told, in the form of a JSON-RPC error.
fn failed(message: &str) -> LegEnd {
    let detail = json!({"code": -32603, "message": message}).to_string();
    LegEnd::Failed { message: message.to_owned(), detail }
}
