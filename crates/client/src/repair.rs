//! JSON that is nearly right, as many programs write it. In its strings are halves of surrogate pairs, bytes that are
//! not UTF-8, or control characters.

use std::borrow::Cow;

/// Instead of half of a surrogate pair.
const REPLACEMENT: &str = "\\ufffd";

/// The text, as a reader of JSON takes it. Halves of surrogate pairs and bytes that are not UTF-8 become U+FFFD.
/// Control characters are escaped. A text that is right stays as it is.
#[must_use]
pub fn repaired(text: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(text);
    let mut repaired = String::new();
    let (mut kept, mut at, mut is_string) = (0, 0, false);
    let bytes = text.as_bytes();
    while let Some(byte) = bytes.get(at) {
        let (length, instead) = match byte {
            b'"' => {
                is_string = !is_string;
                (1, None)
            }
            b'\\' => escape(bytes.get(at..).unwrap_or_default()),
            0..=31 if is_string => (1, Some(format!("\\u{byte:04x}"))),
            _ => (1, None),
        };
        if let Some(instead) = instead {
            repaired.push_str(text.get(kept..at).unwrap_or_default());
            repaired.push_str(&instead);
            kept = at + length;
        }
        at += length;
    }
    if kept == 0 {
        return text;
    }
    repaired.push_str(text.get(kept..).unwrap_or_default());
    Cow::Owned(repaired)
}

/// The length of the escape at the beginning, and what is to be written instead.
fn escape(bytes: &[u8]) -> (usize, Option<String>) {
    match unit(bytes) {
        Some(0xD800..=0xDBFF) => match unit(bytes.get(6..).unwrap_or_default()) {
            Some(0xDC00..=0xDFFF) => (12, None),
            _ => (6, Some(REPLACEMENT.to_owned())),
        },
        Some(0xDC00..=0xDFFF) => (6, Some(REPLACEMENT.to_owned())),
        Some(_) => (6, None),
        None => (bytes.len().min(2), None),
    }
}

/// The UTF-16 code unit of an escape at the beginning.
fn unit(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.strip_prefix(b"\\u")?.get(..4)?;
    let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_is_right_stays_as_it_is() {
        for text in [r#"{"a": "\ud83d\ude00 \\ud83d \u00e9\n"}"#, "{\n\t\"a\": 1\n}", "\"\\", "no JSON \\u12", ""] {
            assert!(matches!(repaired(text.as_bytes()), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn what_a_reader_refuses_in_a_string_is_replaced() {
        for (text, read) in [
            (r#""cut \ud83d""#, json!("cut \u{fffd}")),
            (r#""\ude00 cut""#, json!("\u{fffd} cut")),
            (r#""\ud83d\ud83d\ude00""#, json!("\u{fffd}\u{1f600}")),
            (r#""\uD83D\n""#, json!("\u{fffd}\n")),
            (r#"{"\udead": 1}"#, json!({"\u{fffd}": 1})),
            ("\"a\tb\u{1b}[0m\nc\"", json!("a\tb\u{1b}[0m\nc")),
        ] {
            assert!(serde_json::from_str::<Value>(text).is_err(), "{text}");
            assert_eq!(serde_json::from_str::<Value>(&repaired(text.as_bytes())).unwrap(), read, "{text}");
        }
        assert_eq!(repaired(b"\"caf\xe9\""), "\"caf\u{fffd}\"");
    }
}
