//! The output of the command: results to its standard output, all else to its standard error. Text from servers is made
//! harmless on a terminal.

use std::io::{Error, ErrorKind, IsTerminal, Write, stderr, stdin, stdout};
use std::os::fd::AsFd;
use std::process::ExitCode;

use longhaul_client::text;
use serde_json::{Value, json};
use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;

use crate::exit::{Exit, Stop};

/// Whether a user can be asked.
pub(crate) fn can_ask() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

pub(crate) fn is_to_terminal() -> bool {
    stdout().is_terminal()
}

/// Writes a line of the result.
///
/// # Errors
/// If it cannot be written, such as on a full disk; quietly, if its reader has gone.
pub(crate) fn result(text: &str) -> Result<(), Stop> {
    if is_to_terminal() {
        raw(&block(text))?
    } else {
        raw(text)?
    }
    raw("\n")
}

/// Writes a line of JSON, which is JSON on a terminal too.
pub(crate) fn json(value: &Value) -> Result<(), Stop> {
    let text = value.to_string();
    if is_to_terminal() {
        raw(&text::json(&text))?
    } else {
        raw(&text)?
    }
    raw("\n")
}

/// Writes text of the command's own as it is.
pub(crate) fn raw(text: &str) -> Result<(), Stop> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| unwritten(&error))
}

/// The meaning of an error of the standard output.
pub(crate) fn unwritten(error: &Error) -> Stop {
    match error.kind() {
        ErrorKind::BrokenPipe => Stop::reader_gone(),
        _ => Stop::new(Exit::Unexpected, format!("the standard output cannot be written: {error}")),
    }
}

/// Returns when the reader of the standard output has gone. Only pipes and sockets tell.
pub(crate) async fn reader_gone() {
    let output = stdout().as_fd().try_clone_to_owned().and_then(Sender::from_owned_fd_unchecked);
    if let Ok(output) = output
        && output.ready(Interest::ERROR).await.is_ok()
    {
        return;
    }
    std::future::pending().await
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

/// Says why the command does not do what it was asked, and returns how it ends.
pub(crate) fn report(stop: &Stop) -> ExitCode {
    if !stop.why.is_empty() {
        say(&format!("error: {}", block(&stop.why)));
    }
    stop.exit.into()
}

/// The same as one object in a line of JSON.
pub(crate) fn report_json(stop: &Stop) -> ExitCode {
    if !stop.why.is_empty() {
        let error = json!({"error": {"exitCode": stop.exit as u8, "reason": stop.exit.name(), "message": stop.why}});
        say(&text::json(&error.to_string()));
    }
    stop.exit.into()
}

/// Prints help, or what is wrong with the arguments.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    match error.print() {
        Err(broken) if !error.use_stderr() => report(&unwritten(&broken)),
        // 2 for mistakes, 0 for help.
        Ok(()) | Err(_) => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
    }
}
