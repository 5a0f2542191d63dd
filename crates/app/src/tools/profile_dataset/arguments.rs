//! The arguments of `profile_dataset`, and the plan that they become once they are checked.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::ProfileError;
use super::sniff::{FormatChoice, HeaderRow, Reading};

/// Bytes of input that one durable step covers. At 100 MB/s a kill costs a third of a second of work, and a file of
/// 2 GB has 64 steps.
const CHUNK_BYTES: u64 = 32 * 1024 * 1024;

/// The largest inline text in bytes: arguments are stored with the task, up to 4 MiB in all.
const TEXT_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The maximum number of most frequent values, and of strings that mean "no value", and the longest of these in bytes.
const TOP_VALUES_MAX: u8 = 50;
const NULL_VALUES_MAX: usize = 32;
const NULL_VALUE_BYTES_MAX: usize = 100;

/// The data set to profile, and its format. Exactly one of `text`, `path` and `url` names the source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProfileArgs {
    /// The data itself, up to 3 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    /// A file below the server's data directory, such as `sales/2026.csv`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) path: Option<String>,
    /// An `https` URL of a public server, on port 443.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<String>,
    /// The format; detected if not given.
    #[serde(default)]
    pub(super) format: FormatChoice,
    /// The character that separates CSV fields; if not given, one of `,` `;` tab and `|` is detected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) delimiter: Option<String>,
    /// Whether the first CSV record holds the names of the columns.
    #[serde(default)]
    pub(super) header: HeaderRow,
    /// CSV strings that mean "no value", in addition to the empty one.
    #[serde(default = "default_null_values")]
    pub(super) null_values: Vec<String>,
    /// How many of the most frequent values to report per column, 0 to 50.
    #[serde(default = "default_top_values")]
    #[schemars(range(max = 50))]
    pub(super) top_values: u8,
}

/// The strings with which spreadsheets, databases and statistics packages mean "no value".
fn default_null_values() -> Vec<String> {
    ["null", "NULL", "Null", "NA", "N/A", "n/a", "NaN", "nan"].map(str::to_owned).to_vec()
}

const fn default_top_values() -> u8 {
    10
}

/// Where the data is.
#[derive(Debug)]
pub(super) enum SourceRequest {
    Text(Arc<[u8]>),
    File(String),
    Url(String),
}

/// The checked arguments.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) source: SourceRequest,
    pub(super) reading: Reading,
}

impl ProfileArgs {
    /// Checks everything that can be checked without reading the source.
    pub(super) fn plan(self) -> Result<Plan, ProfileError> {
        let refused = |why: String| Err(ProfileError::Arguments(why));
        if self.top_values > TOP_VALUES_MAX {
            return refused(format!("`top_values` is {}: it may be at most {TOP_VALUES_MAX}", self.top_values));
        }
        if self.null_values.len() > NULL_VALUES_MAX {
            return refused(format!("`null_values` may hold at most {NULL_VALUES_MAX} strings"));
        }
        if self.null_values.iter().any(|text| text.len() > NULL_VALUE_BYTES_MAX) {
            return refused(format!("a text in `null_values` is longer than {NULL_VALUE_BYTES_MAX} bytes"));
        }
        let delimiter = match self.delimiter.as_deref().map(str::as_bytes) {
            None => None,
            Some(b"\\t") => Some(b'\t'),
            Some([byte]) if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r' | 0) => Some(*byte),
            Some(_) => {
                return refused("`delimiter` must be one ASCII character, neither a quote nor a line end".to_owned());
            }
        };
        let source = match (self.text, self.path, self.url) {
            (Some(text), None, None) if text.len() > TEXT_BYTES_MAX => {
                let bytes = text.len();
                return refused(format!("`text` has {bytes} bytes of at most {TEXT_BYTES_MAX}: use `path` or `url`"));
            }
            (Some(text), None, None) => SourceRequest::Text(text.into_bytes().into()),
            (None, Some(path), None) => SourceRequest::File(path),
            (None, None, Some(url)) => SourceRequest::Url(url),
            (_, _, _) => return refused("give exactly one of `text`, `path` and `url`".to_owned()),
        };
        let reading = Reading {
            format: self.format,
            delimiter,
            header: self.header,
            null_values: self.null_values.iter().map(|text| text.trim().to_owned()).collect(),
            top_values: self.top_values.into(),
            chunk_bytes: CHUNK_BYTES,
        };
        Ok(Plan { source, reading })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn plan(arguments: Value) -> Result<Plan, ProfileError> {
        serde_json::from_value::<ProfileArgs>(arguments).unwrap().plan()
    }

    #[test]
    fn arguments_are_checked_before_anything_is_read() {
        assert!(matches!(plan(json!({"text": "a"})).unwrap().source, SourceRequest::Text(_)));
        assert!(matches!(plan(json!({"path": "a.csv"})).unwrap().source, SourceRequest::File(_)));
        assert!(matches!(plan(json!({"url": "https://example.com/a"})).unwrap().source, SourceRequest::Url(_)));
        for (arguments, why) in [
            (json!({}), "exactly one of"),
            (json!({"text": "a", "path": "b"}), "exactly one of"),
            (json!({"text": "x".repeat(TEXT_BYTES_MAX + 1)}), "use `path` or `url`"),
            (json!({"text": "a", "top_values": 51}), "at most 50"),
            (json!({"text": "a", "null_values": vec!["x"; NULL_VALUES_MAX + 1]}), "at most 32"),
            (json!({"text": "a", "null_values": ["x".repeat(101)]}), "longer than 100 bytes"),
        ] {
            let outcome = plan(arguments);
            assert!(matches!(&outcome, Err(ProfileError::Arguments(text)) if text.contains(why)), "{why}: {outcome:?}");
        }
    }

    #[test]
    fn delimiters_are_one_character() {
        let delimiter = |text: &str| plan(json!({"text": "", "delimiter": text})).map(|plan| plan.reading.delimiter);
        assert_eq!(delimiter(":").unwrap(), Some(b':'));
        assert_eq!(delimiter("\\t").unwrap(), Some(b'\t'));
        for text in ["", "ab", "\"", "\n", "é"] {
            assert!(delimiter(text).is_err(), "{text:?}");
        }
    }
}
