//! Why a request has no result.

use std::time::Duration;

use serde_json::Value;

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing was sent.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// The request was sent, and its answer did not come: the server may have done what it asks for.
    #[error("the answer was lost: {0}")]
    Lost(String),
    /// The server wants to know who calls, or does not let this caller in.
    #[error("the server refuses this caller: {0}")]
    NotSignedIn(String),
    /// There is nothing that could show the server who calls. Nothing was sent, or it was refused.
    #[error("{0}")]
    NoCredentials(String),
    /// The server has too much to do, and wants to be asked later.
    #[error("the server is busy (status {status}){}", later(*after))]
    Busy {
        /// The HTTP status.
        status: u16,
        /// How long it wants to be left alone.
        after: Option<Duration>,
    },
    /// The server does not know the session any more.
    #[error("the server does not know the session any more")]
    SessionGone,
    /// The server answered with an error.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// The server does not do this.
    #[error("{0}")]
    Unsupported(String),
    /// The server answered with something that is not a valid answer.
    #[error("the server does not answer as an MCP server would: {0}")]
    Unexpected(String),
}

impl Error {
    /// Whether the same request may get another answer later.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Lost(_) | Self::Busy { .. } | Self::SessionGone)
    }

    /// Whether the server has certainly not done what it was asked for: it has not got the request, or had no time for
    /// it.
    #[must_use]
    pub const fn has_done_nothing(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Busy { .. })
    }

    /// How long the server wants to be left alone, if it says so.
    #[must_use]
    pub const fn after(&self) -> Option<Duration> {
        match self {
            Self::Busy { after, .. } => *after,
            _ => None,
        }
    }

    /// Whether the server refused the parameters (`-32602`): an unknown tool or task, or arguments that do not fit.
    #[must_use]
    pub const fn is_about_params(&self) -> bool {
        matches!(self, Self::Refused(Refusal { code: -32602, .. }))
    }
}

fn later(after: Option<Duration>) -> String {
    after.map(|after| format!(", and wants to be asked again in {} s", after.as_secs())).unwrap_or_default()
}

/// An error of JSON-RPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its code.
    pub code: i64,
    /// The server's message.
    pub message: String,
    /// The server's further data.
    pub data: Option<Value>,
}

impl Refusal {
    /// An error as it is in messages and tasks.
    #[must_use]
    pub fn of(error: &Value) -> Self {
        let message = error["message"].as_str().filter(|message| !message.trim().is_empty());
        Self {
            code: error["code"].as_i64().unwrap_or_default(),
            message: message.unwrap_or("an error without a message").to_owned(),
            data: error.get("data").cloned(),
        }
    }
}

/// An error with its causes, without those that its text has already.
#[must_use]
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
