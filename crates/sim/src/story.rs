//! The story of a run: sentences with times.

use std::fmt;

/// Whether a run records its story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoryMode {
    /// It does.
    Record,
    /// It does not, which is quicker.
    Skip,
}

/// One sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When, in milliseconds since the world began.
    pub at_ms: u64,
    /// The actor.
    pub who: String,
    /// The action.
    pub what: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (s, ms) = (self.at_ms / 1_000, self.at_ms % 1_000);
        write!(f, "{s:>6}.{ms:03} s  {} {}", self.who, self.what)
    }
}

/// A name for the `number`th task: A, B, …
pub(crate) fn task_name(number: usize) -> String {
    match u8::try_from(number) {
        Ok(small) if small < 26 => format!("task {}", char::from(b'A' + small)),
        Ok(_) | Err(_) => format!("task {number}"),
    }
}
