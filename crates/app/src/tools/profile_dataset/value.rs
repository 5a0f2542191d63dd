//! The kind of one value: null, a number, a date, a text. CSV has only text, so the kind follows from its form. JSON
//! has its own types, and its strings are text or dates.

use jiff::fmt::temporal::Pieces;
use serde::{Deserialize, Serialize};

/// The kind of one value, with the number if it is one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// A blank field, one of the strings that the caller named, or `null`.
    Null,
    /// An integer that fits 64 bits.
    Integer(i64),
    /// An integer of more than 64 bits, rounded.
    LargeInteger(f64),
    /// A finite number that is not written as an integer.
    Number(f64),
    Boolean(bool),
    /// ISO 8601 `YYYY-MM-DD` of a day that exists. Other orders of day and month are ambiguous, and count as text.
    Date,
    /// Such a day, `T` or a space, a time, and optionally `Z` or an offset.
    DateTime,
    Text,
    /// A text with bytes that are not UTF-8.
    BrokenText,
    /// A JSON array or object.
    Nested,
}

impl Kind {
    /// The kind of a CSV field.
    pub(super) fn of_field(field: &[u8], null_values: &[String]) -> Self {
        let Ok(text) = std::str::from_utf8(field) else { return Self::BrokenText };
        let text = text.trim_ascii();
        if text.is_empty() || null_values.iter().any(|null| null == text) {
            return Self::Null;
        }
        let boolean = || text.to_ascii_lowercase().parse().ok().map(Self::Boolean);
        match text.as_bytes().first() {
            Some(b'0'..=b'9' | b'-' | b'+' | b'.') => numeric(text).unwrap_or_else(|| Self::of_text(text)),
            Some(b't' | b'T' | b'f' | b'F') if text.len() <= 5 => boolean().unwrap_or(Self::Text),
            _ => Self::Text,
        }
    }

    /// The kind of the content of a JSON string.
    pub(super) fn of_text(text: &str) -> Self {
        // The parser reads more forms of ISO 8601 than this, some of which look like numbers.
        if !matches!(text.as_bytes(), [b'0'..=b'9', _, _, _, b'-', _, _, b'-', ..]) || text.contains('[') {
            return Self::Text;
        }
        match Pieces::parse(text) {
            Ok(pieces) if pieces.time().is_some() => Self::DateTime,
            Ok(_) => Self::Date,
            Err(_) => Self::Text,
        }
    }

    /// The kind of any other JSON value, as it is written.
    pub(super) fn of_json(token: &str) -> Self {
        match token.as_bytes().first() {
            None | Some(b'n') => Self::Null,
            Some(b't') => Self::Boolean(true),
            Some(b'f') => Self::Boolean(false),
            Some(b'{' | b'[') => Self::Nested,
            // A number outside the range of a double has no value that could be averaged.
            Some(_) => numeric(token).unwrap_or(Self::Text),
        }
    }
}

fn numeric(text: &str) -> Option<Kind> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    // As a number, an identifier such as `007` would lose information.
    if matches!(digits.as_bytes(), [b'0', b'0'..=b'9', ..]) {
        return None;
    }
    if let Ok(integer) = text.parse() {
        return Some(Kind::Integer(integer));
    }
    // The standard library also reads `inf` and `nan`.
    if digits.contains(|c: char| !matches!(c, '0'..='9' | '.' | 'e' | 'E' | '+' | '-')) {
        return None;
    }
    let number = text.parse().ok().filter(|number: &f64| number.is_finite())?;
    let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit());
    // Minus zero is zero.
    Some(if is_integer { Kind::LargeInteger(number) } else { Kind::Number(number + 0.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_csv_field_is_what_its_form_says() {
        let null_values = ["NA".to_owned(), "-".to_owned()];
        for (text, kind) in [
            ("", Kind::Null),
            ("  ", Kind::Null),
            ("NA", Kind::Null),
            ("-", Kind::Null),
            ("0", Kind::Integer(0)),
            (" 42 ", Kind::Integer(42)),
            ("-7", Kind::Integer(-7)),
            ("+7", Kind::Integer(7)),
            ("9223372036854775807", Kind::Integer(i64::MAX)),
            ("-9223372036854775808", Kind::Integer(i64::MIN)),
            ("9223372036854775808", Kind::LargeInteger(9_223_372_036_854_775_808.0)),
            ("1.5", Kind::Number(1.5)),
            (".5", Kind::Number(0.5)),
            ("-1e3", Kind::Number(-1000.0)),
            ("1e999", Kind::Text),
            ("007", Kind::Text),
            ("0.07", Kind::Number(0.07)),
            ("1-2", Kind::Text),
            ("--5", Kind::Text),
            ("20240229", Kind::Integer(20_240_229)),
            ("nan", Kind::Text),
            ("inf", Kind::Text),
            ("+infinity", Kind::Text),
            ("True", Kind::Boolean(true)),
            ("FALSE", Kind::Boolean(false)),
            ("tree", Kind::Text),
            ("2024-02-29", Kind::Date),
            ("2023-02-29", Kind::Text),
            ("2024-13-01", Kind::Text),
            ("2024-02-29T23:59:60Z", Kind::DateTime),
            ("2024-02-29 23:59", Kind::DateTime),
            ("2024-02-29T23:59:01.25+05:30", Kind::DateTime),
            ("2024-02-29T24:00", Kind::Text),
            ("2024-02-29[Europe/Rome]", Kind::Text),
            ("01/02/2024", Kind::Text),
        ] {
            assert_eq!(Kind::of_field(text.as_bytes(), &null_values), kind, "{text:?}");
        }
        assert_eq!(Kind::of_field(b"x\xFF", &null_values), Kind::BrokenText);
    }

    #[test]
    fn json_keeps_its_own_types() {
        for (token, kind) in [
            ("null", Kind::Null),
            ("5", Kind::Integer(5)),
            ("5.0", Kind::Number(5.0)),
            ("-0.0", Kind::Number(0.0)),
            ("1e999", Kind::Text),
            ("true", Kind::Boolean(true)),
            ("[1]", Kind::Nested),
        ] {
            assert_eq!(Kind::of_json(token), kind, "{token}");
        }
        assert_eq!(
            [Kind::of_text("5"), Kind::of_text(""), Kind::of_text("2024-01-01")],
            [Kind::Text, Kind::Text, Kind::Date]
        );
    }
}
