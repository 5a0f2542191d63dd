//! Lines of text, and which part of a long value is logged.

use std::fmt::{self, Debug};

use tracing::field::Field;
use tracing_subscriber::field::{MakeExt, MakeVisitor, VisitFmt, VisitOutput};
use tracing_subscriber::fmt::format::{Writer, debug_fn};

/// Characters of a value in a log line.
pub const VALUE_CHARS_MAX: usize = 256;

/// How many of them come from the end of a longer value: of a chain of errors that is the cause.
pub(crate) const TAIL_CHARS: usize = 64;

/// Stands for the text that is left out.
pub(crate) const CUT: char = '…';

/// The beginning of `text`, and its end if something between them is left out.
pub(crate) fn clip(text: &str) -> (&str, Option<&str>) {
    if text.char_indices().nth(VALUE_CHARS_MAX).is_none() {
        return (text, None);
    }
    let head = text.char_indices().nth(VALUE_CHARS_MAX - TAIL_CHARS - 1).map_or(text.len(), |(at, _)| at);
    let tail = text.char_indices().rev().nth(TAIL_CHARS - 1).map_or(0, |(at, _)| at);
    (text.get(..head).unwrap_or_default(), text.get(tail..))
}

/// How the fields of events and spans are written in lines of text.
pub fn text_fields()
-> impl for<'a> MakeVisitor<Writer<'a>, Visitor: VisitFmt + VisitOutput<fmt::Result>> + Send + Sync + 'static {
    debug_fn(|writer: &mut Writer<'_>, field: &Field, value: &dyn Debug| {
        if field.name() == "message" {
            return write_value(writer, value);
        }
        write!(writer, "{}=", field.name())?;
        write_value(writer, value)
    })
    .delimited(" ")
}

pub(crate) fn write_value(writer: &mut Writer<'_>, value: &dyn Debug) -> fmt::Result {
    let text = format!("{value:?}");
    let (head, tail) = clip(&text);
    escape(writer, head)?;
    let Some(tail) = tail else { return Ok(()) };
    writer.write_char(CUT)?;
    escape(writer, tail)
}

fn escape(writer: &mut Writer<'_>, text: &str) -> fmt::Result {
    for char in text.chars() {
        if char.is_control() || matches!(char, '\u{2028}' | '\u{2029}') {
            write!(writer, "{}", char.escape_unicode())?;
        } else {
            writer.write_char(char)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use longhaul_testkit::{Lines, capture};

    use super::*;

    #[test]
    fn no_value_is_long_or_has_control_characters() {
        let lines = Lines::default();
        let writer = lines.clone();
        let logs =
            tracing_subscriber::fmt().fmt_fields(text_fields()).with_writer(move || writer.clone()).without_time();
        let evil = format!("a\nERROR forged\r\x1b[31m\u{85}\u{2028}{}", "x".repeat(1_000_000));
        let _capturing = capture(logs.with_ansi(false).finish());
        let span = tracing::info_span!("request", shown = %evil, quoted = evil);
        span.in_scope(|| {
            tracing::warn!(shown = %evil, debug = ?evil, text = evil, number = 7, "unknown method {evil}");
        });
        let logged = lines.text();
        assert_eq!(logged.lines().count(), 1, "{logged}");
        assert!(!logged.trim_end().chars().any(char::is_control), "{logged}");
        assert!(logged.contains("number=7") && logged.contains("unknown method a"), "{logged}");
        assert!(!logged.contains(&"x".repeat(256)) && logged.len() < 3_000, "{logged}");
    }

    #[test]
    fn a_value_of_the_limit_is_whole_and_a_longer_one_has_its_beginning_and_its_end() {
        let whole = "ä".repeat(VALUE_CHARS_MAX);
        assert_eq!(clip(&whole), (whole.as_str(), None));
        let long = format!("begin{}end", "ä".repeat(VALUE_CHARS_MAX));
        let (head, tail) = clip(&long);
        let tail = tail.unwrap();
        assert!(head.starts_with("begin") && tail.ends_with("end"));
        assert_eq!(head.chars().count() + 1 + tail.chars().count(), VALUE_CHARS_MAX);
    }
}
