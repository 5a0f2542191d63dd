//! `profile_dataset`: describes every column of a CSV or JSON Lines source in constant memory.
//!
//! The source is read in chunks ([`profile_chunk`]), one durable step each. A step's value is the [`State`] from which
//! the next chunk continues, so a killed run repeats at most one chunk. A [`column`] counts its values in a table of
//! bounded size and in sketches.

mod arguments;
mod chunk;
mod column;
mod report;
mod sniff;
pub(crate) mod source;
mod state;
mod tool;
mod value;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use chunk::{COLUMNS_MAX, Progress, RECORD_BYTES_MAX, profile_chunk};
pub use column::KindCounts;
pub use report::{
    ColumnProfile, ColumnType, DatasetProfile, FrequentValue, QuantileMethod, QuantileValues, ReportedFormat, Scalar,
};
pub use sniff::{FormatChoice, HeaderRow, Reading};
pub use state::State;

/// A refusal or failure of `profile_dataset`. The text is for the caller and never contains any of the data.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub enum ProfileError {
    /// The arguments contradict each other or are out of range.
    #[error("{0}")]
    Arguments(String),
    /// The source may not be read, cannot be reached, has changed, or is not what this tool reads.
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
fn refused(why: impl Into<String>) -> ProfileError {
    ProfileError::Refused(why.into())
}

/// The error for a source that is no longer what it was.
fn changed() -> ProfileError {
    refused("the source changed while it was being profiled: call the tool again")
}
