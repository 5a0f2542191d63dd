//! The state between two chunks, as it is recorded in a step.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::{Deserialize, Serialize};

use super::column::{Column, ColumnRecord};
use super::error::ProfileError;
use super::lane::Tally;
use super::sniff::Format;

/// The version of the recorded state. Another version is refused, never misread.
const VERSION: u8 = 1;

/// Everything that the next chunk needs.
#[derive(Debug, Clone)]
pub struct State {
    /// How the source is written.
    pub format: Format,
    /// Where the next chunk starts, in bytes.
    pub offset: u64,
    /// What has been counted so far.
    pub tally: Tally,
}

/// What one step records for the next: small enough for a journal, with what progress needs as plain fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Where the next chunk starts, in bytes from the start of the source.
    pub offset: u64,
    /// Records counted so far.
    pub rows: u64,
    /// The counts and sketches, base64 of their binary form.
    state: String,
}

#[derive(Serialize, Deserialize)]
struct StateRecord {
    version: u8,
    format: Format,
    ragged: u64,
    malformed: u64,
    invalid_lines: u64,
    columns: Vec<ColumnRecord>,
}

impl State {
    /// Records the state.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Internal`] if a sketch cannot be written.
    pub fn record(self) -> Result<Checkpoint, ProfileError> {
        let record = StateRecord {
            version: VERSION,
            format: self.format,
            ragged: self.tally.ragged,
            malformed: self.tally.malformed,
            invalid_lines: self.tally.invalid_lines,
            columns: self.tally.columns.into_iter().map(Column::record).collect::<Result<_, _>>()?,
        };
        let bytes = postcard::to_stdvec(&record).map_err(|_unserialisable| ProfileError::Internal("state"))?;
        Ok(Checkpoint { offset: self.offset, rows: self.tally.rows, state: STANDARD_NO_PAD.encode(bytes) })
    }
}

impl Checkpoint {
    /// The state that was recorded.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Internal`] if the record is damaged or of another version.
    pub fn state(&self) -> Result<State, ProfileError> {
        let damaged = ProfileError::Internal("unreadable checkpoint");
        let Ok(bytes) = STANDARD_NO_PAD.decode(&self.state) else {
            return Err(damaged);
        };
        let Ok(record) = postcard::from_bytes::<StateRecord>(&bytes) else {
            return Err(damaged);
        };
        if record.version != VERSION {
            return Err(ProfileError::Internal("checkpoint of another version"));
        }
        let columns = record.columns.into_iter().map(Column::restore);
        Ok(State {
            format: record.format,
            offset: self.offset,
            tally: Tally {
                rows: self.rows,
                ragged: record.ragged,
                malformed: record.malformed,
                invalid_lines: record.invalid_lines,
                columns: columns.collect::<Result<_, _>>()?,
            },
        })
    }

    /// The size of the recorded state, in bytes.
    #[must_use]
    pub const fn state_bytes(&self) -> usize {
        self.state.len()
    }
}
