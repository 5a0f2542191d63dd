//! What happens to tasks, told to whoever counts it.

use longhaul_core::Task;

/// Hears what happens to tasks. Every method does nothing by default, must not block, and is called after the fact: what
/// it does changes nothing.
///
/// Exact as long as no answer of the store is lost: a write that was applied and then refused to its own repetition is
/// not told of.
pub trait Observer: Send + Sync {
    /// A call was accepted; a retry of an earlier call is none.
    fn accepted(&self, _task: &Task) {}

    /// A worker claimed the task. The second argument is the time in milliseconds since the task was accepted, told for its first leg only:
    /// later ones wait for timers and answers too.
    fn leg_began(&self, _task: &Task, _waited_ms: Option<u64>) {}

    /// The leg of this claim is over, whatever came of it, after this many milliseconds.
    fn leg_ended(&self, _task: &Task, _ran_ms: u64) {}

    /// The task ended.
    fn ended(&self, _task: &Task) {}

    /// Something was mended: a worker took over from one that died, or a poll found the task without a message, past its
    /// deadline, or with its last leg dead.
    fn recovered(&self, _task: &Task) {}
}

/// Who counts nothing.
pub(crate) struct Unobserved;

impl Observer for Unobserved {}
