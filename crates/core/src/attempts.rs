//! The latest attempts of a task, for people who look at it: nothing depends on them.

use serde::{Deserialize, Serialize};

use crate::{Timestamp, limits};

/// The latest attempts of a task.
///
/// An attempt is on record twice: when it begins, and when it ends. The attempts that the task itself ended with have
/// no end of their own, so that an end stays a write that needs to know nothing but the state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    /// When the latest attempt began, unless it is among `past`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Those that ended before their task, at most [`limits::NOTED_ATTEMPTS_MAX`], in their order.
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
    /// The next one waits for a moment.
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
