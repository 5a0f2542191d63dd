//! The Tasks extension of MCP `2026-07-28`: how a task looks on the wire, in all the places where it does.
//!
//! Payloads are stored as the JSON text that goes out, so that a large result is copied and never parsed again.

use std::fmt::Write;

use longhaul_core::{Ask, State, Task, Timestamp};
use longhaul_engine::{Engine, LoadError};
use rmcp::model::RequestId;
use serde::Serialize;
use serde_json::json;

use crate::dialects::shown::{self, VARIABLES, error, rfc3339, status_message};

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
    write(&shown(task, now, Some("task")), Payload::None)
}

/// `GetTaskResult`.
///
/// # Errors
/// [`LoadError`], where the payload cannot be read.
pub(crate) async fn got(engine: &Engine, task: &Task) -> Result<String, LoadError> {
    let payload = payload(engine, task).await?;
    let mut shown = shown(task, engine.ports().clock.now(), Some("complete"));
    shown.meta = shown::variables(engine, task).await?.map(|variables| json!({VARIABLES: variables}));
    Ok(write(&shown, payload))
}

/// A whole `notifications/tasks` message: exactly what `tasks/get` would answer at this moment.
///
/// # Errors
/// [`LoadError`], where the payload cannot be read.
pub(crate) async fn notification(engine: &Engine, task: &Task, subscription: &RequestId) -> Result<String, LoadError> {
    let payload = payload(engine, task).await?;
    let mut shown = shown(task, engine.ports().clock.now(), None);
    shown.meta = Some(match shown::variables(engine, task).await? {
        Some(variables) => json!({SUBSCRIPTION_ID: subscription, VARIABLES: variables}),
        None => json!({SUBSCRIPTION_ID: subscription}),
    });
    let params = write(&shown, payload);
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

fn shown(task: &Task, now: Timestamp, result_type: Option<&'static str>) -> Shown<'static> {
    Shown {
        meta: None,
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
