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

/// What became of answers, with the task.
pub(crate) enum Taken {
    /// Those to open questions are on record.
    Recorded(Task),
    /// None of them is to an open question.
    Ignored(Task),
}
