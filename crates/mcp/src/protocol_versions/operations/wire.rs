//! Operations on the wire.

use longhaul_core::{Progress, ResultKind, State, Task, Timestamp};
use longhaul_engine::{Engine, LoadError};
use serde_json::{Value, json};

use crate::shared::asking::RELATED_TASK;
use crate::views::advice;
use crate::views::fields::{self, PROGRESS};
use crate::views::outcome::{self, Outcome};

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
        State::Failed { .. } if outcome::is_unreadable(task) => "unknown",
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

/// Why the operation failed.
async fn why(engine: &Engine, task: &Task) -> Result<Option<String>, LoadError> {
    match &task.state {
        State::Failed { failure } => Ok(Some(failure.message.clone())),
        State::Completed { kind: ResultKind::ToolError, .. } => Ok(match Outcome::of(engine, task).await? {
            Some(Outcome::Result(result)) => Some(outcome::text_of(&result)),
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
            "pollFrequency": advice::poll_interval_once_s(task, now),
            "status": word(task),
        },
        "_operation": {"token": token},
        "_meta": {RELATED_TASK: {"taskId": task.id.to_string()}},
    })
}
