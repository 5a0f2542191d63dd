//! The counts of a running load.

use std::collections::HashMap;

use longhaul_core::TaskKey;

/// The counts of the running load.
#[derive(Default)]
pub(super) struct Tally {
    /// The call of each accepted task, and when its first try began.
    pub(super) tasks: HashMap<TaskKey, (usize, u64)>,
    /// The tasks that were accepted in the second half of the time in which calls were made.
    pub(super) accepted_in_time: u64,
    pub(super) last_ms: u64,
    pub(super) unavailable: u64,
    pub(super) too_many_open: u64,
    pub(super) given_up: u64,
    pub(super) polls_failed: u64,
}

impl Tally {
    pub(super) fn accepted(&mut self, key: TaskKey, call: usize, began_ms: u64, now_ms: u64) {
        self.tasks.insert(key, (call, began_ms));
        self.accepted_in_time += u64::from((self.last_ms / 2..self.last_ms).contains(&now_ms));
    }

    /// Calls are made until then.
    pub(super) const fn until(&mut self, last_ms: u64) {
        self.last_ms = last_ms;
    }
}
