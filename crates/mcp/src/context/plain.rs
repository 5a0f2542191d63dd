//! A plain call: its attempt is not stored. Its client gets questions and progress while the call is open.

use longhaul_core::Progress;
use longhaul_engine::Retry;
use rmcp::model::{InputRequest, ProgressNotificationParam, ProgressToken};
use rmcp::{ErrorData, Peer, RoleServer};
use serde_json::Value;

use crate::reply::errors;
use crate::tool_calls::asking;

/// The parts of a plain call that its attempt does not have.
pub(crate) struct PlainCall {
    pub(crate) key: String,
    pub(crate) peer: Peer<RoleServer>,
    /// The token for progress notifications, if the caller wants any.
    pub(crate) progress_token: Option<ProgressToken>,
    pub(crate) rounds: Rounds,
    /// How often steps are tried that do not say it.
    pub(crate) retry: Retry,
    /// Whether `rmcp` alone serves the handler, so that the attempt is not driven.
    pub(crate) is_outside: bool,
}

/// How the tool of a plain call asks the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounds {
    /// The call ends with the questions, since `2026-07-28`.
    Known,
    /// Requests go to the client while the call waits: older revisions.
    Unknown,
    /// The call is not run again with the answers: `2026-07-28` where `rmcp` alone serves the handler.
    Impossible,
}

impl PlainCall {
    /// The error that says what a client would have to declare, with the code of its revision.
    pub(super) fn refusal(&self, error: ErrorData) -> ErrorData {
        match self.rounds {
            Rounds::Known | Rounds::Impossible => error,
            Rounds::Unknown => errors::for_older(error),
        }
    }

    /// The answer of a client that is asked while the call is open; `Err` has the question that ends the call.
    pub(super) async fn ask(&self, key: &str, request: InputRequest) -> Result<Result<Value, ErrorData>, String> {
        match self.rounds {
            Rounds::Known => serde_json::to_string(&request)
                .map_or_else(|error| Ok(Err(errors::internal("a question could not be written", &error))), Err),
            Rounds::Impossible => {
                let message = format!(
                    "the question `{key}` cannot be asked of a client of this revision: serve the handler with Longhaul"
                );
                Ok(Err(ErrorData::invalid_request(message, None)))
            }
            Rounds::Unknown => Ok(asking::ask(&self.peer, request).await),
        }
    }

    pub(super) async fn progress(&self, progress: Progress) {
        let Some(token) = self.progress_token.clone() else { return };
        let mut param = ProgressNotificationParam::new(token, progress.done);
        param.total = progress.total;
        param.message = progress.message;
        if let Err(error) = self.peer.notify_progress(param).await {
            tracing::debug!(%error, "a progress notification was not sent");
        }
    }
}
