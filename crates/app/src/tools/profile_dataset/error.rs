//! Why a data set could not be profiled, in texts that say what the caller can change.

use thiserror::Error;

/// A refusal or failure of `profile_dataset`. The text is for the caller and never contains any of the data.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// The arguments contradict each other or are out of range.
    #[error("{0}")]
    Arguments(String),
    /// The source is not in a text format that this tool reads.
    #[error("{0}")]
    Format(String),
    /// One record is too long to be held in memory.
    #[error(
        "the record that starts at byte {offset} is longer than {max} bytes: is a quote left open, or is the file not {format}?"
    )]
    RecordTooLong {
        /// Where the record starts.
        offset: u64,
        /// The limit.
        max: usize,
        /// The format that the file was read as.
        format: &'static str,
    },
    /// More columns than can be described in a bounded state.
    #[error("the data set has more than {max} columns: select the ones of interest first")]
    TooManyColumns {
        /// The limit.
        max: usize,
    },
    /// The source may not be read.
    #[error("{0}")]
    Refused(String),
    /// The source has changed since the task began.
    #[error("the source changed while it was being profiled: call the tool again")]
    Changed,
    /// Reading failed; a retry may help.
    #[error("the source could not be read")]
    Read(#[source] std::io::Error),
    /// The server behind a URL could not be reached or answered with an error.
    #[error("{0}")]
    Remote(String),
    /// The caller no longer waits.
    #[error("stopped")]
    Stopped,
    /// A recorded state cannot be read back, or a part of this tool failed.
    #[error("internal error: {0}")]
    Internal(&'static str),
}

impl From<std::io::Error> for ProfileError {
    fn from(error: std::io::Error) -> Self {
        Self::Read(error)
    }
}
