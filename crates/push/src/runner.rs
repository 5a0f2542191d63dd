//! Runs webhook deliveries; leaves all other tasks to the server's own tools.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use longhaul_core::{Progress, ResultKind};
use longhaul_engine::{Attempt, AttemptEnd, Cleaned, Driven, Ended, Engine, Every, ToolRunner};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::permits::Permits;
use crate::schedule::{PAUSES_MS, pause_ms};
use crate::sender::{Answer, Sender, Sent};
use crate::webhook_deliveries::{Arguments, Told};
use crate::{Endpoint, Endpoints, Reach, gone, payload};

/// How long a webhook delivery waits, without a worker, when its endpoint is told as much as it may be.
const FULL_PAUSE: Duration = Duration::from_secs(2);

/// Runs webhook deliveries by sending webhooks, and all other tasks as another runner does.
pub struct WebhookDeliveryRunner {
    inner: Arc<dyn ToolRunner>,
    engine: Engine,
    endpoints: Endpoints,
    sender: Sender,
    permits: Permits,
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

/// Why a try could not be made: it is made again in another attempt.
type NotTried = Box<dyn std::error::Error + Send + Sync>;

impl WebhookDeliveryRunner {
    /// A runner for these endpoints. `engine` records which of them have switched themselves off.
    #[must_use]
    pub fn new(inner: Arc<dyn ToolRunner>, engine: Engine, endpoints: Endpoints, reach: Reach) -> Self {
        Self { inner, engine, endpoints, sender: Sender::new(reach), permits: Permits::default() }
    }

    async fn tell(&self, attempt: &Attempt) -> AttemptEnd {
        let Ok(Told { arguments }) = serde_json::from_str(attempt.request()) else {
            return failed("the stored notification cannot be read");
        };
        let Some(endpoint) = self.endpoints.named(&arguments.endpoint) else {
            return untold(&format!("the endpoint `{}` is not configured any more", arguments.endpoint));
        };
        match self.try_until_told(attempt, endpoint, &arguments).await {
            Ok(end) => end,
            Err(error) => AttemptEnd::Crashed { reason: error.to_string() },
        }
    }

    async fn try_until_told(
        &self,
        attempt: &Attempt,
        endpoint: &Endpoint,
        arguments: &Arguments,
    ) -> Result<AttemptEnd, NotTried> {
        let (id, body) = (arguments.notification.id(), payload(&arguments.notification));
        let (mut asked_ms, mut last) = (None, String::new());
        for (number, scheduled_ms) in (1_u8..).zip(PAUSES_MS) {
            if number > 1 {
                attempt.sleep_ms(pause_ms(scheduled_ms, asked_ms, &*self.engine.ports().ids)).await;
            }
            let every = Every::fixed(FULL_PAUSE);
            let text =
                attempt.poll_until(&format!("try {number}"), every, || self.try_once(endpoint, &id, &body)).await?;
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
                    attempt.progress(Progress { done, total, message });
                    (asked_ms, last) = (retry_after_ms, why);
                }
            }
        }
        Ok(failed(&format!("`{}` was not told, after {} tries: {last}", endpoint.name, PAUSES_MS.len())))
    }

    /// The text of a [`Try`]; `None` if the endpoint is told as much at the moment as it may be.
    async fn try_once(&self, endpoint: &Endpoint, id: &str, body: &str) -> Result<Option<String>, NotTried> {
        let Some(_permit) = self.permits.take(&endpoint.name) else { return Ok(None) };
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
impl ToolRunner for WebhookDeliveryRunner {
    async fn run(&self, attempt: Attempt) -> AttemptEnd {
        if !attempt.task().is_webhook_delivery() {
            return self.inner.run(attempt).await;
        }
        match attempt.drive(self.tell(&attempt)).await {
            Driven::Ended(end) => end,
            Driven::Suspended(suspended) => AttemptEnd::Suspended(suspended),
        }
    }

    async fn clean(&self, ended: &Ended) -> Cleaned {
        self.inner.clean(ended).await
    }
}

/// A result of the form that tools' results have.
fn completed(text: &str, kind: ResultKind) -> AttemptEnd {
    let is_error = kind == ResultKind::ToolError;
    let result = json!({"content": [{"type": "text", "text": text}], "isError": is_error}).to_string();
    AttemptEnd::Completed { result, kind }
}

/// The end of a webhook delivery that nobody wants any more.
fn untold(why: &str) -> AttemptEnd {
    completed(why, ResultKind::ToolError)
}

/// The end of a webhook delivery that was not told, in the form of a JSON-RPC error.
fn failed(message: &str) -> AttemptEnd {
    let detail = json!({"code": -32603, "message": message}).to_string();
    AttemptEnd::Failed { message: message.to_owned(), detail }
}
