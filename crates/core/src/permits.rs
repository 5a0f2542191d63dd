//! The permits of one group, and the tasks that wait for one: the rules that every store of permits keeps.

use std::cmp::Reverse;

use crate::ports::{AttemptPermit, Taken};
use crate::{TaskKey, Timestamp, Turn, limits};

/// The permits of a group as a store has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupPermits {
    /// The permits that are taken.
    pub taken: Vec<AttemptPermit>,
    /// The tasks that found none.
    pub waiting: Vec<WaitingTask>,
}

/// A task that waits for a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingTask {
    /// Which one.
    pub task: TaskKey,
    /// Its turn.
    pub turn: Turn,
    /// When it is forgotten, unless it comes again before.
    pub until: Timestamp,
}

impl GroupPermits {
    /// Takes a permit; that of another attempt of the same task only if it is `yielded`. If there is none, or other
    /// tasks come first, notes that the task waits.
    pub fn take(&mut self, permit: &AttemptPermit, yielded: Option<&AttemptPermit>, max: u32, now: Timestamp) -> Taken {
        self.forget_expired(now);
        match self.taken.iter().find(|held| held.task == permit.task) {
            Some(held) if held.lease == permit.lease => return Taken::Permit,
            Some(held) if Some(held) == yielded => {}
            Some(held) => return Taken::Held(*held),
            None if self.is_next(permit, max) => {}
            None => {
                self.note(permit, now);
                return Taken::Full;
            }
        }
        self.taken.retain(|held| held.task != permit.task);
        self.taken.push(permit.stored());
        self.waiting.retain(|waiting| waiting.task != permit.task);
        Taken::Permit
    }

    /// Gives a permit back. Returns the task whose turn it is next, which is not noted any more.
    pub fn give_back(&mut self, permit: &AttemptPermit, now: Timestamp) -> Option<TaskKey> {
        self.forget_expired(now);
        let held = self.taken.iter().position(|held| (held.task, held.lease) == (permit.task, permit.lease))?;
        self.taken.swap_remove(held);
        let next = self.waiting.iter().min_by_key(|waiting| self.rank(waiting.task, waiting.turn))?.task;
        self.waiting.retain(|waiting| waiting.task != next);
        Some(next)
    }

    fn forget_expired(&mut self, now: Timestamp) {
        self.taken.retain(|held| held.until > now);
        self.waiting.retain(|waiting| waiting.until > now);
    }

    /// Whether there is a permit, after those of the tasks that come first.
    fn is_next(&self, permit: &AttemptPermit, max: u32) -> bool {
        let free = (max as usize).saturating_sub(self.taken.len());
        let comes_first = |waiting: &&WaitingTask| {
            let own = permit.turn.map(|turn| self.rank(permit.task, turn));
            waiting.task != permit.task && own.is_some_and(|own| self.rank(waiting.task, waiting.turn) < own)
        };
        self.waiting.iter().filter(comes_first).count() < free
    }

    /// The order of tasks that wait: by priority, then those of owners with few permits, then by time.
    fn rank(&self, task: TaskKey, turn: Turn) -> (Reverse<u8>, usize, Timestamp, TaskKey) {
        let of_owner = self.taken.iter().filter(|held| held.task.owner == task.owner).count();
        (Reverse(turn.priority), of_owner, turn.since, task)
    }

    /// Notes that the task waits. If too many do, the last of them is not noted.
    fn note(&mut self, permit: &AttemptPermit, now: Timestamp) {
        let Some(turn) = permit.turn else { return };
        let half = now.plus_ms(limits::PERMIT_WAIT_MS / 2);
        let is_noted =
            |waiting: &WaitingTask| (waiting.task, waiting.turn) == (permit.task, turn) && waiting.until > half;
        if self.waiting.iter().any(is_noted) {
            return;
        }
        self.waiting.retain(|waiting| waiting.task != permit.task);
        self.waiting.push(WaitingTask { task: permit.task, turn, until: now.plus_ms(limits::PERMIT_WAIT_MS) });
        if self.waiting.len() > limits::PERMITS_AWAITED_MAX {
            let last = self.waiting.iter().max_by_key(|waiting| self.rank(waiting.task, waiting.turn));
            let last = last.map(|waiting| waiting.task);
            self.waiting.retain(|waiting| Some(waiting.task) != last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LeaseToken, OwnerId, PermitGroup, TaskId};

    const NOW: Timestamp = Timestamp::from_ms(1_000_000);

    /// A permit of task `number` of `owner`, which waits since then.
    fn of(owner: u8, number: u8, priority: u8) -> AttemptPermit {
        let task = TaskKey::new(OwnerId::from_bytes([owner; 32]), TaskId::derived(NOW, &[&[number]]));
        let turn = Some(Turn { priority, since: NOW.plus_ms(u64::from(number)) });
        let lease = LeaseToken::from_random([number; 16]);
        let group = PermitGroup::Running([0; 32]);
        AttemptPermit { group, task, lease, since: NOW, until: NOW.plus_ms(60_000), turn }
    }

    /// A group with one permit, which the first of these has, and for which the others wait.
    fn awaited(permits: &[AttemptPermit]) -> GroupPermits {
        let mut group = GroupPermits::default();
        for (number, permit) in permits.iter().enumerate() {
            let taken = group.take(permit, None, 1, NOW);
            assert_eq!(taken, if number == 0 { Taken::Permit } else { Taken::Full });
        }
        group
    }

    #[test]
    fn the_owner_with_fewest_permits_comes_first_then_who_waits_longest_and_a_priority_before_both() {
        let (first, again, other, later) = (of(1, 1, 0), of(1, 2, 0), of(2, 3, 0), of(2, 4, 0));
        let mut group = awaited(&[first, again, later, other]);
        assert_eq!(group.give_back(&first, NOW), Some(again.task), "no owner has a permit, and it waits longest");
        assert_eq!(group.take(&again, None, 1, NOW), Taken::Permit);
        assert_eq!(group.give_back(&again, NOW), Some(other.task));
        let urgent = of(1, 9, 1);
        let mut group = awaited(&[first, other, urgent]);
        assert_eq!(group.give_back(&first, NOW), Some(urgent.task));
        let (mut group, more) = (awaited(&[first, again, other]), of(3, 8, 0));
        assert_eq!(group.take(&more, None, 2, NOW), Taken::Full, "another one comes first");
        assert_eq!(group.take(&other, None, 2, NOW), Taken::Permit, "its owner has none");
    }

    #[test]
    fn a_task_that_does_not_come_again_is_forgotten_and_keeps_no_other_waiting() {
        let (first, gone, next) = (of(1, 1, 0), of(1, 2, 0), of(1, 3, 0));
        let mut group = awaited(&[first, gone]);
        let later = NOW.plus_ms(limits::PERMIT_WAIT_MS);
        assert_eq!(group.take(&next, None, 2, later.minus_ms(1)), Taken::Permit, "the first one has expired");
        assert_eq!(group.give_back(&next, later), None);
    }

    /// A task that was answered waits from then on. Its old turn would bring it a permit that it does not get.
    #[test]
    fn a_task_that_waits_again_has_its_new_turn() {
        let (first, again, next) = (of(1, 1, 0), of(1, 2, 0), of(1, 3, 0));
        let mut group = awaited(&[first, again, next]);
        let later = AttemptPermit { turn: of(1, 9, 0).turn, ..again };
        assert_eq!(group.take(&later, None, 1, NOW), Taken::Full);
        assert_eq!(group.give_back(&first, NOW), Some(next.task));
        assert_eq!(group.take(&next, None, 1, NOW), Taken::Permit);
    }

    #[test]
    fn so_many_are_noted_and_those_that_come_first_stay() {
        let first = of(1, 1, 0);
        let mut group = awaited(&[first]);
        for number in 2..=250 {
            group.take(&of(1, number, 0), None, 1, NOW);
        }
        assert_eq!(group.waiting.len(), limits::PERMITS_AWAITED_MAX);
        let rare = of(2, 251, 0);
        group.take(&rare, None, 1, NOW);
        assert!(group.waiting.iter().any(|waiting| waiting.task == rare.task), "its owner has no permit");
        assert_eq!(group.waiting.len(), limits::PERMITS_AWAITED_MAX);
    }
}
