//! Asynchronous calls on the wire: the tokens of calls, finding the call that a request names, and the resource that
//! shows how far a call is. Progress notifications name that resource, and no list does; it exists as long as the task.

use http::Response;
use longhaul_core::{OwnerId, Progress, Task, TaskKey, Timestamp};
use longhaul_engine::PollError;
use rmcp::ErrorData;
use rmcp::model::{ErrorCode, ProgressToken, RequestId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Body;
use crate::admission::polls::NotPolled;
use crate::protocol_version::Endpoint;
use crate::reply::{self, errors};
use crate::request::incoming::Incoming;
use crate::signing::signer::Purpose;
use crate::state::Shared;
use crate::tool_calls::asking::RELATED_TASK;
use crate::views::fields::{self, Outcome};

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
    fields::progress_notification(token, progress, [("resourceUri", resource_uri(task).into())])
}

/// `notifications/cancelled`, for the request that waits.
pub(super) fn cancelled(request: &RequestId) -> String {
    let params = json!({"requestId": request, "reason": "the call was cancelled"});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string()
}

/// "Used by the client to reference a previous async tool call": a string or an integer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub(super) enum Token {
    Text(String),
    Number(i64),
}

impl Token {
    /// The task that it names; `None` if it is not the id of a task.
    pub(super) fn key(&self, owner: &OwnerId) -> Option<TaskKey> {
        match self {
            Self::Text(text) => text.parse().ok().map(|id| TaskKey::new(*owner, id)),
            Self::Number(_) => None,
        }
    }

    /// Why the call with this token was not accepted; `None` if it was.
    pub(super) fn rejection(&self, shared: &Shared, owner: &OwnerId) -> Option<String> {
        match self {
            Self::Text(text) => shared.signer.verify(Purpose::Rejection, owner, text),
            Self::Number(_) => None,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Named {
    pub(super) token: Token,
    pub(super) keep_alive: Option<u64>,
    pub(super) timeout: Option<f64>,
}

/// Reads these parameters. Fails with `-32602`.
pub(super) fn named(call: &Incoming<'_>) -> Result<Named, ErrorData> {
    call.params().ok_or_else(|| {
        let message = format!("{} takes a `token`, which is a string or an integer; times are in seconds", call.method);
        ErrorData::invalid_params(message, None)
    })
}

pub(super) fn no_such_call() -> ErrorData {
    ErrorData::invalid_params("there is no call with this token", None)
}

pub(super) async fn task(call: &Incoming<'_>, endpoint: &Endpoint, token: &Token) -> Result<Task, ErrorData> {
    let key = token.key(&call.owner).ok_or_else(no_such_call)?;
    match endpoint.shared().engine.poll(&key).await {
        Ok(task) => Ok(task),
        Err(PollError::NotFound) => Err(no_such_call()),
        Err(error @ PollError::Unavailable(_)) => Err(errors::of_poll(error)),
    }
}

const SCHEME: &str = "longhaul://tasks/";

/// The code of older revisions for this.
const RESOURCE_NOT_FOUND: ErrorCode = ErrorCode(-32_002);

fn resource_uri(task: &Task) -> String {
    format!("{SCHEME}{}", task.id)
}

/// Answers `resources/read`; `None` if the resource is not one of ours.
pub(super) async fn read_resource(call: &Incoming<'_>, endpoint: &Endpoint) -> Option<Response<Body>> {
    let uri = call.members.text("uri")?;
    let id = uri.strip_prefix(SCHEME)?;
    let found = match id.parse() {
        Ok(id) => endpoint.shared().polls.poll(&TaskKey::new(call.owner, id)).await,
        Err(_no_id) => Err(NotPolled::Failed(PollError::NotFound)),
    };
    let contents = match found {
        Ok(task) => contents(endpoint, &uri, &task).await,
        Err(NotPolled::Failed(PollError::NotFound)) => {
            Err(ErrorData::new(RESOURCE_NOT_FOUND, "there is no such resource", Some(json!({"uri": uri}))))
        }
        Err(error) => Err(error.or(errors::of_poll)),
    };
    Some(reply::outcome(&call.id, contents))
}

async fn contents(endpoint: &Endpoint, uri: &str, task: &Task) -> Result<String, ErrorData> {
    let variables = fields::variables(&endpoint.shared().engine, task).await?.unwrap_or_else(|| json!({}));
    let state = json!({"status": task.status().as_str(), "progress": task.progress, "variables": variables});
    let text = state.to_string();
    Ok(json!({"contents": [{"uri": uri, "mimeType": "application/json", "text": text}]}).to_string())
}
