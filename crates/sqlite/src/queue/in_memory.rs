//! Messages of new tasks that are in memory only. Each says no more than the record of its task, which is on disk. So
//! the process that opens the file next makes them again ([`take_up`](crate::Database::take_up)), and they cost no
//! write.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;

use longhaul_core::ports::Message;
use longhaul_core::{OwnerId, TaskKey, Timestamp};

use crate::DatabaseError;
use crate::limits::IN_MEMORY_MAX;
use crate::queue::backlog::Backlog;
use crate::queue::message::{Owners, Waiting};

/// Messages, found by their numbers, which are below zero, unlike those of the table.
#[derive(Default)]
pub(crate) struct InMemory {
    messages: HashMap<i64, Kept>,
    by_time: BTreeSet<(Timestamp, i64)>,
    by_owner: BTreeSet<(OwnerId, Timestamp, i64)>,
    /// The number of each task's message.
    by_task: HashMap<TaskKey, i64>,
    /// How many messages there have been.
    count: i64,
    removed: u64,
}

struct Kept {
    message: Message,
    visible_at: Timestamp,
    receives: u32,
    /// The number of its latest delivery.
    turn: i64,
}

impl InMemory {
    /// Keeps a message that is visible at `visible_at`. Returns whether there was room for it.
    pub(crate) fn put(&mut self, message: Message, visible_at: Timestamp) -> bool {
        if self.messages.len() >= IN_MEMORY_MAX {
            return false;
        }
        self.count += 1;
        let number = i64::MIN + self.count;
        self.by_task.insert(message.task, number);
        self.insert(number, Kept { message, visible_at, receives: 0, turn: 0 });
        true
    }

    pub(crate) fn has(&self, task: &TaskKey) -> bool {
        self.by_task.contains_key(task)
    }

    /// When the first message becomes visible that is not visible at `now`.
    pub(crate) fn next_visible(&self, now: Timestamp) -> Option<Timestamp> {
        self.by_time.range((Bound::Excluded((now, i64::MAX)), Bound::Unbounded)).next().map(|(at, _number)| *at)
    }

    /// The messages that are visible.
    pub(crate) fn backlog(&self, now: Timestamp) -> Backlog {
        let visible = self.by_time.range(..=(now, i64::MAX)).map(|(at, _number)| *at);
        let oldest_age_ms = visible.clone().next().map_or(0, |at| now.since_ms(at));
        Backlog { messages: visible.count(), oldest_age_ms }
    }

    /// The owner's message that has been visible longest.
    pub(crate) fn first_of(&self, owner: &OwnerId, now: Timestamp) -> Option<Waiting> {
        let from = (*owner, Timestamp::from_ms(0), i64::MIN);
        let (_, visible_at, number) = self.by_owner.range(from..=(*owner, now, i64::MAX)).next()?;
        let kept = self.messages.get(number)?;
        Some(Waiting {
            number: *number,
            turn: kept.turn,
            receives: kept.receives,
            visible_at: *visible_at,
            message: kept.message.clone(),
        })
    }

    /// The message was delivered under the number `turn`, and is hidden until `until`.
    pub(crate) fn delivered(&mut self, number: i64, turn: i64, until: Timestamp) {
        if let Some(mut kept) = self.take_out(number) {
            kept.receives = kept.receives.saturating_add(1);
            (kept.turn, kept.visible_at) = (turn, until);
            self.insert(number, kept);
        }
    }

    /// Hides the message until `until`, if its latest delivery is the one under the number `turn`.
    pub(crate) fn hide(&mut self, number: i64, turn: i64, until: Timestamp) {
        if self.is_latest(number, turn)
            && let Some(kept) = self.take_out(number)
        {
            self.insert(number, Kept { visible_at: until, ..kept });
        }
    }

    /// Forgets the message, if its latest delivery is the one under the number `turn`.
    pub(crate) fn delete(&mut self, number: i64, turn: i64) {
        if self.is_latest(number, turn) {
            self.remove(number);
        }
    }

    pub(crate) fn remove(&mut self, number: i64) {
        let Some(kept) = self.take_out(number) else { return };
        self.removed += 1;
        if self.by_task.get(&kept.message.task) == Some(&number) {
            self.by_task.remove(&kept.message.task);
        }
    }

    /// How many messages are gone.
    pub(crate) const fn removed(&self) -> u64 {
        self.removed
    }

    fn is_latest(&self, number: i64, turn: i64) -> bool {
        self.messages.get(&number).is_some_and(|kept| kept.turn == turn)
    }

    fn insert(&mut self, number: i64, kept: Kept) {
        self.by_time.insert((kept.visible_at, number));
        self.by_owner.insert((kept.message.task.owner, kept.visible_at, number));
        self.messages.insert(number, kept);
    }

    fn take_out(&mut self, number: i64) -> Option<Kept> {
        let kept = self.messages.remove(&number)?;
        self.by_time.remove(&(kept.visible_at, number));
        self.by_owner.remove(&(kept.message.task.owner, kept.visible_at, number));
        Some(kept)
    }
}

impl Owners for InMemory {
    fn waiting(&self, now: Timestamp, max: usize) -> Result<Vec<OwnerId>, DatabaseError> {
        let visible = self.by_time.range(..=(now, i64::MAX)).take(max);
        Ok(visible.filter_map(|(_at, number)| Some(self.messages.get(number)?.message.task.owner)).collect())
    }

    fn next_owner(&self, after: Option<&OwnerId>) -> Result<Option<(OwnerId, Timestamp)>, DatabaseError> {
        let from =
            after.map_or(Bound::Unbounded, |owner| Bound::Excluded((*owner, Timestamp::from_ms(u64::MAX), i64::MAX)));
        Ok(self.by_owner.range((from, Bound::Unbounded)).next().map(|(owner, at, _number)| (*owner, *at)))
    }
}

#[cfg(test)]
mod tests {
    use longhaul_testkit::{SeededIds, given};

    use super::*;

    #[test]
    fn who_had_an_earlier_delivery_neither_hides_nor_deletes_the_message() {
        let (owner, later) = (given::owner("alice"), |ms| given::NOW.plus_ms(ms));
        let task = given::task(&SeededIds::new(1), owner, given::NOW).key();
        let mut messages = InMemory::default();
        assert!(messages.put(Message { task, trace: None, attempt: None }, given::NOW));
        let number = messages.first_of(&owner, given::NOW).map_or(0, |waiting| waiting.number);
        messages.delivered(number, 1, later(10));
        messages.delivered(number, 2, later(20));
        messages.hide(number, 1, later(5));
        messages.delete(number, 1);
        assert_eq!(messages.next_visible(given::NOW), Some(later(20)));
        messages.hide(number, 2, later(30));
        assert_eq!(messages.next_visible(given::NOW), Some(later(30)));
        messages.delete(number, 2);
        assert!(!messages.has(&task));
    }
}
