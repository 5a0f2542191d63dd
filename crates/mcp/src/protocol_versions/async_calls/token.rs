//! The tokens of calls, and finding the call that a request names.

use longhaul_core::{OwnerId, Task, TaskKey};
use longhaul_engine::PollError;
use rmcp::ErrorData;
use serde::{Deserialize, Serialize};

use crate::protocol_version::Endpoint;
use crate::shared::incoming::Incoming;
use crate::shared::signer::Purpose;
use crate::shared::{Shared, errors};

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

/// The parameters of a method that names a call.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Named {
    pub(super) token: Token,
    pub(super) keep_alive: Option<u64>,
    pub(super) timeout: Option<f64>,
}

/// Reads these parameters.
///
/// # Errors
/// `-32602`
pub(super) fn named(call: &Incoming<'_>) -> Result<Named, ErrorData> {
    call.params().ok_or_else(|| {
        let message = format!("{} takes a `token`, which is a string or an integer; times are in seconds", call.method);
        ErrorData::invalid_params(message, None)
    })
}

pub(super) fn no_such_call() -> ErrorData {
    ErrorData::invalid_params("there is no call with this token", None)
}

/// The task of a token.
pub(super) async fn task(call: &Incoming<'_>, endpoint: &Endpoint, token: &Token) -> Result<Task, ErrorData> {
    let key = token.key(&call.owner).ok_or_else(no_such_call)?;
    match endpoint.shared().engine.poll(&key).await {
        Ok(task) => Ok(task),
        Err(PollError::NotFound) => Err(no_such_call()),
        Err(error @ PollError::Unavailable(_)) => Err(errors::of_poll(error)),
    }
}
