//! Webhook deliveries: what they are made with, and what runs them; all other tasks are left to the server's own tools.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use longhaul_core::ports::Left;
use longhaul_core::{
    Identity, MailboxId, Notification, OwnerId, Policy, Progress, RequestedTerms, ResultKind, Terms, strict_json,
};
use longhaul_engine::{
    Attempt, AttemptEnd, Cleaned, CollectError, Driven, Ended, Engine, Every, LeaveError, ToolRunner,
    WebhookDeliveries, WebhookDelivery,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::webhooks::limits::{DEATHS_MAX, FULL_PAUSE, OFF_MS, OPEN_REQUESTS_MAX, PAUSES_MS, RETENTION_MS, RUN_MS_MAX};
use crate::webhooks::sender::{Answer, Sender, Sent, pause_ms};
use crate::webhooks::{Endpoint, Endpoints, Reach, payload};

/// Runs webhook deliveries by sending webhooks, and all other tasks as another runner does.
pub struct WebhookDeliveryRunner {
    inner: Arc<dyn ToolRunner>,
    engine: Engine,
    endpoints: Endpoints,
    sender: Sender,
    permits: Permits,
}

/// The outcome of one try: the text that its step records.
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
        let Ok(Told { arguments }) = strict_json::from_str(attempt.request()) else {
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
            match strict_json::from_str(&text)? {
                Try::Told { status } => {
                    return Ok(completed(
                        &format!("`{}` was notified, and answered {status}", endpoint.name),
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

    /// The text of a [`Try`]; `None` if the endpoint has as many deliveries now as it may have.
    async fn try_once(&self, endpoint: &Endpoint, id: &str, body: &str) -> Result<Option<String>, NotTried> {
        let Some(_permit) = self.permits.take(&endpoint.name) else { return Ok(None) };
        let outcome = if is_off(&self.engine, endpoint).await? {
            Try::Off
        } else {
            let at = self.engine.ports().clock.now();
            let answer = self.sender.send(endpoint, Sent { id, body, at }).await;
            if answer.is_gone() {
                switch_off(&self.engine, endpoint).await?;
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

/// The end of a webhook delivery whose endpoint is off.
fn untold(why: &str) -> AttemptEnd {
    completed(why, ResultKind::ToolError)
}

/// The end of a webhook delivery that was not told, in the form of a JSON-RPC error.
fn failed(message: &str) -> AttemptEnd {
    let detail = json!({"code": -32603, "message": message}).to_string();
    AttemptEnd::Failed { message: message.to_owned(), detail }
}

/// The request of a webhook delivery. It has the form of a call, so that pages of calls show it.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    arguments: Arguments,
}

#[derive(Debug, Serialize, Deserialize)]
struct Arguments {
    endpoint: String,
    #[serde(rename = "announcement")]
    notification: Notification,
}

impl WebhookDeliveries for Endpoints {
    fn of(&self, notification: &Notification) -> Vec<WebhookDelivery> {
        let wanted = self.iter().filter(|endpoint| endpoint.wants(notification));
        wanted.filter_map(|endpoint| webhook_delivery(&endpoint.name, notification)).collect()
    }
}

fn webhook_delivery(endpoint: &str, notification: &Notification) -> Option<WebhookDelivery> {
    let arguments = Arguments { endpoint: endpoint.to_owned(), notification: notification.clone() };
    // Nothing in it can fail to be written.
    let request = serde_json::to_string(&Told { arguments }).ok()?;
    let policy = Policy {
        run_ms_max: RUN_MS_MAX,
        retention_ms: RETENTION_MS,
        ttl_ms: 0,
        ttl_ms_max: 0,
        poll_ms: None,
        consecutive_failures_max: DEATHS_MAX,
    };
    let terms = Terms::negotiate(&policy, RequestedTerms::default());
    Some(WebhookDelivery { endpoint: endpoint.to_owned(), request, terms })
}

/// Whose mailboxes these are: no caller's.
fn owner() -> OwnerId {
    OwnerId::of(Identity::Verified { issuer: "longhaul", subject: "webhooks", tenant: "" })
}

/// An endpoint with another URL, or another revision, is another one.
fn mailbox(endpoint: &Endpoint) -> MailboxId {
    let revision = endpoint.revision.to_be_bytes();
    MailboxId::of(&[b"switched off", endpoint.name.as_bytes(), endpoint.url.as_str().as_bytes(), &revision])
}

/// Whether the endpoint has switched itself off.
async fn is_off(engine: &Engine, endpoint: &Endpoint) -> Result<bool, CollectError> {
    Ok(engine.collect(&owner(), &mailbox(endpoint)).await?.is_some())
}

async fn switch_off(engine: &Engine, endpoint: &Endpoint) -> Result<(), LeaveError> {
    let expires_at = engine.ports().clock.now().plus_ms(OFF_MS);
    match engine.leave(&owner(), &mailbox(endpoint), "410", expires_at).await? {
        Left::First => {
            tracing::warn!(endpoint = endpoint.name, "an endpoint answered 410: it is switched off");
        }
        Left::Earlier(_) => {}
    }
    Ok(())
}

/// The open requests of each endpoint.
#[derive(Clone, Debug, Default)]
struct Permits(Arc<Mutex<HashMap<String, usize>>>);

/// One open request; over when it is dropped.
#[derive(Debug)]
struct Permit {
    of: Permits,
    endpoint: String,
}

impl Permits {
    /// A permit for one more request, if there is one.
    fn take(&self, endpoint: &str) -> Option<Permit> {
        let mut open = self.lock();
        let count = open.entry(endpoint.to_owned()).or_default();
        if *count >= OPEN_REQUESTS_MAX {
            return None;
        }
        *count += 1;
        drop(open);
        Some(Permit { of: self.clone(), endpoint: endpoint.to_owned() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(count) = self.of.lock().get_mut(&self.endpoint) {
            *count = count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_endpoint_has_its_own_permits_and_gets_them_back() {
        let permits = Permits::default();
        let mut taken: Vec<Permit> = (0..OPEN_REQUESTS_MAX).filter_map(|_| permits.take("a")).collect();
        assert_eq!(taken.len(), OPEN_REQUESTS_MAX);
        assert!(permits.take("a").is_none());
        assert!(permits.take("b").is_some());
        taken.pop();
        assert!(permits.take("a").is_some());
    }

    /// Tasks of an earlier version have this request.
    #[test]
    fn a_stored_request_keeps_the_names_of_its_members() {
        let task = r#"{"owner":"6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d","id":"01a21703-721d-78cc-a93e-83715983777e"}"#;
        let stored = format!(
            r#"{{"arguments":{{"endpoint":"ops","announcement":{{"task":{task},"what":"failed","attempt":3,"at":1795682439116,"tool":"countdown","message":"no retries are left"}}}}}}"#
        );
        let read: Told = serde_json::from_str(&stored).unwrap();
        assert_eq!((read.arguments.endpoint.as_str(), read.arguments.notification.attempt), ("ops", 3));
        assert_eq!(serde_json::to_string(&read).unwrap(), stored);
    }
}
