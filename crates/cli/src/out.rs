//! What the command writes: results to its standard output, all else to its standard error. What comes from servers is
//! harmless on a terminal.

use std::io::{IsTerminal, Write, stderr, stdin, stdout};

use serde_json::Value;

/// How much a result may have that is written to a terminal, in bytes.
pub(crate) const TERMINAL_BYTES_MAX: usize = 1 << 20;

/// Whether a user can be asked.
pub(crate) fn can_ask() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

pub(crate) fn is_to_terminal() -> bool {
    stdout().is_terminal()
}

/// A line of the result. A reader that has gone is no error.
pub(crate) fn result(text: &str) {
    let text = if is_to_terminal() { &block(text) } else { text };
    let mut out = stdout().lock();
    drop(writeln!(out, "{text}").and_then(|()| out.flush()));
}

/// A value as one line of JSON, which has no control characters of itself.
pub(crate) fn json(value: &Value) {
    result(&value.to_string());
}

/// A line for the user, which is not part of the result.
pub(crate) fn say(text: &str) {
    drop(writeln!(stderr().lock(), "{text}"));
}

/// The text without what a terminal would obey, in one line.
pub(crate) fn line(text: &str) -> String {
    harmless(text, &[])
}

/// The same with its line breaks.
pub(crate) fn block(text: &str) -> String {
    harmless(text, &['\n', '\t'])
}

fn harmless(text: &str, kept: &[char]) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            _ if kept.contains(&character) => shown.push(character),
            '\n' | '\r' | '\t' => shown.push(' '),
            _ if character.is_control() || turns_text(character) => shown.extend(character.escape_unicode()),
            _ => shown.push(character),
        }
    }
    shown
}

/// Whether a character changes the direction in which others are shown, or is not seen at all.
const fn turns_text(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        assert_eq!(line("a\u{1b}[2Jb\nc\u{9b}d\u{7f}"), "a\\u{1b}[2Jb c\\u{9b}d\\u{7f}");
        assert_eq!(block("a\n\tb\r\u{202e}c"), "a\n\tb \\u{202e}c");
    }
}
