//! The statistics of a source after some of its chunks.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::column::Column;

/// Everything that the next chunk needs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct State {
    /// The delimiter of CSV; `None` for JSON Lines.
    pub(super) delimiter: Option<u8>,
    /// Where the next chunk starts, in bytes from the start of the source.
    pub offset: u64,
    pub(super) rows: u64,
    pub(super) ragged: u64,
    pub(super) malformed: u64,
    /// Lines of JSON that are not valid UTF-8.
    pub(super) invalid_lines: u64,
    /// In the order of the source, or in which the keys first occurred.
    pub(super) columns: IndexMap<String, Column>,
}
