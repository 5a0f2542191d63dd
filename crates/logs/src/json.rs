//! Lines of JSON.

use std::io::{self, Write};

use tracing_subscriber::fmt::MakeWriter;

use crate::clip::{CUT, clip};

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

/// Clips the texts in each line. The formatter writes a line at a time.
#[derive(Debug)]
pub struct Clipping<W>(W);

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

/// The same JSON with shorter texts.
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

/// Adds the text, whole or clipped, with what JSON allows and a terminal does not.
fn push(short: &mut String, text: &str) {
    let (head, tail) = clip(text);
    let Some(tail) = tail else { return push_escaped(short, text) };
    push_escaped(short, without_half_an_escape(head));
    short.push(CUT);
    push_escaped(short, after_half_an_escape(text, tail));
}

fn push_escaped(short: &mut String, text: &str) {
    for char in text.chars() {
        if char.is_control() {
            short.push_str(&format!("\\u{:04x}", u32::from(char)));
        } else {
            short.push(char);
        }
    }
}

/// The longest escape is `\u001b`.
const ESCAPE_BYTES: usize = 6;

/// `head` without an escape that was cut: everything from a backslash near its end on.
fn without_half_an_escape(head: &str) -> &str {
    let near = head.floor_char_boundary(head.len().saturating_sub(2 * ESCAPE_BYTES));
    let escape = head.get(near..).and_then(|end| end.find('\\'));
    escape.and_then(|at| head.get(..near + at)).unwrap_or(head)
}

/// `tail`, which ends `text`, without the end of an escape that was cut: it begins behind the last backslash near its
/// beginning, and what belongs to it.
fn after_half_an_escape<'a>(text: &'a str, tail: &'a str) -> &'a str {
    let cut = text.len() - tail.len();
    let near = text.floor_char_boundary(cut.saturating_sub(ESCAPE_BYTES));
    let has_escape = text.get(near..cut).is_some_and(|before| before.contains('\\'));
    if !has_escape {
        return tail;
    }
    // Behind a few characters that are no backslash, nothing is part of an escape any more.
    let mut plain = 0;
    let clear = tail.char_indices().find(|(_, char)| {
        plain = if *char == '\\' { 0 } else { plain + 1 };
        plain > ESCAPE_BYTES
    });
    clear.map_or("", |(at, _)| tail.get(at..).unwrap_or_default())
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
                assert!(short.len() < 2_000 && !short.chars().any(char::is_control), "{short}");
            }
        }
    }

    #[test]
    fn a_short_line_is_unchanged() {
        let line = "{\"level\":\"INFO\",\"message\":\"a \\\"b\\\\\",\"n\":1}\n";
        assert_eq!(clipped(line), line);
    }
}
