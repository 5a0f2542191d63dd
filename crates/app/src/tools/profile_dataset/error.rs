//! Why a data set is not profiled.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// A refusal or failure of `profile_dataset`. The text is for the caller and never contains any of the data.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub enum ProfileError {
    /// The arguments contradict each other or are out of range.
    #[error("{0}")]
    Arguments(String),
    /// The source may not be read, cannot be reached, has changed, or has a format that this tool does not read.
    #[error("{0}")]
    Refused(String),
    /// Reading failed; a retry may help.
    #[error("the source could not be read")]
    Read(#[source] ReadError),
    /// A part of this tool failed.
    #[error("internal error: {0}")]
    Internal(Cow<'static, str>),
}

/// The cause of a source that could not be read: for the log.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[error("{0}")]
pub struct ReadError(String);

impl From<std::io::Error> for ProfileError {
    fn from(error: std::io::Error) -> Self {
        Self::Read(ReadError(error.to_string()))
    }
}

/// The error that says `why` the source is not profiled.
pub(super) fn refused(why: impl Into<String>) -> ProfileError {
    ProfileError::Refused(why.into())
}

/// The error for a source that has changed.
pub(super) fn changed() -> ProfileError {
    refused("the source changed while it was being profiled: call the tool again")
}
