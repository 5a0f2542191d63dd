//! Lines of text.

use std::fmt::{self, Debug};

use tracing::field::Field;
use tracing_subscriber::field::{MakeExt, MakeVisitor, VisitFmt, VisitOutput};
use tracing_subscriber::fmt::format::{Writer, debug_fn};

use crate::clip::{CUT, clip};

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
}
