//! A stream of bytes, cut into blocks that end where a record ends.

use std::io::Read;

use super::error::ProfileError;
use super::limits::RECORD_BYTES_MAX;

/// How the end of a record is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordEnd {
    /// A line feed outside quotes; a quote opens only at the start of a field.
    Csv {
        /// Separates fields.
        delimiter: u8,
    },
    /// Every line feed.
    Line,
}

impl RecordEnd {
    /// One past the last byte of the last whole record in `text`, which starts where a record starts.
    fn last_in(self, text: &[u8]) -> Option<usize> {
        match self {
            Self::Line => memchr::memrchr(b'\n', text).map(|at| at + 1),
            Self::Csv { delimiter } => last_unquoted_line_end(text, delimiter),
        }
    }

    const fn format(self) -> &'static str {
        match self {
            Self::Csv { .. } => "CSV",
            Self::Line => "JSON Lines",
        }
    }
}

/// Goes from quote to quote: what is between two quoted fields is searched only for its last line end.
fn last_unquoted_line_end(text: &[u8], delimiter: u8) -> Option<usize> {
    let mut last = None;
    let mut outside = 0;
    loop {
        let rest = text.get(outside..).unwrap_or_default();
        let opening = next_opening(text, outside, delimiter);
        let segment = rest.get(..opening.map_or(rest.len(), |at| at - outside));
        if let Some(at) = memchr::memrchr(b'\n', segment.unwrap_or_default()) {
            last = Some(outside + at + 1);
        }
        match opening.and_then(|at| closing(text, at)) {
            Some(after) => outside = after,
            None => return last,
        }
    }
}

/// The next quote, from `from`, that opens a field.
fn next_opening(text: &[u8], from: usize, delimiter: u8) -> Option<usize> {
    let mut search = from;
    loop {
        let at = search + memchr::memchr(b'"', text.get(search..)?)?;
        let before = at.checked_sub(1).and_then(|before| text.get(before));
        match before {
            None | Some(b'\n' | b'\r') => return Some(at),
            Some(byte) if *byte == delimiter => return Some(at),
            Some(_) => search = at + 1,
        }
    }
}

/// One past the quote that closes the field opened at `opening`; `None` if the text ends before that is certain.
fn closing(text: &[u8], opening: usize) -> Option<usize> {
    let mut search = opening + 1;
    loop {
        let at = search + memchr::memchr(b'"', text.get(search..)?)?;
        match text.get(at + 1) {
            Some(b'"') => search = at + 2,
            Some(_) => return Some(at + 1),
            None => return None,
        }
    }
}

/// Reads blocks of whole records.
#[derive(Debug)]
pub struct Blocks<R> {
    reader: R,
    record_end: RecordEnd,
    block_bytes: usize,
    /// What was read after the last whole record.
    carry: Vec<u8>,
    /// The position in the source of the first byte that no block has held yet.
    offset: u64,
    at_end: bool,
}

impl<R: Read> Blocks<R> {
    /// Cuts what `reader` gives, which begins at `offset` of the source, into blocks of about `block_bytes`.
    pub fn new(reader: R, offset: u64, record_end: RecordEnd, block_bytes: usize) -> Self {
        Self { reader, record_end, block_bytes: block_bytes.max(1), carry: Vec::new(), offset, at_end: false }
    }

    /// The position in the source after the last block.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Replaces the content of `block` by the next block. Returns its length in bytes, 0 at the end.
    ///
    /// # Errors
    ///
    /// [`ProfileError::RecordTooLong`] if no record ends within [`RECORD_BYTES_MAX`]; [`ProfileError::Read`].
    pub fn next_into(&mut self, block: &mut Vec<u8>) -> Result<usize, ProfileError> {
        block.clear();
        block.append(&mut self.carry);
        let mut wanted = self.block_bytes;
        loop {
            self.fill(block, wanted)?;
            let end = match self.record_end.last_in(block) {
                Some(_) | None if self.at_end => block.len(),
                Some(end) => end,
                None if block.len() > RECORD_BYTES_MAX => return Err(self.too_long()),
                None => {
                    wanted = (block.len() * 2).clamp(wanted, (RECORD_BYTES_MAX + 1).max(wanted));
                    continue;
                }
            };
            self.carry.extend_from_slice(block.get(end..).unwrap_or_default());
            block.truncate(end);
            self.offset += end as u64;
            return Ok(end);
        }
    }

    fn fill(&mut self, block: &mut Vec<u8>, wanted: usize) -> Result<(), ProfileError> {
        while !self.at_end && block.len() < wanted {
            let missing = (wanted - block.len()) as u64;
            let read = self.reader.by_ref().take(missing).read_to_end(block)?;
            self.at_end = read == 0;
        }
        Ok(())
    }

    const fn too_long(&self) -> ProfileError {
        ProfileError::RecordTooLong { offset: self.offset, max: RECORD_BYTES_MAX, format: self.record_end.format() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::csv_records::CsvRecords;
    use super::super::grid::Grid;
    use super::*;

    const CSV: RecordEnd = RecordEnd::Csv { delimiter: b',' };

    fn blocks(text: &[u8], block_bytes: usize) -> Vec<Vec<u8>> {
        let mut blocks = Blocks::new(text, 0, CSV, block_bytes);
        let mut all = Vec::new();
        let mut block = Vec::new();
        while blocks.next_into(&mut block).unwrap() > 0 {
            all.push(block.clone());
        }
        assert_eq!(blocks.offset(), text.len() as u64);
        all
    }

    fn records(block: &[u8]) -> Vec<Vec<String>> {
        let mut grid = Grid::default();
        CsvRecords::new(b',', 3).split(&mut block.to_vec(), &mut grid);
        (0..grid.rows)
            .map(|row| {
                let cell = |column: &Vec<_>| -> super::super::grid::Span { column[row] };
                grid.columns
                    .iter()
                    .map(|column| String::from_utf8_lossy(cell(column).of(&grid.text)).into_owned())
                    .collect()
            })
            .collect()
    }

    #[test]
    fn a_line_end_inside_quotes_ends_no_block() {
        assert_eq!(CSV.last_in(b"a,\"1\n2\n3"), None);
        assert_eq!(CSV.last_in(b"a,\"1\n2\"\n3\n,\"\n"), Some(10));
        assert_eq!(RecordEnd::Line.last_in(b"a,\"1\n2"), Some(5));
    }

    #[test]
    fn a_quote_in_the_middle_of_a_field_is_only_a_character() {
        let text = b"5\" pipe,x\n6\" pipe,y\n";
        assert_eq!(blocks(text, 10).len(), 2);
    }

    #[test]
    fn a_quote_that_is_never_closed_is_an_error_and_does_not_fill_the_memory() {
        let text = format!("a,b\n\"{}", "x\n".repeat(RECORD_BYTES_MAX));
        let mut blocks = Blocks::new(text.as_bytes(), 0, CSV, 1024);
        let mut block = Vec::new();
        assert_eq!(blocks.next_into(&mut block).unwrap(), 4);
        let outcome = blocks.next_into(&mut block);
        assert!(matches!(outcome, Err(ProfileError::RecordTooLong { offset: 4, .. })), "{outcome:?}");
    }

    proptest! {
        #[test]
        fn blocks_hold_the_records_of_the_whole_text(text in "[ab,\"\r\n]{0,80}", block_bytes in 1_usize..20) {
            let whole = records(text.as_bytes());
            let parts: Vec<_> = blocks(text.as_bytes(), block_bytes).iter().flat_map(|block| records(block)).collect();
            prop_assert_eq!(parts, whole);
        }
    }
}
