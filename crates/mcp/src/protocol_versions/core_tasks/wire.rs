//! MCP `2025-11-25` on the wire: the task that a request names, and how a task looks.

use longhaul_core::verbatim::Object;
use longhaul_core::{Progress, ResultKind, State, Task, TaskKey, Timestamp, limits, strict_json};
use longhaul_engine::{Engine, Listener, LoadError};
use rmcp::ErrorData;
use rmcp::model::{ErrorCode, ProgressToken};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::reply::errors;
use crate::request::incoming::Incoming;
use crate::request::params::is_empty_list;
use crate::state::Shared;
use crate::tool_calls::asking::RELATED_TASK;
use crate::views::fields::{self, rfc3339};

/// A text that the host may show its model while the task runs.
const IMMEDIATE_RESPONSE: &str = "io.modelcontextprotocol/model-immediate-response";

/// Bytes of a tool's own message that a status message repeats.
const WORDS_BYTES_MAX: usize = 512;

/// `Task` of the specification.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct View {
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Value>,
    task_id: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_message: Option<String>,
    created_at: String,
    last_updated_at: String,
    ttl: u64,
    poll_interval: u64,
}

/// The status of the task. A result with `isError` counts as failed.
pub(super) fn status(task: &Task) -> &'static str {
    match &task.state {
        State::Queued | State::Running { .. } | State::Sleeping { .. } => "working",
        State::InputRequired { .. } => "input_required",
        State::Completed { kind: ResultKind::Success, .. } => "completed",
        State::Completed { kind: ResultKind::ToolError, .. } | State::Failed { .. } => "failed",
        State::Cancelled => "cancelled",
    }
}

pub(super) fn view(task: &Task, now: Timestamp) -> View {
    let status_message = match &task.state {
        State::Completed { kind: ResultKind::ToolError, .. } => Some("the tool reported an error".to_owned()),
        State::Completed { kind: ResultKind::Success, .. } => None,
        State::Cancelled => Some("the task was cancelled by request".to_owned()),
        State::Queued
        | State::Running { .. }
        | State::Sleeping { .. }
        | State::InputRequired { .. }
        | State::Failed { .. } => fields::status_message(task),
    };
    View {
        meta: None,
        task_id: task.id.to_string(),
        status: status(task),
        status_message,
        created_at: rfc3339(task.created_at),
        last_updated_at: rfc3339(task.updated_at),
        ttl: task.ttl_ms(),
        poll_interval: task.poll_interval_ms(now),
    }
}

/// `GetTaskResult`, and the parameters of a status notification. A failure is shown with the tool's own
/// message: some clients read nothing else.
pub(super) async fn render(engine: &Engine, task: &Task) -> Result<String, ErrorData> {
    let mut view = view(task, engine.ports().clock.now());
    view.meta = Some(fields::meta(engine, task).await?).filter(|meta| !meta.is_empty()).map(Into::into);
    if let State::Completed { result, kind: ResultKind::ToolError } = &task.state {
        let result = fields::object(engine.load(&task.key(), result).await.map_err(errors::of_load)?)?;
        view.status_message = words(&result)?.or(view.status_message);
    }
    serde_json::to_string(&view).map_err(|error| errors::internal("the task could not be written", &error))
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    content: Vec<Block>,
}

#[derive(Deserialize)]
struct Block {
    text: Option<String>,
}

/// The first text of a result.
fn words(result: &str) -> Result<Option<String>, ErrorData> {
    let result: Content = strict_json::from_str(result).map_err(|error| errors::unreadable_result(&error))?;
    let text = result.content.into_iter().find_map(|block| block.text);
    Ok(text.map(|text| limits::cut(&text, WORDS_BYTES_MAX)))
}

/// `CreateTaskResult`.
pub(super) fn render_created(task: &Task, now: Timestamp, immediate_response: Option<&str>) -> String {
    let mut meta = json!({RELATED_TASK: {"taskId": task.id.to_string()}});
    if let (Some(meta), Some(text)) = (meta.as_object_mut(), immediate_response) {
        meta.insert(IMMEDIATE_RESPONSE.to_owned(), text.into());
    }
    json!({"task": view(task, now), "_meta": meta}).to_string()
}

/// `ListTasksResult`.
pub(super) fn render_list(tasks: &[Task], now: Timestamp, next: Option<String>) -> String {
    let tasks: Vec<View> = tasks.iter().map(|task| view(task, now)).collect();
    match next {
        Some(next) => json!({"tasks": tasks, "nextCursor": next}).to_string(),
        None => json!({"tasks": tasks}).to_string(),
    }
}

/// A `notifications/tasks/status` message.
pub(super) async fn status_notification(engine: &Engine, task: &Task) -> Result<String, ErrorData> {
    let params = render(engine, task).await?;
    Ok(format!(r#"{{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{params}}}"#))
}

/// `notifications/progress`, with the id of the task in `_meta`.
pub(super) fn progress(token: &ProgressToken, task: &Task, progress: &Progress) -> String {
    let meta = json!({RELATED_TASK: {"taskId": task.id.to_string()}});
    fields::progress_notification(token, progress, [("_meta", meta)])
}

/// The answer that the call would have had without a task; `None` while the task has not ended.
pub(super) async fn outcome(engine: &Engine, task: &Task) -> Result<Option<Result<String, ErrorData>>, LoadError> {
    let outcome = match &task.state {
        State::Queued | State::Running { .. } | State::Sleeping { .. } | State::InputRequired { .. } => {
            return Ok(None);
        }
        State::Completed { result, .. } => {
            let result = engine.load(&task.key(), result).await?;
            related(&result, task).map_err(|error| errors::unreadable_result(&error))
        }
        State::Failed { failure } => Err(errors::for_older(fields::error_data(engine, task, failure).await?)),
        State::Cancelled => Err(ErrorData::new(ErrorCode::INTERNAL_ERROR, "the task was cancelled by request", None)),
    };
    Ok(Some(outcome))
}

/// The result as the tool returned it, with the id of the task in `_meta`, and without what this revision does not
/// know. All else is copied as it was written, however large it is.
fn related(result: &str, task: &Task) -> Result<String, serde_json::Error> {
    let text = without_structure(Object::read(result)?.without("resultType"))?;
    let object = Object::read(&text)?;
    let meta = Object::read(object.get("_meta").filter(|meta| meta.starts_with('{')).unwrap_or("{}"))?;
    let related = json!({"taskId": task.id.to_string()}).to_string();
    Ok(object.with("_meta", &meta.with(RELATED_TASK, &related)))
}

/// Leaves out structured content that is not an object, and shows it as a text if nothing else does.
fn without_structure(text: String) -> Result<String, serde_json::Error> {
    let object = Object::read(&text)?;
    let Some(structured) = object.get("structuredContent").filter(|structured| !structured.starts_with('{')) else {
        return Ok(text);
    };
    let left = object.without("structuredContent");
    if object.get("content").is_some_and(|content| !is_empty_list(content)) {
        return Ok(left);
    }
    let content = json!([{"type": "text", "text": structured}]).to_string();
    Ok(Object::read(&left)?.with("content", &content))
}

/// The task that the request polls, unless it does so too early.
pub(super) async fn polled(call: &Incoming<'_>, shared: &Shared) -> Result<Task, ErrorData> {
    shared.polls.poll(&key(call)?).await.map_err(|error| error.or(errors::of_poll))
}

/// The same task, and a listener that listened to it before it was read.
pub(super) async fn listened(call: &Incoming<'_>, shared: &Shared) -> Result<(Listener, Task), ErrorData> {
    let (key, mut listener) = (key(call)?, shared.engine.listener());
    shared.polls.admit(&key).await?;
    let task = listener.poll(&key).await.map_err(errors::of_poll)?;
    shared.polls.told(&task);
    Ok((listener, task))
}

/// The task that the request names, as the caller would own it.
pub(super) fn key(call: &Incoming<'_>) -> Result<TaskKey, ErrorData> {
    let id = call.members.text("taskId");
    let id = id.ok_or_else(|| ErrorData::invalid_params("`taskId` must be a string", None))?;
    let id = id.parse().map_err(|_no_task_id| errors::task_not_found())?;
    Ok(TaskKey::new(call.owner, id))
}
