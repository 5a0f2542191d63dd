//! Why a server could not be reached, or did not answer.

use rmcp::ErrorData;

/// Why there is no connection, or none any more. Its text is for operators and callers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub(crate) struct ConnectError {
    pub(super) why: String,
    /// Whether it may be different the next time.
    pub(crate) lasting: Retry,
}

/// Why a request to a server has no result.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The server could not be reached, or did not answer: it may at the next poll.
    Lost(String),
    /// It answered, with an error: there is nothing to wait for.
    Refused(ErrorData),
}

pub(crate) fn failed(why: &str) -> ErrorData {
    ErrorData::internal_error(why.to_owned(), None)
}

/// Whether another try can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// Not before the operator changes the configuration or installs something.
    Yes,
    /// Perhaps.
    No,
}
