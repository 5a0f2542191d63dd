//! Finding the operation that a request is about, by its token.

use longhaul_core::{OwnerId, Task, TaskId, TaskKey, Timestamp};
use longhaul_engine::PollError;
use rmcp::ErrorData;
use serde::Deserialize;

use crate::protocol_version::Endpoint;
use crate::shared::incoming::Incoming;
use crate::shared::polls::NotPolled;
use crate::shared::scope::Scope;
use crate::shared::{Shared, errors};

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
///
/// # Errors
/// `-32600` if the token is valid nowhere.
pub(super) fn key_of_token(shared: &Shared, owner: &OwnerId, scope: &Scope, token: &str) -> Result<TaskKey, ErrorData> {
    let parts = [b"operation", scope.of_name("a token that you choose")?, token.as_bytes()];
    Ok(shared.names.task_key(owner, Timestamp::from_ms(0), &parts))
}

/// The task whose id this is.
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
    let WithToken { token } = call.params().ok_or_else(|| not_retrieved("`token` is missing or not a string"))?;
    match find(call, endpoint.shared(), &token).await? {
        Ok(task) => Ok((token, task)),
        Err(PollError::NotFound) => Err(not_retrieved("Operation not found")),
        Err(error @ PollError::Unavailable(_)) => Err(errors::of_poll(error)),
    }
}

pub(super) fn not_retrieved(why: &str) -> ErrorData {
    ErrorData::invalid_params(format!("Failed to retrieve operation: {why}"), None)
}
