//! Jobs on the wire: an envelope with `data`, for both programs and models, and a sentence for the model.

use longhaul_core::{ResultKind, State, Task, Timestamp};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value, json};

use crate::views::outcome::{Outcome, text_of};
use crate::views::{advice, fields};

/// A job that has not ended, for a client that called the tool or asked for the job's status.
pub(crate) fn unfinished(task: &Task, now: Timestamp, wait_ms: u64) -> CallToolResult {
    let again_s = advice::job_poll_after_s(task, now);
    let mut job = job(task);
    job.insert("poll_after_s".to_owned(), again_s.into());
    if let Some(progress) = fields::status_message(task) {
        job.insert("progress".to_owned(), progress.into());
    }
    let wait_s = wait_ms / 1_000;
    let waits = match &task.state {
        State::InputRequired { .. } => {
            " It is waiting for an answer that only the user can give, and this client cannot be asked.".to_owned()
        }
        State::Queued
        | State::Running { .. }
        | State::Sleeping { .. }
        | State::Completed { .. }
        | State::Failed { .. }
        | State::Cancelled => {
            task.awaited_start().map(|start| format!(" It starts at {}.", fields::rfc3339(start))).unwrap_or_default()
        }
    };
    let id = task.id;
    let sentence = format!(
        "This is not the result yet: the tool `{}` continues as job {id}.{waits} To get its result, call \
         get_job_status with job_id \"{id}\"; it waits up to {wait_s} s for the end. If the job is not done by then, \
         do something else and ask again after {again_s} s. Do not call the tool again. cancel_job stops it.",
        task.tool
    );
    enveloped(job, Some(sentence))
}

/// A job that has ended, for a client that asked for its status.
pub(crate) fn ended(task: &Task, outcome: Outcome) -> CallToolResult {
    let mut job = job(task);
    let mut more = Vec::new();
    match outcome {
        Outcome::Result(result) if is_success(task) => {
            more = other_than_text(&result);
            job.insert("result".to_owned(), output(result));
        }
        Outcome::Result(result) => {
            job.insert("error".to_owned(), error("tool_error", &text_of(&result), Some(Value::Object(result))));
        }
        Outcome::Error(failed) => {
            // Also for a job that completed, if its result can no longer be read.
            job.insert("status".to_owned(), "failed".into());
            let details = json!({"code": failed.code.0, "data": failed.data});
            job.insert("error".to_owned(), error("failed", &failed.message, Some(details)));
        }
        Outcome::Cancelled => {
            job.insert("error".to_owned(), error("cancelled", "The job was cancelled.", None));
        }
    }
    let mut result = enveloped(job, None);
    result.content.extend(more);
    result
}

/// The answer if there is no such job.
pub(crate) fn not_found(job_id: &str) -> CallToolResult {
    let message = format!("There is no job \"{job_id}\", or its result has expired.");
    let envelope = json!({"error": error("not_found", &message, None)});
    let mut result = CallToolResult::structured_error(envelope.clone());
    result.content = vec![ContentBlock::text(envelope.to_string())];
    result
}

fn job(task: &Task) -> Map<String, Value> {
    let status = match &task.state {
        State::Queued | State::Sleeping { .. } if task.attempt == 0 => "queued",
        State::Queued | State::Running { .. } | State::Sleeping { .. } | State::InputRequired { .. } => "running",
        State::Completed { kind: ResultKind::Success, .. } => "completed",
        State::Completed { kind: ResultKind::ToolError, .. } | State::Failed { .. } | State::Cancelled => "failed",
    };
    let mut job = Map::new();
    job.insert("job_id".to_owned(), task.id.to_string().into());
    job.insert("status".to_owned(), status.into());
    job.insert("enqueued_at".to_owned(), fields::rfc3339(task.created_at).into());
    job
}

fn is_success(task: &Task) -> bool {
    matches!(&task.state, State::Completed { kind: ResultKind::Success, .. })
}

/// The structured content of the result, if it has any; otherwise its content.
fn output(mut result: Map<String, Value>) -> Value {
    result.remove("structuredContent").unwrap_or_else(|| {
        result.remove("_meta");
        result.remove("isError");
        Value::Object(result)
    })
}

/// Content blocks such as images, which a model cannot see in JSON.
fn other_than_text(result: &Map<String, Value>) -> Vec<ContentBlock> {
    let blocks = result.get("content").and_then(Value::as_array).into_iter().flatten();
    let others = blocks.filter(|block| block.get("type").and_then(Value::as_str) != Some("text"));
    others.filter_map(|block| serde_json::from_value(block.clone()).ok()).collect()
}

fn error(code: &str, message: &str, details: Option<Value>) -> Value {
    let mut error = json!({"code": code, "message": message});
    if let (Some(details), Some(fields)) = (details, error.as_object_mut()) {
        fields.insert("details".to_owned(), details);
    }
    error
}

fn enveloped(job: Map<String, Value>, sentence: Option<String>) -> CallToolResult {
    let envelope = json!({"data": job});
    let mut result = CallToolResult::structured(envelope.clone());
    result.content = vec![ContentBlock::text(envelope.to_string())];
    result.content.extend(sentence.map(ContentBlock::text));
    result
}
