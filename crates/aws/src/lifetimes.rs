//! How long this store has seen tasks being kept. With it, attachments are deleted after their task and not before it,
//! without a read of its record.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use longhaul_core::{Task, TaskId, TaskKey, Timestamp, limits};

/// How many tasks are remembered. An instance works on a handful at a time.
const TASKS_MAX: usize = 1_024;

/// Attachments are kept a little longer than their record: clocks differ, and a reader may have read the record but not
/// its parts yet.
const MARGIN_MS: u64 = 3_600_000;

/// From when on the attachments of `task` may be deleted. An unfinished task ends before its expiry, and its end moves
/// the expiry by at most the retention. So this time only moves if a client extends the retention or forgets the
/// task.
pub(crate) fn of(task: &Task) -> Timestamp {
    let retention_ms = if task.has_ended() { 0 } else { task.terms.retention_ms };
    task.expires_at.plus_ms(retention_ms).plus_ms(MARGIN_MS)
}

/// From when on the parts of a text in a mailbox may be deleted.
pub(crate) const fn of_parts_until(expires_at: Timestamp) -> Timestamp {
    expires_at.plus_ms(MARGIN_MS)
}

/// The same as [`of`] for attachments without a task: twice the longest time to live that a caller may request.
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
    /// Remembers the task unless it is remembered already; if there are too many, forgets the one that was seen first.
    pub(crate) fn note(&self, task: &Task) {
        // The map's methods do not panic, so it is never left half changed.
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

    /// Whether the task is kept longer than was remembered, so that its attachments would be deleted too early.
    /// Remembers the new time, so that the answer is yes once for each extension.
    pub(crate) fn note_extension(&self, task: &Task) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match seen.ends.get_mut(&task.key()) {
            Some(end) if *end < of(task) => {
                *end = of(task);
                true
            }
            Some(_) | None => false,
        }
    }

    /// From when on the task's attachments may be deleted, if the task is remembered.
    pub(crate) fn known(&self, key: &TaskKey) -> Option<Timestamp> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).ends.get(key).copied()
    }
}

#[cfg(test)]
mod tests {
    use longhaul_testkit::{SeededIds, given};

    use super::*;

    #[test]
    fn so_many_tasks_are_remembered_and_of_more_the_latest_ones() {
        let (lifetimes, ids) = (Lifetimes::default(), SeededIds::new(1));
        let tasks: Vec<Task> = (0..=TASKS_MAX).map(|_| given::task(&ids, given::owner("alice"), given::NOW)).collect();
        let (last, others) = tasks.split_last().unwrap();
        // Twice is once.
        others.iter().chain(others).for_each(|task| lifetimes.note(task));
        assert!(others.iter().all(|task| lifetimes.known(&task.key()) == Some(of(task))));
        lifetimes.note(last);
        let (first, later) = tasks.split_first().unwrap();
        assert_eq!(lifetimes.known(&first.key()), None);
        assert!(later.iter().all(|task| lifetimes.known(&task.key()).is_some()));
    }
}
