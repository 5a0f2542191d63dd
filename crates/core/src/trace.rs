//! Which trace a call belongs to.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A `traceparent` of the W3C recommendation "Trace Context", version 00: `00-`, the trace's id, the parent's id and
/// the flags, in 55 characters. It goes into records, messages and logs, so nothing else is mistaken for one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceParent([u8; Self::BYTES]);

/// The text is not a `traceparent` of version 00.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a W3C traceparent of version 00")]
pub struct InvalidTraceParent;

impl TraceParent {
    const BYTES: usize = 55;

    /// The trace in `text`; `None` if it is anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes: [u8; Self::BYTES] = text.as_bytes().try_into().ok()?;
        let mut fields = text.split('-');
        let [version, trace, parent, flags] = [fields.next()?, fields.next()?, fields.next()?, fields.next()?];
        let is_valid =
            fields.next().is_none() && version == "00" && is_id(trace, 32) && is_id(parent, 16) && is_hex(flags, 2);
        is_valid.then_some(Self(bytes))
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Only digits, letters and dashes were taken.
        str::from_utf8(&self.0).unwrap_or_default()
    }

    /// For fields of records that were written before anything was checked: what is not a trace is dropped.
    pub(crate) fn or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.as_deref().and_then(Self::parse))
    }
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// An id of zeros is invalid.
fn is_id(text: &str, length: usize) -> bool {
    is_hex(text, length) && text.bytes().any(|byte| byte != b'0')
}

impl FromStr for TraceParent {
    type Err = InvalidTraceParent;

    fn from_str(text: &str) -> Result<Self, InvalidTraceParent> {
        Self::parse(text).ok_or(InvalidTraceParent)
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for TraceParent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn only_the_form_of_version_00_is_a_trace() {
        assert_eq!(TraceParent::parse(VALID).unwrap().to_string(), VALID);
        let wrong = [
            String::new(),
            VALID.to_uppercase(),
            VALID.replacen("00", "01", 1),
            VALID.replacen("00", "ff", 1),
            VALID.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            VALID.replace("b7ad6b7169203331", &"0".repeat(16)),
            VALID.replace('-', "_"),
            VALID.replace("-01", "-0g"),
            VALID.replace("-01", "01-"),
            VALID.replace("0af7", "-af7"),
            VALID.replace("0af7", "é7"),
            format!("{VALID} "),
            format!("{VALID}-x"),
            format!(" {VALID}"),
            "x".repeat(3_000_000),
            "00-a-b-01".to_owned(),
        ];
        for text in wrong {
            assert_eq!(TraceParent::parse(&text), None, "{text:.60}");
        }
    }
}
