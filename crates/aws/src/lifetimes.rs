//! How long tasks live, as far as this store has seen them, so that what belongs to a task is deleted after it and not
//! before it, without a look at its record.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use longhaul_core::{Task, TaskId, TaskKey, Timestamp, limits};

/// Tasks that are remembered. An instance works on a handful at a time.
const TASKS_MAX: usize = 1_024;

/// What is beside a record stays a little longer than it: clocks differ, and a reader may be on its way from the
/// record to its parts.
const AFTERWARDS_MS: u64 = 3_600_000;

/// From when on everything that belongs to `task` may go. An unfinished task ends before its expiry, and its end
/// moves the expiry by no more than the time that the result is kept. So this moment only moves where somebody wishes
/// to keep the result longer, or not at all.
pub(crate) fn of(task: &Task) -> Timestamp {
    let retention_ms = if task.has_ended() { 0 } else { task.terms.retention_ms };
    task.expires_at.plus_ms(retention_ms).plus_ms(AFTERWARDS_MS)
}

/// From when on the parts of a text in a mailbox may go.
pub(crate) const fn of_parts_until(expires_at: Timestamp) -> Timestamp {
    expires_at.plus_ms(AFTERWARDS_MS)
}

/// The same as [`of`] for parts of a request, which are written before their task: twice the longest time to live that a caller
/// may ask for. Where the task lives longer, its creation says so to the parts.
pub(crate) fn before_the_task(id: &TaskId) -> Timestamp {
    let [a, b, c, d, e, f, ..] = *id.as_bytes();
    let created_at_ms = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    Timestamp::from_ms(created_at_ms).plus_ms(limits::TTL_MS_MAX_DEFAULT.saturating_mul(2))
}

/// The tasks that were seen last.
#[derive(Debug, Default)]
pub(crate) struct Lifetimes {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    ends: HashMap<TaskKey, Timestamp>,
    order: VecDeque<TaskKey>,
}

impl Lifetimes {
    /// Remembers the task unless it is remembered, in place of the one that was seen first where there are too many.
    pub(crate) fn note(&self, task: &Task) {
        // A map without a panic inside its methods cannot be left half changed.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.ends.contains_key(&task.key()) {
            return;
        }
        seen.ends.insert(task.key(), of(task));
        seen.order.push_back(task.key());
        if seen.order.len() > TASKS_MAX
            && let Some(first) = seen.order.pop_front()
        {
            seen.ends.remove(&first);
        }
    }

    /// Whether the task lives longer than was remembered, so that what was written for it goes too early; it does so
    /// once for each time that it was prolonged.
    pub(crate) fn has_grown(&self, task: &Task) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match seen.ends.get_mut(&task.key()) {
            Some(end) if *end < of(task) => {
                *end = of(task);
                true
            }
            Some(_) | None => false,
        }
    }

    /// From when on everything that belongs to the task may go, where it was seen.
    pub(crate) fn known(&self, key: &TaskKey) -> Option<Timestamp> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).ends.get(key).copied()
    }
}
