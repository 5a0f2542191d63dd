//! What became of a client's call, or of its answers.

use longhaul_core::Task;

/// A call that is on record.
#[derive(Clone, Debug)]
pub enum Accepted {
    /// Accepted now.
    New(Task),
    /// Accepted before; this call is a retry.
    Existing(Task),
}

impl Accepted {
    /// The task, whether it was accepted now or before.
    #[must_use]
    pub fn into_task(self) -> Task {
        match self {
            Self::New(task) | Self::Existing(task) => task,
        }
    }
}

/// What became of a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignalRecorded {
    /// It is on record.
    First,
    /// This text was recorded before, and stays.
    Earlier(String),
    /// The task's wait for it was over before, and it went on without.
    TooLate,
}

/// What became of a wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The task's next attempt starts now, or within seconds.
    Now,
    /// The task waits for nothing that could be there: it runs or is about to, waits for its client alone or for the
    /// delay before a retry, has ended, or is not there.
    NotWaiting,
}

/// What became of answers, with the task.
pub(crate) enum Taken {
    /// Those to open questions are on record.
    Recorded(Task),
    /// None of them is to an open question.
    Ignored(Task),
}
