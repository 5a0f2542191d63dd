//! What one value is: null, a number, a date, a text.
//!
//! CSV has only text, so the kind follows from its form:
//!
//! - integer: digits with an optional sign; number: decimal or exponent form, finite. A leading zero (`007`) makes an
//!   identifier, that is text: as a number it would lose information.
//! - boolean: `true` and `false` in any case.
//! - date: ISO 8601 `YYYY-MM-DD` of a day that exists; date-time: such a day, `T` or a space, `hh:mm[:ss[.fraction]]`,
//!   and optionally `Z` or an offset. Other orders of day and month are ambiguous and stay text.
//! - null: an empty or blank field, or one of the texts that the caller named.
//!
//! JSON brings its own types; only its strings are looked at for dates, and only its `null` (or a missing key) is null.

/// The kind of one value, with the number if it is one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// No value.
    Null,
    /// An integer that fits 64 bits.
    Integer(i64),
    /// An integer of more than 64 bits, rounded.
    LargeInteger(f64),
    /// A finite number that is not written as an integer.
    Number(f64),
    /// True or false.
    Boolean,
    /// A calendar day.
    Date,
    /// A day with a time.
    DateTime,
    /// Any other text.
    Text,
    /// A JSON array or object.
    Nested,
}

/// How values are written, and which of them mean "no value".
#[derive(Debug, Clone)]
pub enum Syntax {
    /// Fields of text; these texts mean "no value".
    Csv {
        /// Compared with the trimmed field, byte by byte.
        null_values: Vec<String>,
    },
    /// JSON tokens.
    Json,
}

impl Syntax {
    /// The kind of `token`: a CSV field, or a JSON value as it is written (a string with its quotes).
    #[must_use]
    pub fn kind(&self, token: &[u8]) -> Kind {
        match self {
            Self::Csv { null_values } => csv_kind(token, null_values),
            Self::Json => json_kind(token),
        }
    }
}

/// The content of a JSON string, without its quotes; any other token and every CSV field unchanged.
#[must_use]
pub fn text_of<'a>(syntax: &Syntax, token: &'a [u8]) -> &'a [u8] {
    match (syntax, token) {
        (Syntax::Json, [b'"', inner @ .., b'"']) => inner,
        (Syntax::Json | Syntax::Csv { .. }, other) => other,
    }
}

fn csv_kind(field: &[u8], null_values: &[String]) -> Kind {
    let text = field.trim_ascii();
    let Some(first) = text.first() else {
        return Kind::Null;
    };
    let kind = match first {
        b'0'..=b'9' | b'-' | b'+' | b'.' => numeric(text).or_else(|| calendar(text)),
        b't' | b'T' | b'f' | b'F' => boolean(text),
        _ => None,
    };
    if null_values.iter().any(|null| null.as_bytes() == text) {
        return Kind::Null;
    }
    kind.unwrap_or(Kind::Text)
}

fn json_kind(token: &[u8]) -> Kind {
    match token {
        [] | [b'n', ..] => Kind::Null,
        [b't' | b'f', ..] => Kind::Boolean,
        [b'{' | b'[', ..] => Kind::Nested,
        [b'"', inner @ .., b'"'] => calendar(inner).unwrap_or(Kind::Text),
        // A number outside the range of a double has no value that could be averaged.
        other => numeric(other).unwrap_or(Kind::Text),
    }
}

fn boolean(text: &[u8]) -> Option<Kind> {
    let is = text.eq_ignore_ascii_case(b"true") || text.eq_ignore_ascii_case(b"false");
    is.then_some(Kind::Boolean)
}

fn numeric(text: &[u8]) -> Option<Kind> {
    let digits = match text {
        [b'-' | b'+', rest @ ..] => rest,
        rest => rest,
    };
    if matches!(digits, [b'0', b'0'..=b'9', ..]) {
        return None;
    }
    if let Some(magnitude) = small_integer(digits) {
        let negative = text.first() == Some(&b'-');
        return Some(Kind::Integer(if negative { -magnitude } else { magnitude }));
    }
    let form = digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    if !form || digits.is_empty() {
        return None;
    }
    let number: f64 = fast_float2::parse(text).ok()?;
    if !number.is_finite() {
        return None;
    }
    if digits.iter().all(u8::is_ascii_digit) {
        let exact = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        return Some(exact.map_or(Kind::LargeInteger(number), Kind::Integer));
    }
    Some(Kind::Number(number))
}

/// Up to 18 digits: they cannot overflow, so no step needs a check.
fn small_integer(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut number = 0_i64;
    for byte in digits {
        if !byte.is_ascii_digit() {
            return None;
        }
        number = number * 10 + i64::from(byte - b'0');
    }
    Some(number)
}

fn calendar(text: &[u8]) -> Option<Kind> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, rest @ ..] = text else {
        return None;
    };
    let year = two(*y1, *y2)? * 100 + two(*y3, *y4)?;
    let (month, day) = (two(*m1, *m2)?, two(*d1, *d2)?);
    if day == 0 || day > days_in(year, month) {
        return None;
    }
    match rest {
        [] => Some(Kind::Date),
        [b'T' | b't' | b' ', time @ ..] => clock(time).then_some(Kind::DateTime),
        _ => None,
    }
}

fn days_in(year: u32, month: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => 0,
    }
}

fn clock(text: &[u8]) -> bool {
    let [h1, h2, b':', m1, m2, rest @ ..] = text else {
        return false;
    };
    let in_range = |tens: u8, ones: u8, max: u32| two(tens, ones).is_some_and(|n| n <= max);
    if !in_range(*h1, *h2, 23) || !in_range(*m1, *m2, 59) {
        return false;
    }
    match rest {
        // A leap second is written as 60.
        [b':', s1, s2, rest @ ..] => in_range(*s1, *s2, 60) && offset(fraction(rest)),
        other => offset(other),
    }
}

/// What follows a fraction of a second, or the whole text if there is no fraction.
fn fraction(text: &[u8]) -> &[u8] {
    match text {
        [b'.' | b',', b'0'..=b'9', rest @ ..] => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            rest.get(digits..).unwrap_or_default()
        }
        other => other,
    }
}

fn offset(text: &[u8]) -> bool {
    match text {
        [] | [b'Z' | b'z'] => true,
        [b'+' | b'-', h1, h2] => two(*h1, *h2).is_some_and(|h| h < 24),
        [b'+' | b'-', h1, h2, b':', m1, m2] | [b'+' | b'-', h1, h2, m1, m2] => {
            two(*h1, *h2).is_some_and(|h| h < 24) && two(*m1, *m2).is_some_and(|m| m < 60)
        }
        _ => false,
    }
}

fn two(tens: u8, ones: u8) -> Option<u32> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| u32::from(byte - b'0'));
    Some(digit(tens)? * 10 + digit(ones)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(text: &str) -> Kind {
        let null_values = vec!["NA".to_owned(), "-".to_owned()];
        Syntax::Csv { null_values }.kind(text.as_bytes())
    }

    #[test]
    fn a_csv_field_is_what_its_form_says() {
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
            ("nan", Kind::Text),
            ("inf", Kind::Text),
            ("True", Kind::Boolean),
            ("FALSE", Kind::Boolean),
            ("tree", Kind::Text),
            ("2024-02-29", Kind::Date),
            ("2023-02-29", Kind::Text),
            ("2024-13-01", Kind::Text),
            ("2024-02-29T23:59:60Z", Kind::DateTime),
            ("2024-02-29 23:59", Kind::DateTime),
            ("2024-02-29T23:59:01.25+05:30", Kind::DateTime),
            ("2024-02-29T24:00", Kind::Text),
            ("01/02/2024", Kind::Text),
        ] {
            assert_eq!(csv(text), kind, "{text:?}");
        }
    }

    #[test]
    fn json_keeps_its_own_types() {
        let json = |text: &str| Syntax::Json.kind(text.as_bytes());
        assert_eq!(json("null"), Kind::Null);
        assert_eq!(json("\"5\""), Kind::Text);
        assert_eq!(json("\"\""), Kind::Text);
        assert_eq!(json("5"), Kind::Integer(5));
        assert_eq!(json("5.0"), Kind::Number(5.0));
        assert_eq!(json("true"), Kind::Boolean);
        assert_eq!(json("[1]"), Kind::Nested);
        assert_eq!(json("\"2024-01-01\""), Kind::Date);
    }
}
