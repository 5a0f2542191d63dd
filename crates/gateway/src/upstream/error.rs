//! Why a server could not be reached, or did not answer.

use rmcp::ErrorData;

/// Why there is no connection, or none any more. Its text is for operators and callers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub(crate) struct ConnectError {
    pub(super) why: String,
    /// Whether the same error will come back.
    pub(crate) lasting: Lasting,
}

/// Why a request to a server has no result.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The server could not be reached, or did not answer: the next poll may succeed.
    Lost(String),
    /// It answered, with an error: there is nothing to wait for.
    Refused(ErrorData),
}

pub(crate) fn failed(why: &str) -> ErrorData {
    ErrorData::internal_error(why.to_owned(), None)
}

/// Whether an error comes back at the next try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lasting {
    /// Yes, until an operator changes the configuration or installs something.
    Yes,
    /// Perhaps not.
    No,
}
