//! All mistakes in a configuration, each with its place.

use std::fmt;

/// All mistakes in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub(super) faults: Vec<Fault>,
}

/// A mistake, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// A JSON pointer (RFC 6901), such as `/mcpServers/git/command`; empty for the whole file.
    pub(super) pointer: String,
    /// The mistake, and what to write instead.
    pub(super) what: String,
}

impl fmt::Display for ConfigError {
    /// One line for each mistake.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            let line_break = if index == 0 { "" } else { "\n" };
            let place = if fault.pointer.is_empty() { "the configuration" } else { &fault.pointer };
            write!(f, "{line_break}{place}: {}", fault.what)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
