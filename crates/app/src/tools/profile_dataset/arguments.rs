//! The arguments of `profile_dataset`, and the plan that they become once they are checked.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::chunk::{Pace, Reading};
use super::error::ProfileError;
use super::limits::{INLINE_BYTES_MAX, NULL_VALUES_MAX, TEXT_BYTES_MAX, TOP_VALUES, TOP_VALUES_MAX};
use super::sniff::{FormatChoice, HeaderRow, Hints};
use super::source::address::{PublicUrl, UrlPolicy};
use super::source::file::RelativePath;

/// What to profile, and how to read it. Exactly one of `text`, `path` and `url` names the source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileArgs {
    /// The data itself, up to 3 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A file below the server's data directory, such as `sales/2026.csv`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// An `https` URL of a public server, on port 443.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The format; detected if not given.
    #[serde(default)]
    pub format: FormatChoice,
    /// The character that separates CSV fields; if not given, one of `,` `;` tab and `|` is detected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<String>,
    /// Whether the first CSV record holds the names of the columns.
    #[serde(default)]
    pub header: HeaderRow,
    /// CSV texts that mean "no value", in addition to the empty one.
    #[serde(default = "default_null_values")]
    pub null_values: Vec<String>,
    /// How many of the most frequent values to report per column, 0 to 50.
    #[serde(default = "default_top_values")]
    #[schemars(range(max = 50))]
    pub top_values: u8,
}

/// The texts with which spreadsheets, databases and statistics packages mean "no value".
#[must_use]
pub fn default_null_values() -> Vec<String> {
    ["null", "NULL", "Null", "NA", "N/A", "n/a", "NaN", "nan"].map(str::to_owned).to_vec()
}

const fn default_top_values() -> u8 {
    TOP_VALUES
}

/// Where the data is.
#[derive(Debug, Clone)]
pub enum SourceRequest {
    /// In the arguments.
    Text(Arc<str>),
    /// In a file.
    File(RelativePath),
    /// Behind a URL.
    Url(PublicUrl),
}

/// The checked arguments.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where the data is.
    pub source: SourceRequest,
    /// How it is read.
    pub reading: Reading,
}

impl ProfileArgs {
    /// Checks everything that can be checked without looking at the source.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Arguments`] and [`ProfileError::Refused`] say what to change.
    pub fn plan(self, pace: Pace, urls: UrlPolicy) -> Result<Plan, ProfileError> {
        let reading = Reading {
            hints: Hints { format: self.format, delimiter: delimiter(self.delimiter.as_deref())?, header: self.header },
            null_values: null_values(self.null_values)?,
            top_values: top_values(self.top_values)?,
            pace,
        };
        let source = match (self.text, self.path, self.url) {
            (Some(text), None, None) => SourceRequest::Text(inline(text)?),
            (None, Some(path), None) => SourceRequest::File(RelativePath::new(&path)?),
            (None, None, Some(url)) => SourceRequest::Url(PublicUrl::new(&url, urls)?),
            (_, _, _) => return Err(refused("give exactly one of `text`, `path` and `url`")),
        };
        Ok(Plan { source, reading })
    }
}

fn refused(why: impl Into<String>) -> ProfileError {
    ProfileError::Arguments(why.into())
}

fn inline(text: String) -> Result<Arc<str>, ProfileError> {
    if text.len() > INLINE_BYTES_MAX {
        return Err(refused(format!(
            "`text` has {} bytes, but at most {INLINE_BYTES_MAX} are accepted: use `path` or `url`",
            text.len()
        )));
    }
    Ok(text.into())
}

fn delimiter(choice: Option<&str>) -> Result<Option<u8>, ProfileError> {
    match choice.map(str::as_bytes) {
        None => Ok(None),
        Some(b"\\t") => Ok(Some(b'\t')),
        Some([byte]) if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r' | 0) => Ok(Some(*byte)),
        Some(_) => Err(refused("`delimiter` must be one ASCII character that is neither a quote nor a line end")),
    }
}

fn null_values(texts: Vec<String>) -> Result<Vec<String>, ProfileError> {
    if texts.len() > NULL_VALUES_MAX {
        return Err(refused(format!("`null_values` may hold at most {NULL_VALUES_MAX} texts")));
    }
    if texts.iter().any(|text| text.len() > TEXT_BYTES_MAX) {
        return Err(refused(format!("a text in `null_values` is longer than {TEXT_BYTES_MAX} bytes")));
    }
    Ok(texts.into_iter().map(|text| text.trim().to_owned()).collect())
}

fn top_values(number: u8) -> Result<usize, ProfileError> {
    if number > TOP_VALUES_MAX {
        return Err(refused(format!("`top_values` is {number}: it may be at most {TOP_VALUES_MAX}")));
    }
    Ok(number.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(json: &str) -> Result<Plan, ProfileError> {
        let args: ProfileArgs = serde_json::from_str(json).unwrap();
        args.plan(Pace::default(), UrlPolicy::PublicHttps)
    }

    #[test]
    fn exactly_one_source_is_required() {
        assert!(matches!(plan("{\"text\": \"a\"}").unwrap().source, SourceRequest::Text(_)));
        assert!(matches!(plan("{\"path\": \"a.csv\"}").unwrap().source, SourceRequest::File(_)));
        assert!(matches!(plan("{\"url\": \"https://example.com/a\"}").unwrap().source, SourceRequest::Url(_)));
        for json in ["{}", "{\"text\": \"a\", \"path\": \"b\"}"] {
            assert!(matches!(plan(json), Err(ProfileError::Arguments(_))), "{json}");
        }
    }

    #[test]
    fn delimiters_are_one_character() {
        let delimiter = |text: &str| {
            let args =
                ProfileArgs { text: Some(String::new()), delimiter: Some(text.to_owned()), ..Default::default() };
            args.plan(Pace::default(), UrlPolicy::PublicHttps).map(|plan| plan.reading.hints.delimiter)
        };
        assert_eq!(delimiter(":").unwrap(), Some(b':'));
        assert_eq!(delimiter("\\t").unwrap(), Some(b'\t'));
        for text in ["", "ab", "\"", "\n", "é"] {
            assert!(delimiter(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn inline_text_and_lists_are_limited() {
        let long = ProfileArgs { text: Some("x".repeat(INLINE_BYTES_MAX + 1)), ..Default::default() };
        assert!(long.plan(Pace::default(), UrlPolicy::PublicHttps).is_err());
        assert!(plan("{\"text\": \"a\", \"top_values\": 51}").is_err());
        let texts = vec!["x"; NULL_VALUES_MAX + 1];
        assert!(plan(&serde_json::json!({"text": "a", "null_values": texts}).to_string()).is_err());
    }
}
