//! One chunk of a source, which is one durable step. A chunk depends only on the source's bytes and the state before
//! it. A step that is run twice therefore gives the same result twice.

use std::borrow::Cow;
use std::io::{BufRead, BufReader, Cursor, Read};

use csv::{ByteRecord, ReaderBuilder};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::column::{Column, cut};
use super::error::{ProfileError, refused};
use super::report::DatasetProfile;
use super::sniff::{self, HeaderRow, Reading};
use super::state::State;
use super::value::Kind;

/// The longest record in bytes. A whole record has to be held in memory; a longer one is nearly always a quote that
/// was never closed.
pub const RECORD_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The maximum number of columns in a data set: with more, the recorded state of a step would grow past 3.5 MB.
pub const COLUMNS_MAX: usize = 2_000;

const BUFFER_BYTES: usize = 64 * 1024;

/// Bytes at the start of the source in which its format is detected.
const HEAD_BYTES: u64 = 1024 * 1024;

/// The longest column name in bytes; longer ones are cut.
const NAME_BYTES_MAX: usize = 200;

const UTF8_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The result of a chunk.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// There may be more: continue from here.
    More(State),
    /// The source has been read to its end.
    Done(Box<DatasetProfile>),
}

/// Profiles the chunk after `before`, or the first one. `source` gives the bytes from there on. Blocks the thread.
pub fn profile_chunk(
    mut source: impl Read,
    before: Option<State>,
    reading: &Reading,
) -> Result<Progress, ProfileError> {
    let mut head = Vec::new();
    let mut state = match before {
        Some(state) => state,
        None => {
            source.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
            let mark = if head.starts_with(UTF8_MARK) { UTF8_MARK.len() } else { 0 };
            head.drain(..mark);
            State { delimiter: sniff::delimiter(&head, reading)?, offset: mark as u64, ..State::default() }
        }
    };
    let source = Cursor::new(head).chain(source);
    let is_complete = match state.delimiter {
        Some(delimiter) => state.read_csv(source, delimiter, reading)?,
        None => state.read_json_lines(source, reading)?,
    };
    state.columns.values_mut().for_each(|column| column.end_chunk(is_complete));
    Ok(if is_complete {
        Progress::Done(Box::new(DatasetProfile::of(state, reading.top_values)))
    } else {
        Progress::More(state)
    })
}

impl State {
    /// Returns whether the source has ended.
    fn read_csv(&mut self, source: impl Read, delimiter: u8, reading: &Reading) -> Result<bool, ProfileError> {
        // At its very beginning the reader would drop a byte order mark, but inside of a source it belongs to a field.
        // An empty line is not a record.
        let source = Cursor::new(b"\n").chain(source).take(0);
        let mut reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .buffer_capacity(BUFFER_BYTES)
            .from_reader(source);
        let start = self.offset;
        let mut record = ByteRecord::new();
        loop {
            // The bytes that the reader may take before the record ends: the record, and the bytes that it reads ahead.
            reader.get_mut().set_limit(RECORD_BYTES_MAX + BUFFER_BYTES as u64 + 1);
            let is_record = reader.read_byte_record(&mut record).map_err(|error| match error.into_kind() {
                csv::ErrorKind::Io(error) => error.into(),
                _ => ProfileError::Internal("the CSV reader refuses a record".into()),
            })?;
            let end = (start + reader.position().byte()).saturating_sub(1);
            if reader.get_ref().limit() == 0 || end.saturating_sub(self.offset) > RECORD_BYTES_MAX {
                return Err(self.record_too_long("CSV"));
            }
            self.offset = end;
            if !is_record {
                return Ok(true);
            }
            self.count_record(&record, reading)?;
            if end - start >= reading.chunk_bytes {
                return Ok(false);
            }
        }
    }

    fn count_record(&mut self, record: &ByteRecord, reading: &Reading) -> Result<(), ProfileError> {
        if self.columns.is_empty() {
            self.name_columns(record, reading.header)?;
            if reading.header == HeaderRow::Present {
                return Ok(());
            }
        }
        self.rows += 1;
        self.ragged += u64::from(record.len() != self.columns.len());
        for (column, field) in self.columns.values_mut().zip(record) {
            if !field.is_empty() {
                column.add(field, false, || Kind::of_field(field, &reading.null_values));
            }
        }
        Ok(())
    }

    /// Names all columns: those without a name are numbered, and a name that occurred before gets a number appended.
    fn name_columns(&mut self, first: &ByteRecord, header: HeaderRow) -> Result<(), ProfileError> {
        for (place, field) in first.iter().enumerate() {
            let field = String::from_utf8_lossy(field);
            let wanted = match (header, cut(field.trim(), NAME_BYTES_MAX)) {
                (HeaderRow::Absent, _) | (_, "") => format!("column_{}", place + 1),
                (HeaderRow::Present, name) => name.to_owned(),
            };
            let mut name = wanted.clone();
            let mut number = 2;
            while self.columns.contains_key(&name) {
                name = format!("{wanted}_{number}");
                number += 1;
            }
            self.add_column(name, first.len())?;
        }
        Ok(())
    }

    fn add_column(&mut self, name: String, width: usize) -> Result<usize, ProfileError> {
        if width > COLUMNS_MAX {
            return Err(refused(format!(
                "the data set has more than {COLUMNS_MAX} columns: select some of them first"
            )));
        }
        Ok(self.columns.insert_full(name, Column::new(width)?).0)
    }

    /// Returns whether the source has ended.
    fn read_json_lines(&mut self, source: impl Read, reading: &Reading) -> Result<bool, ProfileError> {
        let mut source = BufReader::with_capacity(BUFFER_BYTES, source);
        let start = self.offset;
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = source.by_ref().take(RECORD_BYTES_MAX + 1).read_until(b'\n', &mut line)? as u64;
            if length == 0 {
                return Ok(true);
            }
            if length > RECORD_BYTES_MAX {
                return Err(self.record_too_long("JSON Lines"));
            }
            self.offset += length;
            self.count_line(&line)?;
            if self.offset - start >= reading.chunk_bytes {
                return Ok(false);
            }
        }
    }

    /// Counts one line of JSON. Blank lines are skipped. If a key occurs twice in an object, the last value counts.
    fn count_line(&mut self, line: &[u8]) -> Result<(), ProfileError> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let line = String::from_utf8_lossy(line);
        self.invalid_lines += u64::from(matches!(line, Cow::Owned(_)));
        let Ok(object) = serde_json::from_str::<IndexMap<Text<'_>, &RawValue>>(&line) else {
            self.malformed += 1;
            return Ok(());
        };
        self.rows += 1;
        for (Text(key), value) in object {
            let name = cut(&key, NAME_BYTES_MAX);
            let place = match self.columns.get_index_of(name) {
                Some(place) => place,
                None => self.add_column(name.to_owned(), self.columns.len() + 1)?,
            };
            if let Some((_, column)) = self.columns.get_index_mut(place) {
                add_json(column, value.get());
            }
        }
        Ok(())
    }

    fn record_too_long(&self, format: &str) -> ProfileError {
        refused(format!(
            "the record that starts at byte {} is longer than {RECORD_BYTES_MAX} bytes: is a quote left open, or is \
             the file not {format}?",
            self.offset
        ))
    }
}

fn add_json(column: &mut Column, token: &str) {
    let Some(quoted) = token.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return column.add(token.as_bytes(), false, || Kind::of_json(token));
    };
    // Half a surrogate pair is JSON, but not text: such a string stays as it is written.
    let Text(text) = serde_json::from_str(token).unwrap_or_else(|_| Text(quoted.into()));
    column.add(text.as_bytes(), true, || Kind::of_text(&text));
}

/// A JSON string, borrowed unless it has escapes (a plain `Cow` would always be copied).
#[derive(PartialEq, Eq, Hash, Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
