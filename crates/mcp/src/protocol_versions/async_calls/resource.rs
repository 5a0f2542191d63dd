//! The resource that shows how far a call is: its status, its progress and its tool's variables. Progress notifications
//! name it, and no list does; it exists as long as the task.

use http::Response;
use longhaul_core::{Task, TaskKey};
use longhaul_engine::PollError;
use rmcp::ErrorData;
use rmcp::model::ErrorCode;
use serde::Deserialize;
use serde_json::json;

use crate::Body;
use crate::protocol_version::Endpoint;
use crate::shared::incoming::Incoming;
use crate::shared::polls::NotPolled;
use crate::shared::{errors, reply};
use crate::views::fields;

const SCHEME: &str = "longhaul://tasks/";

/// The code of older revisions for this.
const RESOURCE_NOT_FOUND: ErrorCode = ErrorCode(-32_002);

/// The URI of the resource of `task`.
pub(super) fn uri(task: &Task) -> String {
    format!("{SCHEME}{}", task.id)
}

#[derive(Deserialize)]
struct Params {
    uri: String,
}

/// Answers `resources/read`; `None` if the resource is not one of ours.
pub(super) async fn answer(call: &Incoming<'_>, endpoint: &Endpoint) -> Option<Response<Body>> {
    let Params { uri } = call.params()?;
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
