//! Why a data set could not be profiled, in sentences that say what the caller can change.

/// A refusal or failure of `profile_dataset`. The text is for the caller and never contains any of the data.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The arguments contradict each other or are out of range.
    #[error("{0}")]
    Arguments(String),
    /// The source may not be read, cannot be reached, has changed, or is not what this tool reads.
    #[error("{0}")]
    Refused(String),
    /// Reading failed; a retry may help.
    #[error("the source could not be read")]
    Read(#[from] std::io::Error),
    /// A part of this tool failed.
    #[error("internal error: {0}")]
    Internal(&'static str),
}

/// The error that says `why` the source is not profiled.
pub(super) fn refused(why: impl Into<String>) -> ProfileError {
    ProfileError::Refused(why.into())
}

/// The error for a source that is no longer what it was.
pub(super) fn changed() -> ProfileError {
    refused("the source changed while it was being profiled: call the tool again")
}
