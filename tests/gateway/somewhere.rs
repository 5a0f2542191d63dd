//! Servers that run on their own, behind URLs.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::process::fixture;

/// A server that runs somewhere. Killed when dropped.
pub(crate) struct Somewhere {
    child: Child,
    url: String,
}

impl Somewhere {
    /// The URL that it printed.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// One of the servers of `crates/fixtures` that print their URL.
    pub(crate) fn fixture(name: &str, arguments: &[&str]) -> (Self, String) {
        Self::start(Command::new(fixture()).arg(name).args(arguments))
    }

    /// A program that prints its URL, alone in a line or as the last word of its first line with one.
    pub(crate) fn start(command: &mut Command) -> (Self, String) {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.ends_with("/mcp\n") {
            line.clear();
            assert!(stdout.read_line(&mut line).unwrap() > 0, "the server ended before it printed its URL");
        }
        // A process that prints needs a reader.
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        let url = line.split_whitespace().last().unwrap().to_owned();
        (Self { child, url: url.clone() }, url)
    }

    /// A program that does not print its URL.
    pub(crate) fn silent(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { child: command.spawn().unwrap(), url: String::new() }
    }

    /// Its port, for another one in its place.
    pub(crate) fn port(&self) -> String {
        self.url.rsplit(':').next().unwrap().split('/').next().unwrap().to_owned()
    }
}

impl Drop for Somewhere {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
