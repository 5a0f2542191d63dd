//! The journal of a task: work that is already done, and its latest attempts, for people to read.

use serde::{Deserialize, Serialize};

use crate::{Payload, Timestamp, limits};

/// The kinds of journal entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// The value of a step, or its final failure.
    Step,
    /// When a timer is due, or when a tool began to look for something.
    Timer,
    /// A client's answer to an input request.
    Answer,
    /// An awaited signal, recorded by another process than the tool.
    #[serde(rename = "fact")]
    Signal,
    /// A permission to record a signal: the hash of a token that was handed out, and the name of the signal.
    Token,
    /// A round of questions that the tool asked by returning them, and the state it wants back.
    Round,
    /// A failed try of a step, or the mark that the work of a step that runs at most once begins.
    Try,
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
            Self::Try => "try",
        }
    }
}

/// One recorded entry of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The kind and name of the entry.
    pub kind: EntryKind,
    /// Its name, unique within the task and kind.
    pub name: String,
    /// The recorded value.
    pub value: Payload,
    /// When and by whom. Entries of older versions do not have it. A second record of the same entry is refused, with
    /// any value here.
    #[serde(default)]
    pub recording: Option<Recording>,
}

/// When and by whom an entry was recorded. No attempt depends on it. It is for people, and for a task that takes over a
/// part of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// The time.
    pub at: Timestamp,
    /// How long the step's work took, in milliseconds, up to the record; `None` for all but steps.
    pub took_ms: Option<u64>,
    /// The attempt that recorded it; 0 for an answer or a signal, which another process records.
    pub attempt: u32,
    /// How many entries the attempt had recorded when the work of a step began, and when this entry was recorded. An
    /// entry that depends on another one began after it. Entries of older versions do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<[u32; 2]>,
}

/// The latest attempts of a task.
///
/// An attempt is recorded twice: when it begins, and when it ends. The attempt that ended the task has no end of its
/// own: the write that ends a task needs to know only its state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    /// When the latest attempt began, unless it is among `past`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The attempts that ended before their task, at most [`limits::NOTED_ATTEMPTS_MAX`], in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub past: Vec<PastAttempt>,
}

/// An attempt that ended before its task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastAttempt {
    /// Its number: the first attempt of a task is 1.
    #[serde(rename = "attempt")]
    pub number: u32,
    /// When it was claimed.
    pub from: Timestamp,
    /// When its end was recorded; of an attempt that died, until when it held the task.
    pub to: Timestamp,
    /// How it ended.
    pub end: AttemptOutcome,
}

/// How an attempt ended before its task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// The next one waits for a time.
    Timer,
    /// The next one waits for the client's answers.
    Input,
    /// It gave the task back: it ran out of time, or its worker was stopping.
    Yield,
    /// It failed, for this reason, of which the beginning is kept.
    Failed(String),
    /// Its worker died or lost its lease.
    Died,
}

impl AttemptOutcome {
    /// A failure for `reason`, of which at most [`limits::ATTEMPT_REASON_BYTES_MAX`] bytes are kept.
    #[must_use]
    pub fn failed(reason: &str) -> Self {
        Self::Failed(limits::cut(reason, limits::ATTEMPT_REASON_BYTES_MAX))
    }
}

impl Attempts {
    pub(crate) const fn begin(&mut self, now: Timestamp) {
        self.since = Some(now);
    }

    /// An attempt takes the place of the one that is [`limits::NOTED_ATTEMPTS_MAX`] older, so a store finds the place
    /// without reading the others.
    pub(crate) fn end(&mut self, number: u32, to: Timestamp, end: AttemptOutcome) {
        let from = self.since.take().unwrap_or(to);
        self.past.retain(|attempt| attempt.number % limits::NOTED_ATTEMPTS_MAX != number % limits::NOTED_ATTEMPTS_MAX);
        self.past.push(PastAttempt { number, from, to, end });
    }
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
            EntryKind::Try,
        ];
        assert_eq!(kinds.map(EntryKind::as_str), ["step", "timer", "answer", "fact", "token", "round", "try"]);
    }
}
