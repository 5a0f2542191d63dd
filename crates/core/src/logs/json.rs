//! Lines of JSON.

use std::io::{self, Write};

use tracing_subscriber::fmt::MakeWriter;

use crate::logs::text::{CUT, TAIL_CHARS, VALUE_CHARS_MAX};

/// A place for lines of JSON, in which every text is clipped. The formatter has escaped control characters.
#[derive(Clone, Copy, Debug)]
pub struct JsonLines<W>(W);

impl<W> JsonLines<W> {
    /// Lines that go to `place`.
    pub const fn to(place: W) -> Self {
        Self(place)
    }
}

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for JsonLines<W> {
    type Writer = Clipping<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Clipping(self.0.make_writer())
    }

    fn make_writer_for(&'a self, meta: &tracing::Metadata<'_>) -> Self::Writer {
        Clipping(self.0.make_writer_for(meta))
    }
}

/// Clips the strings in each line. The formatter writes a line at a time.
#[derive(Debug)]
pub struct Clipping<W>(pub(crate) W);

impl<W: Write> Write for Clipping<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(line) {
            Ok(text) => self.0.write_all(clipped(text).as_bytes())?,
            // Not from the formatter.
            Err(_not_text) => self.0.write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn clipped(line: &str) -> String {
    let mut short = String::with_capacity(line.len().min(4_096));
    let mut rest = line;
    while let Some((before, text)) = rest.split_once('"') {
        let (text, after) = text.split_at(end_of(text));
        short.push_str(before);
        short.push('"');
        push(&mut short, text);
        rest = after;
        if let Some(after) = rest.strip_prefix('"') {
            short.push('"');
            rest = after;
        }
    }
    short.push_str(rest);
    short
}

/// Where the quote is that ends this text.
fn end_of(text: &str) -> usize {
    let mut is_escaped = false;
    let quote = text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    quote.unwrap_or(text.len())
}

/// Adds the text, whole or clipped. Characters that JSON allows and a terminal does not are escaped.
fn push(short: &mut String, text: &str) {
    let length = units(text).count();
    if length <= VALUE_CHARS_MAX {
        return push_escaped(short, text);
    }
    let head = units(text).nth(VALUE_CHARS_MAX - TAIL_CHARS - 1).and_then(|end| text.get(..end));
    let tail = units(text).nth(length - TAIL_CHARS).and_then(|begin| text.get(begin..));
    push_escaped(short, head.unwrap_or_default());
    short.push(CUT);
    push_escaped(short, tail.unwrap_or_default());
}

/// Where the characters of a JSON text begin; an escape is one of them.
fn units(text: &str) -> impl Iterator<Item = usize> {
    let mut chars = text.char_indices();
    std::iter::from_fn(move || {
        let (at, char) = chars.next()?;
        if char == '\\' && chars.next().is_some_and(|(_, kind)| kind == 'u') {
            // Four digits.
            let _last = chars.nth(3);
        }
        Some(at)
    })
}

fn push_escaped(short: &mut String, text: &str) {
    for char in text.chars() {
        if char.is_control() {
            push_escape(short, char);
        } else {
            short.push(char);
        }
    }
}

fn push_escape(short: &mut String, char: char) {
    short.push_str("\\u");
    let digits = [12, 8, 4, 0].map(|shift| char::from_digit((u32::from(char) >> shift) & 0xf, 16));
    short.extend(digits.into_iter().flatten());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clipped_line_is_json_and_says_the_same_where_it_is_short() {
        for long in
            ["x".repeat(1_000_000), "\\".repeat(5_001), "\"".repeat(999), "\u{1b}".repeat(999), "ä\n".repeat(999)]
        {
            for shift in 0..12 {
                let long = format!("{}{long}", "y".repeat(shift));
                let line = serde_json::json!({"a": {long.clone(): long}, "b": 7, "c": "short\n", "d": ["\u{7f}"]});
                let short = clipped(&line.to_string());
                let read: serde_json::Value = serde_json::from_str(&short).unwrap_or_else(|e| panic!("{e}: {short}"));
                assert_eq!((&read["b"], &read["c"], &read["d"][0]), (&7.into(), &"short\n".into(), &"\u{7f}".into()));
                // Two texts, in which each character may be an escape of six bytes.
                assert!(short.len() < 2 * 6 * VALUE_CHARS_MAX + 100 && !short.chars().any(char::is_control), "{short}");
            }
        }
    }

    #[test]
    fn a_short_line_is_unchanged() {
        let line = "{\"level\":\"INFO\",\"message\":\"a \\\"b\\\\\",\"n\":1}\n";
        assert_eq!(clipped(line), line);
    }
}
