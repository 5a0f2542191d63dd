//! Why an event does not apply to a task.

use crate::Timestamp;

/// Why an event does not apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The task is past its time to live.
    #[error("the task has expired")]
    Expired,
    /// The task has ended.
    #[error("the task has ended")]
    Ended,
    /// A later attempt holds the task, or none does.
    #[error("attempt {current} is the latest, and the writer does not hold it")]
    Stale {
        /// The latest attempt.
        current: u32,
    },
    /// A live attempt holds the task.
    #[error("another worker holds the task until {until}")]
    Leased {
        /// Until when.
        until: Timestamp,
    },
    /// The task is sleeping.
    #[error("the task sleeps until {until}")]
    NotDue {
        /// Until when.
        until: Timestamp,
    },
    /// The task waits for the client.
    #[error("the task waits for answers")]
    WaitsForInput,
    /// No question with one of these keys is open.
    #[error("no open question has any of these keys")]
    NotAsked,
    /// No further attempt may start.
    #[error("no retries are left")]
    RetriesExhausted,
    /// Another attempt may start.
    #[error("retries are left")]
    RetriesLeft,
    /// The task has [flow control](crate::FlowControl), and the worker has no permits for it.
    #[error("the task needs permits to run")]
    NeedsPermits,
    /// The task is past its deadline.
    #[error("the task is past its deadline")]
    PastDeadline,
    /// The task has not ended.
    #[error("the task has not ended")]
    NotEnded,
    /// The task's deadline has not passed.
    #[error("the deadline has not passed")]
    BeforeDeadline,
    /// A message was sent recently.
    #[error("a message was sent at {at}")]
    SentAlready {
        /// When.
        at: Timestamp,
    },
    /// The task's tool has no cleanup, it is done or given up, or the tool brought the task to its end itself.
    #[error("there is nothing to clean up")]
    NothingToClean,
    /// The task does not wait for anything from outside. It runs or is about to, or it waits for its client alone, for
    /// the delay before a retry, or for a later start.
    #[error("the task waits for nothing that could be there sooner")]
    NothingToWake,
    /// A suspension without questions.
    #[error("a suspension for input must ask at least one question")]
    NothingAsked,
}

impl Refusal {
    /// Whether no worker has anything left to do for the task: it has ended or expired. It may still need cleanup.
    #[must_use]
    pub const fn is_permanent(self) -> bool {
        match self {
            Self::Expired | Self::Ended | Self::NothingToClean => true,
            Self::Stale { .. }
            | Self::Leased { .. }
            | Self::NotDue { .. }
            | Self::WaitsForInput
            | Self::NotAsked
            | Self::RetriesExhausted
            | Self::RetriesLeft
            | Self::NeedsPermits
            | Self::PastDeadline
            | Self::NotEnded
            | Self::BeforeDeadline
            | Self::SentAlready { .. }
            | Self::NothingToWake
            | Self::NothingAsked => false,
        }
    }
}
