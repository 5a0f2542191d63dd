//! Detects the format and the delimiter from the start of a source.

use csv::ReaderBuilder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::{ProfileError, refused};

/// The delimiters that can be detected, in the order of preference.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Records that are compared to find the delimiter.
const SAMPLE_RECORDS: usize = 50;

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

/// How a source is to be read.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// The format.
    pub format: FormatChoice,
    /// The delimiter of CSV, if it is not to be detected.
    pub delimiter: Option<u8>,
    /// The header row of CSV.
    pub header: HeaderRow,
    /// CSV strings that mean "no value", in addition to the empty one.
    pub null_values: Vec<String>,
    /// How many of the most frequent values to report per column, at most.
    pub top_values: usize,
    /// Bytes of a chunk; it ends with the record in which this is reached.
    pub chunk_bytes: u64,
}

/// The delimiter of a CSV source that begins with `head`, a byte order mark left out; `None` for JSON Lines.
pub(super) fn delimiter(head: &[u8], reading: &Reading) -> Result<Option<u8>, ProfileError> {
    refuse_other_formats(head)?;
    let is_json = match reading.format {
        FormatChoice::JsonLines => true,
        FormatChoice::Csv => false,
        FormatChoice::Detect => head.trim_ascii_start().first() == Some(&b'{'),
    };
    Ok((!is_json).then(|| reading.delimiter.unwrap_or_else(|| likely_delimiter(head))))
}

fn refuse_other_formats(head: &[u8]) -> Result<(), ProfileError> {
    let found = match head {
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => "UTF-16 text: convert it to UTF-8",
        [0x1F, 0x8B, ..] => "gzip: decompress it",
        [0x28, 0xB5, 0x2F, 0xFD, ..] => "zstd: decompress it",
        [b'P', b'K', 3, 4, ..] => "a zip archive or a spreadsheet: export it as CSV",
        [b'P', b'A', b'R', b'1', ..] => "Parquet: export it as CSV",
        // A CSV may begin with a bracket; an array of objects is recognised by its second character.
        _ => match head.trim_ascii_start().split_first() {
            Some((b'[', inner)) if inner.trim_ascii_start().first() == Some(&b'{') => {
                "one JSON array: write one object per line (JSON Lines)"
            }
            _ => return Ok(()),
        },
    };
    Err(refused(format!("the source is {found} first")))
}

/// The delimiter that splits the most records into as many fields as the first one; in a tie, into the most fields.
fn likely_delimiter(head: &[u8]) -> u8 {
    let score = |delimiter: u8| {
        let reader = ReaderBuilder::new().has_headers(false).flexible(true).delimiter(delimiter).from_reader(head);
        let records = reader.into_byte_records().take(SAMPLE_RECORDS).filter_map(Result::ok);
        let counts: Vec<usize> = records.map(|record| record.len()).collect();
        let first = counts.first().copied().unwrap_or(0);
        let alike = counts.iter().filter(|count| **count == first).count();
        if first > 1 { (alike, first) } else { (0, 0) }
    };
    let best = DELIMITERS.iter().rev().max_by_key(|delimiter| score(**delimiter));
    best.copied().unwrap_or(b',')
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(likely_delimiter(head.as_bytes()), delimiter, "{head:?}");
        }
    }

    #[test]
    fn other_formats_are_refused_with_advice() {
        let bytes: [&[u8]; 5] = [b"\xFF\xFEa\0", b"\x1F\x8B\x08", b"PK\x03\x04", b"PAR1", b" [ {\"a\":1}]"];
        for head in bytes {
            let error = refuse_other_formats(head).unwrap_err().to_string();
            assert!(error.starts_with("the source is ") && error.ends_with(" first"), "{error}");
        }
    }
}
