//! One block of records, split: for each column, where its values are in the block's text.

/// Where a value is in the text, in bytes; [`Span::MISSING`] if the record has no such value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    start: u32,
    length: u32,
}

impl Span {
    /// The record has no value for this column.
    pub const MISSING: Self = Self { start: 0, length: u32::MAX };

    /// The bytes from `start` to `end`. A block is far below 4 GiB; what cannot be addressed counts as missing.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Self {
        match (u32::try_from(start), u32::try_from(end.saturating_sub(start))) {
            (Ok(start), Ok(length)) => Self { start, length },
            (Err(_), _) | (_, Err(_)) => Self::MISSING,
        }
    }

    /// The value's bytes; none if it is missing.
    #[must_use]
    pub fn of(self, text: &[u8]) -> &[u8] {
        let start = self.start as usize;
        start.checked_add(self.length as usize).and_then(|end| text.get(start..end)).unwrap_or_default()
    }
}

/// The values of a block by column, in the order of the records.
#[derive(Debug, Default)]
pub struct Grid {
    /// What the spans point into: the block, or its fields with quotes resolved.
    pub text: Vec<u8>,
    /// One list per column. A list may be shorter than `rows`: the rest is missing.
    pub columns: Vec<Vec<Span>>,
    /// Records in the block.
    pub rows: usize,
    /// Records whose number of fields differs from the number of columns.
    pub ragged: u64,
    /// Lines that are not a record (JSON Lines only).
    pub malformed: u64,
    /// Lines that are not valid UTF-8 (JSON Lines only).
    pub invalid_lines: u64,
}

impl Grid {
    /// Empties the grid and gives it `columns` columns; keeps the memory.
    pub fn reset(&mut self, columns: usize) {
        self.text.clear();
        self.columns.resize_with(columns, Vec::new);
        self.columns.iter_mut().for_each(Vec::clear);
        self.rows = 0;
        self.ragged = 0;
        self.malformed = 0;
        self.invalid_lines = 0;
    }
}
