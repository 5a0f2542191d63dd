//! The Tasks extension of MCP `2026-07-28`: a task on the wire, in every message that shows one.
//!
//! Payloads are stored as the JSON text that goes out, so that a large result is checked and copied, and never
//! serialized again.

use std::fmt::Write;

use longhaul_core::{Ask, State, Task, Timestamp};
use longhaul_engine::Engine;
use rmcp::ErrorData;
use rmcp::model::RequestId;
use serde::Serialize;
use serde_json::{Map, json};

use crate::reply::errors;
use crate::tool_calls::asking;
use crate::views::fields::{self, error, rfc3339, status_message};

/// The key in `_meta` that says which subscription a message belongs to.
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// A task as this protocol version shows it: `Task` of the specification, with the fields that the message around it
/// adds.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct View<'a> {
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Map<String, serde_json::Value>>,
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

/// The additional field of a `DetailedTask`, if it has one: its name, and its JSON text.
type Payload = Option<(&'static str, String)>;

/// `CreateTaskResult`: the task without its payload, even if it has ended already.
pub(crate) fn render_created(task: &Task, now: Timestamp) -> Result<String, ErrorData> {
    write(&view(task, now, Some("task")), None)
}

/// `GetTaskResult`.
pub(crate) async fn render(engine: &Engine, task: &Task) -> Result<String, ErrorData> {
    let payload = payload(engine, task).await?;
    let mut view = view(task, engine.ports().clock.now(), Some("complete"));
    view.meta = Some(fields::meta(engine, task).await?).filter(|meta| !meta.is_empty());
    write(&view, payload)
}

/// The task as [`render`] shows it, without its `_meta`, and without an outcome of more than `bytes_max`.
pub(crate) async fn render_briefly(engine: &Engine, task: &Task, bytes_max: u64) -> Result<String, ErrorData> {
    let is_long = task.state.outcome().is_some_and(|outcome| outcome.bytes() > bytes_max);
    let payload = if is_long { None } else { payload(engine, task).await? };
    write(&view(task, engine.ports().clock.now(), None), payload)
}

/// The task as [`render`] shows it, without `_meta` and payload.
pub(crate) fn brief(task: &Task, now: Timestamp) -> serde_json::Value {
    json!(view(task, now, None))
}

/// A whole `notifications/tasks` message: exactly the answer that `tasks/get` would give now.
pub(crate) async fn render_notification(
    engine: &Engine,
    task: &Task,
    subscription: &RequestId,
) -> Result<String, ErrorData> {
    let payload = payload(engine, task).await?;
    let mut view = view(task, engine.ports().clock.now(), None);
    let mut meta = Map::from_iter([(SUBSCRIPTION_ID.to_owned(), json!(subscription))]);
    meta.extend(fields::meta(engine, task).await?);
    view.meta = Some(meta);
    let params = write(&view, payload)?;
    Ok(format!(r#"{{"jsonrpc":"2.0","method":"notifications/tasks","params":{params}}}"#))
}

/// The first message of a subscription: which tasks it is about.
pub(crate) fn acknowledged(ids: &[String], subscription: &RequestId) -> String {
    json!({
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": {"_meta": {SUBSCRIPTION_ID: subscription}, "notifications": {"taskIds": ids}},
    })
    .to_string()
}

/// The last message of a subscription that the server ends.
pub(crate) fn closed(subscription: &RequestId) -> String {
    json!({
        "jsonrpc": "2.0",
        "id": subscription,
        "result": {"_meta": {SUBSCRIPTION_ID: subscription}, "resultType": "complete"},
    })
    .to_string()
}

fn view(task: &Task, now: Timestamp, result_type: Option<&'static str>) -> View<'static> {
    View {
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

/// The task's object, with the stored payload inserted unchanged.
fn write(view: &View<'_>, payload: Payload) -> Result<String, ErrorData> {
    let mut text =
        serde_json::to_string(view).map_err(|error| errors::internal("the task could not be written", &error))?;
    if let Some((name, value)) = payload {
        text.reserve(value.len() + name.len() + 5);
        text.truncate(text.len().saturating_sub(1));
        let _infallible = write!(text, r#","{name}":{value}}}"#);
    }
    Ok(text)
}

async fn payload(engine: &Engine, task: &Task) -> Result<Payload, ErrorData> {
    let payload = match &task.state {
        State::Queued | State::Running { .. } | State::Sleeping { .. } | State::Cancelled => None,
        State::InputRequired { asks, .. } => Some(("inputRequests", requests(asks)?)),
        State::Completed { result, .. } => {
            let result = engine.load(&task.key(), result).await.map_err(errors::of_load)?;
            Some(("result", fields::object(result)?))
        }
        State::Failed { failure } => Some(("error", error(engine, task, failure).await?)),
    };
    Ok(payload)
}

/// The questions, by their keys.
pub(crate) fn requests(asks: &[Ask]) -> Result<String, ErrorData> {
    let field = |ask: &Ask| asking::check(ask).map(|()| format!("{}:{}", json!(ask.key), ask.request));
    let fields = asks.iter().map(field).collect::<Result<Vec<_>, _>>()?;
    Ok(format!("{{{}}}", fields.join(",")))
}
