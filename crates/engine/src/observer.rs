//! Events of tasks, for an observer such as a metrics collector.

use longhaul_core::Task;

/// Receives events of tasks. Every method does nothing by default, must not block, and is called after the event. It
/// cannot change anything.
///
/// Exact as long as no answer of the store is lost: a write that was applied, and whose repetition was then refused, is
/// not reported.
pub trait Observer: Send + Sync {
    /// A call was accepted. Not called for a retry of an earlier call.
    fn accepted(&self, _task: &Task) {}

    /// A worker claimed the task. The second argument is the time in milliseconds since the task was accepted. It is
    /// given for the first attempt only: later attempts wait for timers and answers too.
    fn attempt_began(&self, _task: &Task, _waited_ms: Option<u64>) {}

    /// The attempt of this claim has ended, successful or not, after this many milliseconds.
    fn attempt_ended(&self, _task: &Task, _ran_ms: u64) {}

    /// The tool of an attempt came to this step, whose value is recorded from an earlier attempt, or whose work begins
    /// now.
    fn came_to_step(&self, _task: &Task, _name: &str, _recorded: IsRecorded) {}

    /// The task ended.
    fn ended(&self, _task: &Task) {}

    /// Cleaning up the task failed too often.
    fn cleanup_given_up(&self, _task: &Task) {}

    /// A tool that had failed was replayed to undo its work, and succeeded: it does not do the same each time.
    fn replay_differs(&self, _task: &Task) {}

    /// A task was recovered. A worker took over from one that died. Or a poll found the task without a message, past
    /// its deadline, or with its last attempt dead.
    fn recovered(&self, _task: &Task) {}

    /// The store did not answer, even after retries. The client got an error to retry, or a worker will retry.
    fn unavailable(&self) {}
}

/// Whether the value of a step is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsRecorded {
    /// It is, and is returned without doing the step's work again.
    Yes,
    /// It is not: the work is done now.
    No,
}

pub(crate) struct Unobserved;

impl Observer for Unobserved {}
