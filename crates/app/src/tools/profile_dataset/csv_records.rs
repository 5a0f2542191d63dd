//! A block of whole CSV records, split into a [`Grid`].
//!
//! Blocks without a quote, the common case, are cut at delimiters and line ends in place; all others go through
//! `csv-core`. A test compares the two. Completely empty lines are not records.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::grid::{Grid, Span};

/// Splits blocks of records; reuses its memory from block to block.
#[derive(Debug)]
pub struct CsvRecords {
    delimiter: u8,
    columns: usize,
    ends: Vec<usize>,
}

impl CsvRecords {
    /// For records of `columns` fields, separated by `delimiter`.
    #[must_use]
    pub fn new(delimiter: u8, columns: usize) -> Self {
        Self { delimiter, columns, ends: Vec::new() }
    }

    /// Fills `grid` from `block`, whose memory may be exchanged with the grid's.
    ///
    /// A record with too few fields lacks the last ones; fields beyond the last column are left out; both
    /// are counted as ragged.
    pub fn split(&mut self, block: &mut Vec<u8>, grid: &mut Grid) {
        grid.reset(self.columns);
        if memchr::memchr(b'"', block).is_none() {
            if self.split_plain(block, grid) {
                std::mem::swap(block, &mut grid.text);
                return;
            }
            grid.reset(self.columns);
        }
        self.split_quoted(block, grid);
    }

    /// Without quotes. Returns false if a carriage return is anywhere but before a line feed: such a one ends a
    /// record too, which is rare enough to be left to `csv-core`.
    fn split_plain(&self, block: &[u8], grid: &mut Grid) -> bool {
        let returns = memchr::memchr_iter(b'\r', block).count();
        let mut returns_seen = 0;
        let mut line_start = 0;
        while line_start < block.len() {
            let rest = block.get(line_start..).unwrap_or_default();
            let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let mut line = rest.get(..length).unwrap_or_default();
            if let [inner @ .., b'\r'] = line {
                returns_seen += 1;
                line = inner;
            }
            if !line.is_empty() {
                self.split_line(line, line_start, grid);
            }
            line_start += length + 1;
        }
        returns == returns_seen
    }

    fn split_line(&self, line: &[u8], line_start: usize, grid: &mut Grid) {
        let mut columns = grid.columns.iter_mut();
        let mut field_start = 0;
        let mut fields = 0;
        for end in memchr::memchr_iter(self.delimiter, line).chain(std::iter::once(line.len())) {
            if let Some(column) = columns.next() {
                column.push(Span::new(line_start + field_start, line_start + end));
            }
            fields += 1;
            field_start = end + 1;
        }
        columns.for_each(|column| column.push(Span::MISSING));
        grid.rows += 1;
        grid.ragged += u64::from(fields != self.columns);
    }

    fn split_quoted(&mut self, block: &[u8], grid: &mut Grid) {
        // csv-core never writes more than it reads.
        let mut text = std::mem::take(&mut grid.text);
        text.resize(block.len() + 1, 0);
        self.ends.resize(self.ends.len().max(self.columns + 1), 0);
        let mut reader = reader(self.delimiter);
        // At its very beginning it would drop a byte order mark, which here belongs to a field: a block may begin anywhere.
        // An empty line is no record.
        reader.read_record(b"\n", &mut [], &mut []);
        let (mut read, mut written, mut record_start, mut fields) = (0, 0, 0, 0);
        loop {
            let input = block.get(read..).unwrap_or_default();
            let output = text.get_mut(written..).unwrap_or_default();
            let ends = self.ends.get_mut(fields..).unwrap_or_default();
            let (outcome, consumed, produced, ended) = reader.read_record(input, output, ends);
            read += consumed;
            written += produced;
            fields += ended;
            match outcome {
                // The next call, with nothing left to read, ends a record that has no line end.
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                ReadRecordResult::Record => {
                    self.place(record_start, fields, grid);
                    record_start = written;
                    fields = 0;
                }
                ReadRecordResult::OutputFull | ReadRecordResult::End => break,
            }
        }
        grid.text = text;
    }

    fn place(&self, record_start: usize, fields: usize, grid: &mut Grid) {
        let ends = self.ends.get(..fields).unwrap_or_default();
        let mut start = record_start;
        let mut ends_left = ends.iter();
        for column in &mut grid.columns {
            column.push(match ends_left.next() {
                Some(end) => {
                    let span = Span::new(start, record_start + end);
                    start = record_start + end;
                    span
                }
                None => Span::MISSING,
            });
        }
        grid.rows += 1;
        grid.ragged += u64::from(fields != self.columns);
    }
}

/// The one dialect of CSV that is read here, apart from the delimiter: `"` quotes, doubled inside.
#[must_use]
pub fn reader(delimiter: u8) -> Reader {
    ReaderBuilder::new().delimiter(delimiter).build()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fields(text: &str, columns: usize) -> (Vec<Vec<String>>, u64) {
        let mut grid = Grid::default();
        let mut block = text.as_bytes().to_vec();
        CsvRecords::new(b',', columns).split(&mut block, &mut grid);
        (rows(&grid), grid.ragged)
    }

    fn rows(grid: &Grid) -> Vec<Vec<String>> {
        let cell = |span: &Span| String::from_utf8_lossy(span.of(&grid.text)).into_owned();
        (0..grid.rows).map(|row| grid.columns.iter().map(|column| cell(&column[row])).collect()).collect()
    }

    #[test]
    fn quotes_delimiters_and_line_ends_inside_a_field_are_kept() {
        let (rows, ragged) = fields("a,\"b,\"\"c\"\"\nd\"\r\n1,2\n", 2);
        assert_eq!(rows, [["a", "b,\"c\"\nd"], ["1", "2"]]);
        assert_eq!(ragged, 0);
    }

    #[test]
    fn records_of_another_length_are_counted_and_kept() {
        let (rows, ragged) = fields("1,2,3\n4\n\n5,6\n", 2);
        assert_eq!(rows, [["1", "2"], ["4", ""], ["5", "6"]]);
        assert_eq!(ragged, 2);
    }

    #[test]
    fn more_fields_than_expected_in_a_quoted_record_are_left_out() {
        let line = format!("\"x\"{}\n", ",y".repeat(1000));
        assert_eq!(fields(&line, 1), (vec![vec!["x".to_owned()]], 1));
    }

    proptest! {
        #[test]
        fn the_two_ways_agree_without_quotes(text in "[ab,\r\n]{0,60}") {
            let mut by_reader = Grid::default();
            let mut records = CsvRecords::new(b',', 3);
            by_reader.reset(3);
            records.split_quoted(text.as_bytes(), &mut by_reader);
            let mut grid = Grid::default();
            records.split(&mut text.clone().into_bytes(), &mut grid);
            prop_assert_eq!(rows(&grid), rows(&by_reader));
            prop_assert_eq!(grid.ragged, by_reader.ragged);
        }
    }
}
