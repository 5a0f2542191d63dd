//! What a task remembers of the work that is already done.

use serde::{Deserialize, Serialize};

use crate::{Payload, Timestamp};

/// What a journal entry records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// The value of a step.
    Step,
    /// When a timer is due, or when a tool began to look for something.
    Timer,
    /// A client's answer to an input request.
    Answer,
    /// What a tool waits for, recorded by somebody else.
    #[serde(rename = "fact")]
    Signal,
    /// Who may record a signal: the hash of a token that was handed out, and the name of the signal.
    Token,
    /// A round of questions that the tool asked by returning them, and the state it wants back.
    Round,
}

impl EntryKind {
    /// The kind's name in keys.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Timer => "timer",
            Self::Answer => "answer",
            Self::Signal => "fact",
            Self::Token => "token",
            Self::Round => "round",
        }
    }
}

/// One thing on record about a task. Its key is its kind and name: the first record wins and is never changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What is recorded.
    pub kind: EntryKind,
    /// Its name, unique within the task and kind.
    pub name: String,
    /// What was recorded.
    pub value: Payload,
    /// When and by whom. Entries of older versions do not have it. A second record of the same entry is refused
    /// whatever it says here.
    #[serde(default)]
    pub recording: Option<Recording>,
}

/// When and by whom an entry was recorded. For people who look at a task: nothing depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// The moment.
    pub at: Timestamp,
    /// How long the step's work took, in milliseconds, up to the record; `None` for what is no step.
    pub took_ms: Option<u64>,
    /// The attempt that recorded it; 0 for an answer or a signal, which somebody else records.
    pub attempt: u32,
}

#[cfg(test)]
mod tests {
    use super::EntryKind;

    #[test]
    fn every_kind_has_its_name() {
        let kinds = [
            EntryKind::Step,
            EntryKind::Timer,
            EntryKind::Answer,
            EntryKind::Signal,
            EntryKind::Token,
            EntryKind::Round,
        ];
        assert_eq!(kinds.map(EntryKind::as_str), ["step", "timer", "answer", "fact", "token", "round"]);
    }
}
