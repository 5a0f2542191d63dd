//! `profile_dataset`: describes every column of a CSV or JSON Lines source in constant memory.
//!
//! The source is read in chunks ([`profile_chunk`]), one durable step each. A step's value is the [`State`] from which
//! the next chunk continues, so a killed run repeats at most one chunk. A [`column`] counts its values in a table of
//! bounded size and in sketches.

mod arguments;
mod chunk;
mod column;
mod error;
mod report;
mod sniff;
pub(crate) mod source;
mod state;
mod tool;
mod value;

pub use chunk::{COLUMNS_MAX, Progress, RECORD_BYTES_MAX, profile_chunk};
pub use column::KindCounts;
pub use error::{ProfileError, ReadError};
pub use report::{
    ColumnProfile, ColumnType, DatasetProfile, FrequentValue, QuantileMethod, QuantileValues, ReportedFormat, Scalar,
};
pub use sniff::{FormatChoice, HeaderRow, Reading};
pub use state::State;
