//! Cleanup: what an author's code does when a task is over, and its tool did not bring it to its end.

use serde::{Deserialize, Serialize};

use crate::{FailureKind, Lease, LeaseToken, Refusal, State, Task, Timestamp, limits};

/// How far the cleanup of a task is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cleanup {
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
pub enum CleanupEnd {
    /// It is done.
    Done,
    /// It failed, and may be tried again from then on.
    Failed {
        /// When.
        again_at: Timestamp,
    },
    /// It is put off, and counts as no try: the worker does not have the tool, or what is to be cleaned up cannot be
    /// reached at the moment.
    Postponed {
        /// When the next worker may begin.
        again_at: Timestamp,
    },
}

impl Cleanup {
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
    pub fn needs_cleanup(&self) -> bool {
        self.cleanup.is_armed() && self.ended_without_its_tool()
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

    pub(crate) fn begin_cleanup(&self, lease: Lease, now: Timestamp) -> Result<Cleanup, Refusal> {
        match self.cleanup {
            Cleanup::Armed { tries, lease: held } if self.ended_without_its_tool() => match held {
                Some(held) if now < held.until => Err(Refusal::Leased { until: held.until }),
                _ if tries >= limits::CLEANUP_TRIES_MAX => Ok(Cleanup::GivenUp),
                _ => Ok(Cleanup::Armed { tries: tries.saturating_add(1), lease: Some(lease) }),
            },
            Cleanup::Armed { .. } | Cleanup::None | Cleanup::Done | Cleanup::GivenUp => {
                Err(if self.has_ended() { Refusal::NothingToClean } else { Refusal::NotEnded })
            }
        }
    }

    pub(crate) fn end_cleanup(&self, token: LeaseToken, end: CleanupEnd) -> Result<Cleanup, Refusal> {
        match self.cleanup {
            Cleanup::Armed { tries, lease: Some(lease) } if lease.token == token => Ok(match end {
                CleanupEnd::Done => Cleanup::Done,
                CleanupEnd::Failed { again_at } => {
                    Cleanup::Armed { tries, lease: Some(Lease { until: again_at, token }) }
                }
                CleanupEnd::Postponed { again_at } => {
                    Cleanup::Armed { tries: tries.saturating_sub(1), lease: Some(Lease { until: again_at, token }) }
                }
            }),
            Cleanup::Armed { .. } => Err(Refusal::Stale { current: self.attempt }),
            Cleanup::None | Cleanup::Done | Cleanup::GivenUp => {
                Err(if self.has_ended() { Refusal::NothingToClean } else { Refusal::NotEnded })
            }
        }
    }

    /// Whether the cleanup shows that this try has begun.
    pub(crate) fn has_begun_cleanup(&self, lease: Lease) -> bool {
        matches!(self.cleanup, Cleanup::Armed { lease: Some(held), .. } if held == lease)
    }

    /// Whether the cleanup shows that this try has ended like this.
    pub(crate) fn has_ended_cleanup(&self, token: LeaseToken, end: CleanupEnd) -> bool {
        match end {
            CleanupEnd::Done => self.cleanup == Cleanup::Done,
            CleanupEnd::Failed { again_at } | CleanupEnd::Postponed { again_at } => {
                self.has_begun_cleanup(Lease { until: again_at, token })
            }
        }
    }
}
