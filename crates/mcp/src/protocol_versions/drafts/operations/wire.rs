//! Operations on the wire, and finding the one that a request is about by its token.

use longhaul_core::{OwnerId, Progress, ResultKind, State, Task, TaskId, TaskKey, Timestamp, limits};
use longhaul_engine::{Engine, LoadError, PollError};
use rmcp::ErrorData;
use serde_json::{Value, json};

use crate::admission::polls::NotPolled;
use crate::protocol_version::Endpoint;
use crate::reply::errors;
use crate::request::incoming::Incoming;
use crate::signing::session::Scope;
use crate::state::Shared;
use crate::tool_calls::asking::RELATED_TASK;
use crate::views::fields::{self, Outcome, PROGRESS};

/// The status of an operation, in the words of the proposal.
pub(super) fn word(task: &Task) -> &'static str {
    match &task.state {
        State::Queued if task.attempt == 0 => "submitted",
        State::Queued | State::Running { .. } | State::Sleeping { .. } => "working",
        State::InputRequired { .. } => "input_required",
        State::Completed { kind: ResultKind::Success, .. } => "completed",
        // "The operation completed unsuccessfully." Its result can be fetched nevertheless.
        State::Completed { kind: ResultKind::ToolError, .. } => "failed",
        // "Fallback state to denote unexpected conditions."
        State::Failed { .. } if fields::is_unreadable(task) => "unknown",
        State::Failed { .. } => "failed",
        State::Cancelled => "canceled",
    }
}

/// `GetOperationStatusResult`. While the operation is running, its `_meta` says how far it is.
pub(super) async fn status(engine: &Engine, token: &str, task: &Task) -> Result<String, LoadError> {
    let mut status = json!({"status": word(task), "_operation": {"token": token}});
    if let (Some(error), Some(fields)) = (why(engine, task).await?, status.as_object_mut()) {
        fields.insert("error".to_owned(), error.into());
    }
    if let (Some(progress), Some(status)) = (progress(task), status.as_object_mut()) {
        status.insert("_meta".to_owned(), json!({PROGRESS: fields::progress_params(progress)}));
    }
    Ok(status.to_string())
}

/// How far an operation that has not ended is.
pub(super) fn progress(task: &Task) -> Option<&Progress> {
    if task.has_ended() { None } else { task.progress.as_ref() }
}

/// The status of an operation whose result has expired.
pub(super) fn expired(token: &str) -> String {
    json!({"status": "failed", "error": "Operation has expired", "_operation": {"token": token}}).to_string()
}

async fn why(engine: &Engine, task: &Task) -> Result<Option<String>, LoadError> {
    match &task.state {
        State::Failed { failure } => Ok(Some(failure.message.clone())),
        State::Completed { kind: ResultKind::ToolError, .. } => Ok(match Outcome::of(engine, task).await? {
            Some(Outcome::Result(result)) => Some(fields::text_of(&result)),
            Some(Outcome::Error(error)) => Some(error.message.into_owned()),
            Some(Outcome::Cancelled) | None => None,
        }),
        State::Completed { kind: ResultKind::Success, .. }
        | State::Queued
        | State::Running { .. }
        | State::Sleeping { .. }
        | State::InputRequired { .. }
        | State::Cancelled => Ok(None),
    }
}

/// The immediate `CallToolResult`. Its `_meta` names the task, for clients that also speak other protocol versions.
pub(super) fn accepted(token: &str, task: &Task, immediate: Option<&str>, now: Timestamp) -> Value {
    let content: Vec<Value> = immediate.iter().map(|text| json!({"type": "text", "text": text})).collect();
    json!({
        "content": content,
        "operation": {
            "token": token,
            "keepAlive": task.terms.retention_ms.div_ceil(1_000),
            "pollFrequency": poll_interval_once_s(task, now),
            "status": word(task),
        },
        "_operation": {"token": token},
        "_meta": {RELATED_TASK: {"taskId": task.id.to_string()}},
    })
}

/// The key of the operation to which the client gave this token. Fails with `-32600` if the token is valid nowhere.
pub(super) fn key_of_token(shared: &Shared, owner: &OwnerId, scope: &Scope, token: &str) -> Result<TaskKey, ErrorData> {
    let parts = [b"operation", scope.of_name("a token that you choose")?, token.as_bytes()];
    Ok(shared.names.task_key(owner, Timestamp::from_ms(0), &parts))
}

pub(super) async fn find_by_id(shared: &Shared, owner: &OwnerId, token: &str) -> Result<Task, PollError> {
    match token.parse::<TaskId>() {
        Ok(id) => shared.engine.poll(&TaskKey::new(*owner, id)).await,
        Err(_no_id) => Err(PollError::NotFound),
    }
}

/// The task of this token: the one that the client named, or the one whose id it is.
async fn find(call: &Incoming<'_>, shared: &Shared, token: &str) -> Result<Result<Task, PollError>, ErrorData> {
    let named = match key_of_token(shared, &call.owner, &call.scope, token) {
        Ok(key) => match shared.polls.poll(&key).await {
            Ok(task) => Ok(task),
            Err(NotPolled::TooEarly(refused)) => return Err(refused),
            Err(NotPolled::Failed(error)) => Err(error),
        },
        // The id of a task needs no scope.
        Err(_) if token.parse::<TaskId>().is_ok() => Err(PollError::NotFound),
        Err(refused) => return Err(refused),
    };
    Ok(match named {
        Err(PollError::NotFound) => find_by_id(shared, &call.owner, token).await,
        found => found,
    })
}

/// The token and the task that a request is about.
pub(super) async fn operation(call: &Incoming<'_>, endpoint: &Endpoint) -> Result<(String, Task), ErrorData> {
    let token = call.members.text("token").ok_or_else(|| not_retrieved("`token` is missing or not a string"))?;
    match find(call, endpoint.shared(), &token).await? {
        Ok(task) => Ok((token, task)),
        Err(PollError::NotFound) => Err(not_retrieved("Operation not found")),
        Err(error @ PollError::Unavailable(_)) => Err(errors::of_poll(error)),
    }
}

pub(super) fn not_retrieved(why: &str) -> ErrorData {
    ErrorData::invalid_params(format!("Failed to retrieve operation: {why}"), None)
}

/// How long to wait before each poll, in seconds, for a protocol version that says it once. The interval of a young
/// task would be much too short for the rest of a long one. Whole seconds are integers on the wire, because some
/// decoders accept only these.
fn poll_interval_once_s(task: &Task, now: Timestamp) -> Value {
    let settled_ms = task.terms.poll_interval_ms(now.since_ms(task.due_at()).max(limits::POLL_SETTLED_MS));
    let ms = settled_ms.max(task.poll_interval_ms(now));
    if ms.is_multiple_of(1_000) {
        return (ms / 1_000).into();
    }
    let seconds = std::time::Duration::from_millis(ms).as_secs_f64();
    seconds.into()
}
