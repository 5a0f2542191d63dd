//! The sentences of a page that cannot show what was requested.

use http::StatusCode;
use longhaul_client::text::block;
use longhaul_client::{Error, with_causes};

use crate::limits::PROBLEM_CHARS_MAX;

/// A sentence that is shown instead of the requested page.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) title: &'static str,
    sentence: String,
    /// Whether the same request may be answered otherwise soon.
    pub(crate) may_pass: bool,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, title: &'static str, sentence: impl Into<String>) -> Self {
        Self { status, title, sentence: sentence.into(), may_pass: false }
    }

    pub(crate) fn forbidden(sentence: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Not allowed", sentence)
    }

    pub(crate) fn not_found(sentence: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "Not found", sentence)
    }

    pub(crate) fn sentence(&self) -> &str {
        &self.sentence
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let why = block(&with_causes(&error), PROBLEM_CHARS_MAX);
        let (status, title, sentence) = match &error {
            Error::Unreachable(_) | Error::Lost(_) => {
                (StatusCode::BAD_GATEWAY, "The server does not answer", format!("The server does not answer: {why}."))
            }
            Error::Busy { .. } | Error::SessionGone => {
                (StatusCode::SERVICE_UNAVAILABLE, "The server is busy", format!("Not now: {why}."))
            }
            Error::NotSignedIn(_) | Error::NoCredentials(_) => {
                (StatusCode::BAD_GATEWAY, "The server does not let the console in", why)
            }
            Error::Refused(_) if error.is_about_params() => (
                StatusCode::NOT_FOUND,
                "Not found",
                format!("The server does not have this, or no longer has it: {why}"),
            ),
            Error::Refused(_) => (StatusCode::BAD_GATEWAY, "The server refuses", why),
            Error::Unsupported(_) => (StatusCode::NOT_IMPLEMENTED, "The server does not have this", why),
            Error::Unexpected(_) => (StatusCode::BAD_GATEWAY, "The server's answer is not understood", why),
        };
        Self { status, title, sentence, may_pass: error.may_pass() }
    }
}
