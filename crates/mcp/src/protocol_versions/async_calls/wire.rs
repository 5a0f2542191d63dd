//! Asynchronous calls on the wire.

use longhaul_core::{Progress, Task, Timestamp};
use rmcp::ErrorData;
use rmcp::model::{ProgressToken, RequestId};
use serde_json::{Value, json};

use super::resource;
use crate::shared::asking::RELATED_TASK;
use crate::shared::errors;
use crate::views::fields;
use crate::views::outcome::Outcome;

/// When the server got the call, in seconds of Unix time: the draft has no field for it.
const RECEIVED: &str = "dev.longhaul/received";

/// `CallToolAsyncResult` of an accepted call. Its `_meta` names the task, for clients that also speak other protocol
/// versions.
pub(super) fn accepted(task: &Task, now: Timestamp) -> String {
    // After the end of the task: the time that is left.
    let kept_ms = task.ended_at.map_or(task.terms.retention_ms, |ended_at| {
        ended_at.plus_ms(task.terms.retention_ms).max(task.expires_at).since_ms(now)
    });
    json!({
        "accepted": true,
        "token": task.id.to_string(),
        "keepAlive": kept_ms / 1_000,
        "_meta": {
            RECEIVED: task.created_at.as_ms() / 1_000,
            RELATED_TASK: {"taskId": task.id.to_string()},
        },
    })
    .to_string()
}

/// The answer to a client that asked for the result of a call that has ended.
pub(super) fn ended(outcome: Outcome) -> Result<String, ErrorData> {
    match outcome {
        Outcome::Result(result) => Ok(Value::Object(result).to_string()),
        Outcome::Error(error) => Err(errors::for_older(error)),
        Outcome::Cancelled => Ok(failed("the call was cancelled")),
    }
}

/// A `CallToolResult` that says why the call has no result.
pub(super) fn failed(why: &str) -> String {
    json!({"content": [{"type": "text", "text": why}], "isError": true}).to_string()
}

/// The `CallToolResult` of a call that has not ended.
pub(super) fn pending(progress: Option<String>) -> String {
    let content: Vec<Value> = progress.iter().map(|text| json!({"type": "text", "text": text})).collect();
    json!({"content": content, "isPending": true}).to_string()
}

/// `notifications/progress`, with the resource that shows how far the call is.
pub(super) fn progress(token: &ProgressToken, task: &Task, progress: &Progress) -> String {
    fields::progress_notification(token, progress, [("resourceUri", resource::uri(task).into())])
}

/// `notifications/cancelled`, for the request that waits.
pub(super) fn cancelled(request: &RequestId) -> String {
    let params = json!({"requestId": request, "reason": "the call was cancelled"});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string()
}
