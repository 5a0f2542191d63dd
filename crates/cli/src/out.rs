//! What the command writes: results to its standard output, all else to its standard error. What comes from servers is
//! harmless on a terminal.

use std::io::{IsTerminal, Write, stderr, stdin, stdout};

use longhaul_client::text;
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
    text::line(text, usize::MAX)
}

/// The same with its line breaks.
pub(crate) fn block(text: &str) -> String {
    text::block(text, usize::MAX)
}
