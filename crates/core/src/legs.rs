//! The latest legs of a task, for people who look at it: nothing depends on them.

use serde::{Deserialize, Serialize};

use crate::{Timestamp, limits};

/// The latest legs of a task.
///
/// A leg is on record twice: when it begins, and when it ends. The legs that the task itself ended with have no end of
/// their own, so that an end stays a write that needs to know nothing but the state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Legs {
    /// When the latest attempt began, unless it is among `past`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Those that ended before their task, at most [`limits::NOTED_LEGS_MAX`], by attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub past: Vec<PastLeg>,
}

/// A leg that ended before its task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastLeg {
    /// Its attempt.
    pub attempt: u32,
    /// When it was claimed.
    pub from: Timestamp,
    /// When its end was recorded; of a leg that died, until when it held the task.
    pub to: Timestamp,
    /// How it ended.
    pub end: LegOutcome,
}

/// How a leg ended before its task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LegOutcome {
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

impl LegOutcome {
    /// A failure for `reason`, of which at most [`limits::LEG_REASON_BYTES_MAX`] bytes are kept.
    #[must_use]
    pub fn failed(reason: &str) -> Self {
        Self::Failed(limits::cut(reason, limits::LEG_REASON_BYTES_MAX))
    }
}

impl Legs {
    pub(crate) const fn begin(&mut self, now: Timestamp) {
        self.since = Some(now);
    }

    /// A leg takes the place of the one that is [`limits::NOTED_LEGS_MAX`] attempts older: so a store finds the place
    /// without reading the others.
    pub(crate) fn end(&mut self, attempt: u32, to: Timestamp, end: LegOutcome) {
        let from = self.since.take().unwrap_or(to);
        self.past.retain(|leg| leg.attempt % limits::NOTED_LEGS_MAX != attempt % limits::NOTED_LEGS_MAX);
        self.past.push(PastLeg { attempt, from, to, end });
    }
}
