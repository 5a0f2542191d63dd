//! Jobs on the wire: an envelope with `data`, for both programs and models, and a sentence for the model. Also the
//! tools with which clients that know no tasks manage their jobs, as a list shows them.

use std::collections::BTreeSet;

use longhaul_core::{ResultKind, State, Task, Timestamp, strict_json, verbatim};
use rmcp::model::{CallToolResult, ContentBlock, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::state::Shared;
use crate::views::fields::{self, Outcome, text_of};

/// When to ask for a job again, by its age: (younger than, in milliseconds; interval, in seconds).
const JOB_CADENCE: [(u64, u64); 2] = [(10_000, 1), (60_000, 5)];

/// The same for older jobs.
const JOB_CADENCE_LAST_S: u64 = 30;

/// A job that has not ended, for a client that called the tool or asked for the job's status.
pub(crate) fn unfinished(task: &Task, now: Timestamp, wait_ms: u64) -> CallToolResult {
    let again_s = poll_after_s(task, now);
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
            let data = failed.data.and_then(|data| strict_json::from_str::<Value>(&verbatim::text_of(&data)).ok());
            let details = json!({"code": failed.code.0, "data": data});
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
    result.shift_remove("structuredContent").unwrap_or_else(|| {
        result.shift_remove("_meta");
        result.shift_remove("isError");
        Value::Object(result)
    })
}

/// Content blocks such as images, which a model cannot see in JSON.
fn other_than_text(result: &Map<String, Value>) -> Vec<ContentBlock> {
    let blocks = result.get("content").and_then(Value::as_array).into_iter().flatten();
    let others = blocks.filter(|block| block.get("type").and_then(Value::as_str) != Some("text"));
    others.filter_map(|block| strict_json::from_value(block.clone()).ok()).collect()
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

/// When a model should ask for a job again, in seconds. The request for its status waits for the end on its own. So
/// this is the pause after a request that waited without success. Before a later start there is nothing to ask for.
fn poll_after_s(task: &Task, now: Timestamp) -> u64 {
    let left_ms = task.awaited_start().map_or(0, |start| start.since_ms(now));
    cadence_s(now.since_ms(task.due_at())).max(left_ms.div_ceil(1_000))
}

fn cadence_s(age_ms: u64) -> u64 {
    JOB_CADENCE.iter().find(|(below_ms, _)| age_ms < *below_ms).map_or(JOB_CADENCE_LAST_S, |(_, poll_s)| *poll_s)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobTool {
    /// Reports the status of a job, after waiting a while for its end.
    Status,
    Cancel,
}

impl JobTool {
    pub(crate) const ALL: [Self; 2] = [Self::Status, Self::Cancel];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Status => "get_job_status",
            Self::Cancel => "cancel_job",
        }
    }

    pub(crate) const fn scopes(self, shared: &Shared) -> &BTreeSet<String> {
        match self {
            Self::Status => &shared.settings.scopes.read,
            Self::Cancel => &shared.settings.scopes.cancel,
        }
    }

    pub(crate) fn tool(self, shared: &Shared) -> Tool {
        let wait_s = shared.settings.inline_wait_ms / 1_000;
        let job_id = json!({"type": "string", "description": "The job_id that another tool returned"});
        let (description, schema, annotations) = match self {
            Self::Status => (
                format!(
                    "Reports the status of a job, by the job_id that another tool returned: queued, running, completed \
                     with its result, or failed with its error. Waits up to {wait_s} s for the end before it answers."
                ),
                rmcp::object!({
                    "type": "object",
                    "properties": {
                        "job_id": job_id,
                        "wait_s": {
                            "type": "number", "minimum": 0,
                            "description": format!("How many seconds to wait for the end; at most {wait_s}"),
                        },
                    },
                    "required": ["job_id"],
                }),
                ToolAnnotations::new().read_only(true).open_world(false),
            ),
            Self::Cancel => (
                "Stops a job. A job that has already ended is not changed.".to_owned(),
                rmcp::object!({"type": "object", "properties": {"job_id": job_id}, "required": ["job_id"]}),
                ToolAnnotations::new().read_only(false).destructive(true).idempotent(true).open_world(false),
            ),
        };
        Tool::new(self.name(), description, schema).with_annotations(annotations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cadence_is_every_second_then_every_five_then_every_thirty() {
        let asked = [0, 9_999, 10_000, 59_999, 60_000, 3_600_000].map(cadence_s);
        assert_eq!(asked, [1, 1, 5, 5, 30, 30]);
    }
}
