//! Finding the operation that a request is about, by its token.

use longhaul_core::{OwnerId, Task, TaskId, TaskKey, Timestamp};
use longhaul_engine::PollError;
use rmcp::ErrorData;
use serde::Deserialize;

use crate::dialect::Endpoint;
use crate::shared::incoming::Incoming;
use crate::shared::{Shared, derived, errors};

/// The tool that a call names.
#[derive(Deserialize)]
pub(super) struct Named {
    pub(super) name: String,
}

#[derive(Deserialize)]
struct WithToken {
    token: String,
}

/// The key of the operation to which the client gave this token.
pub(super) fn key_of_token(owner: &OwnerId, token: &str) -> TaskKey {
    derived::task_key(owner, Timestamp::from_ms(0), &[b"operation", token.as_bytes()])
}

/// The task of this token: the one that the client named, or the one whose id it is.
pub(super) async fn find(shared: &Shared, owner: &OwnerId, token: &str) -> Result<Task, PollError> {
    match shared.engine.poll(&key_of_token(owner, token)).await {
        Err(PollError::NotFound) => match token.parse::<TaskId>() {
            Ok(id) => shared.engine.poll(&TaskKey::new(*owner, id)).await,
            Err(_no_id) => Err(PollError::NotFound),
        },
        found => found,
    }
}

/// The token and the task that a request is about.
pub(super) async fn operation(call: &Incoming<'_>, endpoint: &Endpoint) -> Result<(String, Task), ErrorData> {
    let WithToken { token } = call.params().ok_or_else(|| not_retrieved("`token` is missing or not a string"))?;
    match find(endpoint.shared(), &call.owner, &token).await {
        Ok(task) => Ok((token, task)),
        Err(PollError::NotFound) => Err(not_retrieved("Operation not found")),
        Err(error @ PollError::Unavailable(_)) => Err(errors::of_poll(error)),
    }
}

pub(super) fn not_retrieved(why: &str) -> ErrorData {
    ErrorData::invalid_params(format!("Failed to retrieve operation: {why}"), None)
}
