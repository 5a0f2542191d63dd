//! Whose turn it is: owners take turns, and no owner has more messages in flight than its share.
//!
//! A message is in flight from its delivery until it is deleted or visible again: about as long as an attempt runs.
//! This is kept in memory, because only this process delivers messages of its database.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use longhaul_core::{OwnerId, Timestamp};

use crate::sql::moment;

/// The messages of each owner, and the owner that had a turn last.
pub(crate) struct Turns {
    /// How many messages of one owner may be in flight.
    owner_max: usize,
    in_flight: HashMap<i64, Held>,
    /// The owner of the message that was delivered last.
    last: Option<OwnerId>,
    last_number: i64,
}

struct Held {
    turn: i64,
    owner: OwnerId,
    hidden_until: Timestamp,
}

/// The messages of each owner that are in flight at one point in time.
pub(crate) struct Counts(HashMap<OwnerId, usize>);

impl Turns {
    /// Deliveries are numbered from `now` on in milliseconds, so that no receipt of an earlier process is valid again.
    pub(crate) fn new(owner_max: usize, now: Timestamp) -> Self {
        let last_number = moment(now);
        Self { owner_max, in_flight: HashMap::new(), last: None, last_number }
    }

    /// The messages in flight at `now`. Forgets all others.
    pub(crate) fn counts(&mut self, now: Timestamp) -> Counts {
        self.in_flight.retain(|_seq, held| held.hidden_until > now);
        let mut counts = HashMap::new();
        for held in self.in_flight.values() {
            *counts.entry(held.owner).or_insert(0) += 1;
        }
        Counts(counts)
    }

    /// Whether the owner may have one more message.
    pub(crate) fn has_room(&self, counts: &Counts, owner: &OwnerId) -> bool {
        counts.of(owner) < self.owner_max
    }

    /// The next of the waiting owners: the owner with the fewest messages in flight; among equals, the one after the
    /// owner that was served last.
    pub(crate) fn next(&self, counts: &Counts, waiting: &BTreeSet<OwnerId>) -> Option<OwnerId> {
        let may = waiting.iter().filter(|owner| self.has_room(counts, owner));
        let is_behind = |owner: &OwnerId| self.last.is_some_and(|last| *owner <= last);
        may.min_by_key(|owner| (counts.of(owner), is_behind(owner), **owner)).copied()
    }

    /// The number of the next delivery of a message whose last one had the number `last`. No other delivery gets it:
    /// also not if the transaction of this one is rolled back after it was answered.
    pub(crate) fn number_after(&mut self, last: i64) -> i64 {
        self.last_number = self.last_number.max(last).saturating_add(1);
        self.last_number
    }

    pub(crate) fn delivered(&mut self, seq: i64, turn: i64, owner: OwnerId, hidden_until: Timestamp) {
        self.in_flight.insert(seq, Held { turn, owner, hidden_until });
        self.last = Some(owner);
    }

    /// A delivered message is hidden for another time than before.
    pub(crate) fn hidden(&mut self, seq: i64, turn: i64, until: Timestamp) {
        if let Some(held) = self.in_flight.get_mut(&seq).filter(|held| held.turn == turn) {
            held.hidden_until = until;
        }
    }

    /// A delivered message is gone. Returns whether its owner had its whole share, so that receivers that skipped the
    /// owner's messages have to search again.
    pub(crate) fn deleted(&mut self, seq: i64, turn: i64) -> Freed {
        let held = self.in_flight.entry(seq);
        // The number of a deleted message is used again: a new one may have taken its place here before the deletion
        // was noted. Then nobody has told the receivers yet.
        let Entry::Occupied(held) = held else { return Freed::Share };
        if held.get().turn != turn {
            return Freed::Share;
        }
        let gone = held.remove();
        let left = self.in_flight.values().filter(|held| held.owner == gone.owner).count();
        if left.saturating_add(1) >= self.owner_max { Freed::Share } else { Freed::Nothing }
    }
}

impl Counts {
    fn of(&self, owner: &OwnerId) -> usize {
        self.0.get(owner).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, owner: OwnerId) {
        *self.0.entry(owner).or_insert(0) += 1;
    }
}

/// The effect of the deletion of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freed {
    /// The owner, who had its whole share in flight, may have another message; or that is not known.
    Share,
    /// Nothing that was not possible before.
    Nothing,
}

#[cfg(test)]
mod tests {
    use longhaul_testkit::given::{NOW, owner};

    use super::*;

    #[test]
    fn a_message_that_took_the_number_of_a_deleted_one_hides_no_deletion() {
        let (mut turns, until) = (Turns::new(1, NOW), NOW.plus_ms(9));
        turns.delivered(1, 7, owner("alice"), until);
        // Its row is deleted, and a new message gets its number, before the deletion is noted here.
        turns.delivered(1, 8, owner("bob"), until);
        assert_eq!(turns.deleted(1, 7), Freed::Share);
        assert_eq!(turns.counts(NOW).of(&owner("bob")), 1);
        assert_eq!([turns.deleted(1, 8), turns.deleted(1, 8)], [Freed::Share; 2]);
    }
}
