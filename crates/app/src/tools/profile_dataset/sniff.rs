//! Detects format, delimiter and column names from the start of a source.

use csv_core::ReadRecordResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::csv_records;
use super::error::ProfileError;
use super::json_lines::cut;
use super::limits::{COLUMNS_MAX, NAME_BYTES_MAX};

/// The delimiters that can be detected, in the order of preference.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Records that are compared to find the delimiter.
const SAMPLE_RECORDS: usize = 50;

const UTF8_MARK: &[u8] = b"\xEF\xBB\xBF";

/// How a source is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Format {
    /// Records of fields.
    Csv {
        /// Separates fields.
        delimiter: u8,
    },
    /// One JSON object per line.
    JsonLines,
}

/// Which format the caller says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FormatChoice {
    /// JSON Lines if the first character is `{`, CSV otherwise.
    #[default]
    Detect,
    /// Comma-separated values, or with another delimiter.
    Csv,
    /// One JSON object per line (NDJSON).
    JsonLines,
}

/// Whether the first record of a CSV source holds the names of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HeaderRow {
    /// It does.
    #[default]
    Present,
    /// It is data; the columns are named `column_1`, `column_2` and so on.
    Absent,
}

/// What the caller says about a source.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hints {
    /// The format.
    pub format: FormatChoice,
    /// The delimiter, if it is not to be detected.
    pub delimiter: Option<u8>,
    /// The header row.
    pub header: HeaderRow,
}

/// What the start of a source shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// How it is written.
    pub format: Format,
    /// The columns, as far as they are known before the data; none for JSON Lines.
    pub names: Vec<String>,
    /// Where the first record of data starts.
    pub data_start: usize,
}

impl Layout {
    /// Looks at `head`, the first bytes of a source (all of them if there are fewer than
    /// [`HEAD_BYTES`](super::limits::HEAD_BYTES)).
    ///
    /// # Errors
    ///
    /// [`ProfileError::Format`] if it clearly has another format, or the header does not fit;
    /// [`ProfileError::TooManyColumns`].
    pub fn of(head: &[u8], hints: &Hints) -> Result<Self, ProfileError> {
        refuse_other_formats(head)?;
        let mark = if head.starts_with(UTF8_MARK) { UTF8_MARK.len() } else { 0 };
        let text = head.get(mark..).unwrap_or_default();
        let is_json = match hints.format {
            FormatChoice::JsonLines => true,
            FormatChoice::Csv => false,
            FormatChoice::Detect => text.trim_ascii_start().first() == Some(&b'{'),
        };
        if is_json {
            return Ok(Self { format: Format::JsonLines, names: Vec::new(), data_start: mark });
        }
        let delimiter = hints.delimiter.unwrap_or_else(|| likely_delimiter(text));
        let (fields, header_length) = first_record(text, delimiter)?;
        let (names, data_start) = match hints.header {
            HeaderRow::Present => (unique_names(&fields), mark + header_length),
            HeaderRow::Absent => (unique_names(&vec![String::new(); fields.len()]), mark),
        };
        Ok(Self { format: Format::Csv { delimiter }, names, data_start })
    }
}

fn refuse_other_formats(head: &[u8]) -> Result<(), ProfileError> {
    let found = match head {
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => "UTF-16 text: convert it to UTF-8",
        [0x1F, 0x8B, ..] => "gzip: decompress it",
        [0x28, 0xB5, 0x2F, 0xFD, ..] => "zstd: decompress it",
        [b'P', b'K', 3, 4, ..] => "a zip archive or a spreadsheet: export it as CSV",
        [b'P', b'A', b'R', b'1', ..] => "Parquet: export it as CSV",
        _ if head.trim_ascii_start().first() == Some(&b'[') => return refuse_json_array(head),
        _ => return Ok(()),
    };
    Err(ProfileError::Format(format!("the source is {found} first")))
}

/// A CSV may begin with a bracket; an array of objects is recognised by its second character.
fn refuse_json_array(head: &[u8]) -> Result<(), ProfileError> {
    let inner = head.trim_ascii_start().get(1..).unwrap_or_default().trim_ascii_start();
    if inner.first() != Some(&b'{') {
        return Ok(());
    }
    Err(ProfileError::Format("the source is one JSON array: write one object per line (JSON Lines) instead".to_owned()))
}

/// The delimiter that splits the most records into as many fields as the first one; in a tie, into the most fields.
fn likely_delimiter(text: &[u8]) -> u8 {
    let score = |delimiter: u8| {
        let counts = field_counts(text, delimiter);
        let first = counts.first().copied().unwrap_or(0);
        let alike = counts.iter().filter(|count| **count == first).count();
        if first > 1 { (alike, first) } else { (0, 0) }
    };
    let best = DELIMITERS.iter().rev().max_by_key(|delimiter| score(**delimiter));
    best.copied().unwrap_or(b',')
}

fn field_counts(text: &[u8], delimiter: u8) -> Vec<usize> {
    let mut counts = Vec::new();
    let mut rest = text;
    while counts.len() < SAMPLE_RECORDS && !rest.is_empty() {
        let Ok((fields, length)) = first_record(rest, delimiter) else {
            break;
        };
        // The sample may end within a record, which then has too few fields.
        rest = rest.get(length..).unwrap_or_default();
        if rest.is_empty() && !counts.is_empty() {
            break;
        }
        counts.push(fields.len());
    }
    counts
}

/// The fields of the first record, and the number of bytes up to the start of the second one.
fn first_record(text: &[u8], delimiter: u8) -> Result<(Vec<String>, usize), ProfileError> {
    let mut reader = csv_records::reader(delimiter);
    let mut output = vec![0; text.len() + 1];
    let mut ends = vec![0; COLUMNS_MAX + 1];
    let (mut read, mut written, mut fields) = (0, 0, 0);
    loop {
        let input = text.get(read..).unwrap_or_default();
        let (outcome, consumed, produced, ended) = reader.read_record(
            input,
            output.get_mut(written..).unwrap_or_default(),
            ends.get_mut(fields..).unwrap_or_default(),
        );
        read += consumed;
        written += produced;
        fields += ended;
        match outcome {
            ReadRecordResult::InputEmpty => {}
            ReadRecordResult::OutputEndsFull => return Err(ProfileError::TooManyColumns { max: COLUMNS_MAX }),
            ReadRecordResult::Record | ReadRecordResult::OutputFull | ReadRecordResult::End => break,
        }
    }
    if fields > COLUMNS_MAX {
        return Err(ProfileError::TooManyColumns { max: COLUMNS_MAX });
    }
    // After a carriage return the reader stops before the line feed that belongs to it.
    if text.get(read.wrapping_sub(1)) == Some(&b'\r') && text.get(read) == Some(&b'\n') {
        read += 1;
    }
    let mut start = 0;
    let mut names = Vec::with_capacity(fields);
    for end in ends.iter().take(fields) {
        let field = output.get(start..*end).unwrap_or_default();
        names.push(String::from_utf8_lossy(field).trim().to_owned());
        start = *end;
    }
    Ok((names, read))
}

/// Names for all columns: those without one are numbered, and a name that occurred before gets a number appended.
fn unique_names(fields: &[String]) -> Vec<String> {
    let mut taken = std::collections::BTreeSet::new();
    let mut names = Vec::with_capacity(fields.len());
    for (place, field) in fields.iter().enumerate() {
        let wanted = match cut(field, NAME_BYTES_MAX) {
            "" => format!("column_{}", place + 1),
            name => name.to_owned(),
        };
        let mut name = wanted.clone();
        let mut number = 2;
        while !taken.insert(name.clone()) {
            name = format!("{wanted}_{number}");
            number += 1;
        }
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(head: &str) -> Layout {
        Layout::of(head.as_bytes(), &Hints::default()).unwrap()
    }

    #[test]
    fn the_delimiter_is_the_one_that_splits_records_alike() {
        for (head, delimiter) in [
            ("a,b\n1,2\n", b','),
            ("a;b\n1,5;2,5\n3,5;4\n", b';'),
            ("a\tb\n1, 2\t3\n", b'\t'),
            ("a|b|c\n1|2|3\n", b'|'),
            ("\"a;b;c\",d\n\"1;2\",2\n", b','),
            ("alone\n1\n", b','),
            ("", b','),
        ] {
            assert_eq!(layout(head).format, Format::Csv { delimiter }, "{head:?}");
        }
    }

    #[test]
    fn the_data_starts_after_mark_and_header() {
        for line_end in ["\n", "\r\n"] {
            let head = format!("\u{feff}id, name {line_end}1,x{line_end}");
            let layout = layout(&head);
            assert_eq!(layout.names, ["id", "name"]);
            assert_eq!(&head[layout.data_start..], format!("1,x{line_end}"));
        }
    }

    #[test]
    fn names_are_made_unique_and_never_empty() {
        assert_eq!(layout("a,,a,a_2\n").names, ["a", "column_2", "a_2", "a_2_2"]);
        let hints = Hints { header: HeaderRow::Absent, ..Hints::default() };
        let layout = Layout::of(b"5,6\n", &hints).unwrap();
        assert_eq!((layout.names, layout.data_start), (vec!["column_1".to_owned(), "column_2".to_owned()], 0));
    }

    #[test]
    fn an_object_at_the_start_means_json_lines() {
        assert_eq!(layout(" {\"a\":1}\n").format, Format::JsonLines);
    }

    #[test]
    fn other_formats_are_refused_with_advice() {
        let bytes: [&[u8]; 5] = [b"\xFF\xFEa\0", b"\x1F\x8B\x08", b"PK\x03\x04", b"PAR1", b" [ {\"a\":1}]"];
        for head in bytes {
            let outcome = Layout::of(head, &Hints::default());
            assert!(matches!(outcome, Err(ProfileError::Format(_))), "{head:?}");
        }
    }

    #[test]
    fn too_many_columns_are_refused() {
        let head = ",".repeat(COLUMNS_MAX);
        let outcome = Layout::of(head.as_bytes(), &Hints::default());
        assert!(matches!(outcome, Err(ProfileError::TooManyColumns { .. })));
    }
}
