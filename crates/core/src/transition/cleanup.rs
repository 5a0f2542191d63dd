//! When a task needs cleanup, and how far its events bring it.

use crate::{Cleanup, CleanupEnd, Lease, LeaseToken, Refusal, ResultKind, State, Task, Timestamp, limits};

impl Task {
    /// Whether the task has ended, not with success, and what its tool left is still to be cleaned.
    #[must_use]
    pub fn needs_cleanup(&self) -> bool {
        self.cleanup.is_armed() && self.ended_without_success()
    }

    /// Whether the task has ended, and its tool did not succeed.
    fn ended_without_success(&self) -> bool {
        match &self.state {
            State::Failed { .. } | State::Cancelled => true,
            State::Completed { kind, .. } => match kind {
                ResultKind::ToolError => true,
                ResultKind::Success => false,
            },
            State::Queued | State::Running { .. } | State::Sleeping { .. } | State::InputRequired { .. } => false,
        }
    }

    pub(crate) fn begin_cleanup(&self, lease: Lease, now: Timestamp) -> Result<Cleanup, Refusal> {
        match self.cleanup {
            Cleanup::Armed { tries, lease: held } if self.ended_without_success() => match held {
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
                CleanupEnd::GivenUp => Cleanup::GivenUp,
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
            CleanupEnd::GivenUp => self.cleanup == Cleanup::GivenUp,
            CleanupEnd::Failed { again_at } | CleanupEnd::Postponed { again_at } => {
                self.has_begun_cleanup(Lease { until: again_at, token })
            }
        }
    }
}
