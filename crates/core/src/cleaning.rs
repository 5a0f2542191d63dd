//! Cleaning: what an author's code does when a task is over, and its tool did not bring it to its end.

use serde::{Deserialize, Serialize};

use crate::{FailureKind, Lease, LeaseToken, Refusal, State, Task, Timestamp, limits};

/// How far the cleaning of a task is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cleaning {
    /// The tool has none, or an older version accepted the call.
    #[default]
    None,
    /// The tool has one. It is due once the task has ended otherwise than by its tool.
    Armed {
        /// How often it has begun.
        tries: u32,
        /// Who began it last, and until when no other worker does.
        lease: Option<Lease>,
    },
    /// It is done.
    Done,
    /// It failed, or its worker died, too often.
    GivenUp,
}

/// How a try to clean up ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleaningEnd {
    /// It is done.
    Done,
    /// It failed, and may be tried again from this moment on.
    Failed {
        /// When.
        again_at: Timestamp,
    },
    /// Nothing was run, because the worker does not have the tool. That is no try.
    NotRun {
        /// When the next worker may begin.
        again_at: Timestamp,
    },
}

impl Cleaning {
    /// That of a new task whose tool has one.
    pub const ARMED: Self = Self::Armed { tries: 0, lease: None };

    /// Whether the tool has one that is neither done nor given up.
    #[must_use]
    pub const fn is_armed(self) -> bool {
        matches!(self, Self::Armed { .. })
    }
}

impl Task {
    /// Whether the task has ended, its tool did not bring it to its end, and what that tool left is still to be
    /// cleaned.
    #[must_use]
    pub fn needs_cleaning(&self) -> bool {
        self.cleaning.is_armed() && self.ended_without_its_tool()
    }

    /// Whether the task was cancelled, or failed for a reason that its tool did not return.
    fn ended_without_its_tool(&self) -> bool {
        match &self.state {
            State::Cancelled => true,
            State::Failed { failure } => match failure.kind {
                FailureKind::Tool => false,
                FailureKind::RetriesExhausted
                | FailureKind::TimedOut
                | FailureKind::TooLarge
                | FailureKind::Corrupt
                | FailureKind::Misuse => true,
            },
            State::Queued
            | State::Running { .. }
            | State::Sleeping { .. }
            | State::InputRequired { .. }
            | State::Completed { .. } => false,
        }
    }

    pub(crate) fn begin_cleaning(&self, lease: Lease, now: Timestamp) -> Result<Cleaning, Refusal> {
        match self.cleaning {
            Cleaning::Armed { tries, lease: held } if self.ended_without_its_tool() => match held {
                Some(held) if now < held.until => Err(Refusal::Leased { until: held.until }),
                _ if tries >= limits::CLEANING_TRIES_MAX => Ok(Cleaning::GivenUp),
                _ => Ok(Cleaning::Armed { tries: tries.saturating_add(1), lease: Some(lease) }),
            },
            Cleaning::Armed { .. } | Cleaning::None | Cleaning::Done | Cleaning::GivenUp => {
                Err(if self.has_ended() { Refusal::NothingToClean } else { Refusal::NotEnded })
            }
        }
    }

    pub(crate) fn end_cleaning(&self, token: LeaseToken, end: CleaningEnd) -> Result<Cleaning, Refusal> {
        match self.cleaning {
            Cleaning::Armed { tries, lease: Some(lease) } if lease.token == token => Ok(match end {
                CleaningEnd::Done => Cleaning::Done,
                CleaningEnd::Failed { again_at } => {
                    Cleaning::Armed { tries, lease: Some(Lease { until: again_at, token }) }
                }
                CleaningEnd::NotRun { again_at } => {
                    Cleaning::Armed { tries: tries.saturating_sub(1), lease: Some(Lease { until: again_at, token }) }
                }
            }),
            Cleaning::Armed { .. } => Err(Refusal::Stale { current: self.attempt }),
            Cleaning::None | Cleaning::Done | Cleaning::GivenUp => {
                Err(if self.has_ended() { Refusal::NothingToClean } else { Refusal::NotEnded })
            }
        }
    }

    /// Whether the cleaning shows that this try has begun.
    pub(crate) fn has_begun_cleaning(&self, lease: Lease) -> bool {
        matches!(self.cleaning, Cleaning::Armed { lease: Some(held), .. } if held == lease)
    }

    /// Whether the cleaning shows that this try has ended like this.
    pub(crate) fn has_ended_cleaning(&self, token: LeaseToken, end: CleaningEnd) -> bool {
        match end {
            CleaningEnd::Done => self.cleaning == Cleaning::Done,
            CleaningEnd::Failed { again_at } | CleaningEnd::NotRun { again_at } => {
                self.has_begun_cleaning(Lease { until: again_at, token })
            }
        }
    }
}
