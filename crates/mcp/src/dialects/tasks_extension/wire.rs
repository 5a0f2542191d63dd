//! The Tasks extension of MCP `2026-07-28`: how a task looks on the wire, in all the places where it does.
//!
//! Payloads are stored as the JSON text that goes out, so that a large result is copied and never parsed again.

use std::fmt::Write;

use longhaul_core::{Ask, Failure, FailureKind, Progress, State, Task, Timestamp};
use longhaul_engine::{Engine, LoadError};
use rmcp::model::RequestId;
use serde::Serialize;
use serde_json::json;

/// Where subscribers find which subscription a message belongs to.
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// A task as this dialect shows it: `Task` of the specification, with what the message around it adds.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_type: Option<&'static str>,
    task_id: String,
    status: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_message: Option<String>,
    created_at: String,
    last_updated_at: String,
    ttl_ms: u64,
    poll_interval_ms: u64,
}

/// What a detailed task has besides: the name of the field, and its JSON text.
enum Payload {
    None,
    Field(&'static str, String),
}

/// `CreateTaskResult`: the task without its payload, also where it has ended already.
pub(crate) fn created(task: &Task, now: Timestamp) -> String {
    write(&shown(task, now, Some("task"), None), Payload::None)
}

/// `GetTaskResult`.
///
/// # Errors
/// [`LoadError`], where the payload cannot be read.
pub(crate) async fn got(engine: &Engine, task: &Task) -> Result<String, LoadError> {
    let payload = payload(engine, task).await?;
    Ok(write(&shown(task, engine.ports().clock.now(), Some("complete"), None), payload))
}

/// A whole `notifications/tasks` message: exactly what `tasks/get` would answer at this moment.
///
/// # Errors
/// [`LoadError`], where the payload cannot be read.
pub(crate) async fn notification(engine: &Engine, task: &Task, subscription: &RequestId) -> Result<String, LoadError> {
    let payload = payload(engine, task).await?;
    let params = write(&shown(task, engine.ports().clock.now(), None, Some(subscription)), payload);
    Ok(format!(r#"{{"jsonrpc":"2.0","method":"notifications/tasks","params":{params}}}"#))
}

/// The first message of a subscription: which tasks will be told of.
pub(crate) fn acknowledged(ids: &[String], subscription: &RequestId) -> String {
    json!({
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": {"_meta": {SUBSCRIPTION_ID: subscription}, "notifications": {"taskIds": ids}},
    })
    .to_string()
}

/// The last message of a subscription that ends in order.
pub(crate) fn closed(subscription: &RequestId) -> String {
    json!({
        "jsonrpc": "2.0",
        "id": subscription,
        "result": {"_meta": {SUBSCRIPTION_ID: subscription}, "resultType": "complete"},
    })
    .to_string()
}

fn shown(
    task: &Task,
    now: Timestamp,
    result_type: Option<&'static str>,
    subscription: Option<&RequestId>,
) -> Shown<'static> {
    Shown {
        meta: subscription.map(|id| json!({SUBSCRIPTION_ID: id})),
        result_type,
        task_id: task.id.to_string(),
        status: task.status().as_str(),
        status_message: status_message(task),
        created_at: rfc3339(task.created_at),
        last_updated_at: rfc3339(task.updated_at),
        ttl_ms: task.ttl_ms(),
        poll_interval_ms: task.poll_interval_ms(now),
    }
}

/// The task's object, with the payload spliced in as it is stored.
fn write(shown: &Shown<'_>, payload: Payload) -> String {
    let mut text = serde_json::to_string(shown).unwrap_or_default();
    if let Payload::Field(name, value) = payload {
        text.reserve(value.len() + name.len() + 5);
        text.truncate(text.len().saturating_sub(1));
        let _infallible = write!(text, r#","{name}":{value}}}"#);
    }
    text
}

async fn payload(engine: &Engine, task: &Task) -> Result<Payload, LoadError> {
    let payload = match &task.state {
        State::Queued | State::Running { .. } | State::Sleeping { .. } | State::Cancelled => Payload::None,
        State::InputRequired { asks, .. } => Payload::Field("inputRequests", requests(asks)),
        State::Completed { result, .. } => Payload::Field("result", engine.load(&task.key(), result).await?),
        State::Failed { failure } => Payload::Field("error", error(engine, task, failure).await?),
    };
    Ok(payload)
}

fn requests(asks: &[Ask]) -> String {
    let fields = asks.iter().map(|ask| format!("{}:{}", json!(ask.key), ask.request));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// The tool's own error as it gave it; otherwise one that says why there is none.
async fn error(engine: &Engine, task: &Task, failure: &Failure) -> Result<String, LoadError> {
    if let Some(detail) = &failure.detail {
        return engine.load(&task.key(), detail).await;
    }
    Ok(json!({"code": -32603, "message": failure.message, "data": {"reason": reason(failure.kind)}}).to_string())
}

const fn reason(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Tool => "tool_error",
        FailureKind::TriesUsedUp => "tries_used_up",
        FailureKind::TimedOut => "timed_out",
        FailureKind::TooLarge => "too_large",
        FailureKind::Corrupt => "corrupt",
        FailureKind::Misuse => "misuse",
    }
}

fn status_message(task: &Task) -> Option<String> {
    match &task.state {
        State::Failed { failure } => Some(failure.message.clone()),
        State::Queued | State::Running { .. } | State::Sleeping { .. } | State::InputRequired { .. } => {
            task.progress.as_ref().map(in_words)
        }
        State::Completed { .. } | State::Cancelled => None,
    }
}

/// Such as "3/10 adding up".
fn in_words(progress: &Progress) -> String {
    let mut words = progress.done.to_string();
    if let Some(total) = progress.total {
        let _infallible = write!(words, "/{total}");
    }
    if let Some(message) = &progress.message {
        let _infallible = write!(words, " {message}");
    }
    words
}

fn rfc3339(moment: Timestamp) -> String {
    let ms = i64::try_from(moment.as_ms()).unwrap_or(i64::MAX);
    let moment = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX);
    format!("{moment:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_rfc_3339_with_milliseconds() {
        assert_eq!(rfc3339(Timestamp::from_ms(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(Timestamp::from_ms(1_790_000_000_120)), "2026-09-21T14:13:20.120Z");
        assert_eq!(rfc3339(Timestamp::from_ms(u64::MAX)).len(), "9999-12-30T22:00:00.999Z".len());
    }

    #[test]
    fn progress_reads_like_a_fraction() {
        let words = |total, message: Option<&str>| {
            in_words(&Progress { done: 3.0, total, message: message.map(str::to_owned) })
        };
        assert_eq!(words(Some(10.0), Some("adding up")), "3/10 adding up");
        assert_eq!(words(Some(4.5), None), "3/4.5");
        assert_eq!(words(None, Some("rows")), "3 rows");
    }
}
