//! Which messages a receive gets: of those in the table and of those in memory, of the owners in turn.

use std::collections::BTreeSet;

use longhaul_core::ports::{Delivery, Message, Purpose};
use longhaul_core::{OwnerId, Timestamp};
use rusqlite::Connection;

use crate::DatabaseError;
use crate::queue::Deliveries;
use crate::queue::table::{self, Table};
use crate::queue::turns::{Counts, Turns};

/// Messages among which owners are looked for first. Fewer of them than this are all that there are.
const WINDOW: usize = 64;

/// Owners that one receive looks at behind those messages, if it has found something to deliver; the next one goes on
/// from there.
const OWNERS_SEARCHED_MAX: usize = 64;

/// How long what is known about the table is relied on. It is wrong after a transaction that could not be committed.
const TABLE_KNOWN_MS: u64 = 1_000;

#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) max: usize,
    pub(crate) receives_max: u32,
    pub(crate) now: Timestamp,
    /// Until when deliveries are hidden.
    pub(crate) visible_at: Timestamp,
}

#[derive(Default)]
pub(crate) struct Taken {
    pub(crate) deliveries: Vec<Delivery>,
    /// If it gets nothing: when a message becomes visible that is not visible now. What is visible and was not
    /// delivered has an owner with enough in flight: when that changes, the receivers are told.
    pub(crate) next_at: Option<Timestamp>,
}

/// A message that waits for its delivery.
pub(crate) struct Waiting {
    /// Its number: of one in memory below zero.
    pub(crate) number: i64,
    /// The number of its latest delivery.
    pub(crate) turn: i64,
    pub(crate) receives: u32,
    pub(crate) visible_at: Timestamp,
    pub(crate) message: Message,
}

impl Waiting {
    pub(crate) const fn is_in_memory(&self) -> bool {
        self.number < 0
    }
}

/// The owners of messages in one place.
pub(crate) trait Owners {
    /// The owners of up to `max` visible messages; first what has been visible longest.
    fn waiting(&self, now: Timestamp, max: usize) -> Result<Vec<OwnerId>, DatabaseError>;

    /// The next owner that has messages, and when the first of them is visible.
    fn next_owner(&self, after: Option<&OwnerId>) -> Result<Option<(OwnerId, Timestamp)>, DatabaseError>;
}

/// What is known about the table without a look into it.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    /// Nothing in it is visible before.
    first_at: Timestamp,
    looked_at: Timestamp,
}

impl Known {
    /// Nothing is known.
    pub(crate) const NOTHING: Self = Self { first_at: Timestamp::from_ms(0), looked_at: Timestamp::from_ms(0) };

    /// A message in it is visible from `at` on.
    pub(crate) fn note(&mut self, at: Timestamp) {
        self.first_at = self.first_at.min(at);
    }

    fn is_nothing_visible(self, now: Timestamp) -> bool {
        now < self.first_at && self.looked_at <= now && now < self.looked_at.plus_ms(TABLE_KNOWN_MS)
    }
}

impl Deliveries {
    /// The messages that are visible now, if it is known that they are all in memory.
    pub(crate) fn take_from_memory(&mut self, wanted: Wanted) -> Option<Taken> {
        if self.is_closed || !self.known.is_nothing_visible(wanted.now) {
            return None;
        }
        let deliveries = self.deliver(None, wanted).ok()?;
        if deliveries.is_empty() && !self.known.is_nothing_visible(wanted.now) {
            return None;
        }
        let next_at = self.next_visible(wanted.now, Some(self.known.first_at));
        Some(Taken { deliveries, next_at })
    }

    /// The messages that are visible now; if there are none, when the next one becomes visible.
    pub(crate) fn take(&mut self, connection: &Connection, wanted: Wanted) -> Result<Taken, DatabaseError> {
        // If the transaction is not committed, what this notes is wrong until those messages would be visible.
        let deliveries = self.deliver(Some(connection), wanted)?;
        let first_at = table::first_visible(connection)?;
        self.known = Known { first_at: first_at.unwrap_or(Timestamp::from_ms(u64::MAX)), looked_at: wanted.now };
        if !deliveries.is_empty() {
            return Ok(Taken { deliveries, next_at: None });
        }
        let in_table = table::next_visible(connection, wanted.now)?;
        Ok(Taken { deliveries, next_at: self.next_visible(wanted.now, in_table) })
    }

    fn next_visible(&self, now: Timestamp, in_table: Option<Timestamp>) -> Option<Timestamp> {
        self.in_memory.next_visible(now).into_iter().chain(in_table).min()
    }

    /// Up to `max` visible messages, of the owners in turn. What was delivered too often becomes a dead letter, and
    /// does not shorten the answer.
    fn deliver(&mut self, table: Option<&Connection>, wanted: Wanted) -> Result<Vec<Delivery>, DatabaseError> {
        let mut counts = self.turns.counts(wanted.now);
        let mut waiting = self.waiting_owners(table, &counts, wanted.now)?;
        let mut deliveries = Vec::new();
        // Every round delivers a message, makes one a dead letter, or is the last for its owner.
        while deliveries.len() < wanted.max
            && let Some(owner) = self.turns.next(&counts, &waiting)
        {
            match (self.first_of(table, &owner, wanted.now)?, table) {
                (None, _) => drop(waiting.remove(&owner)),
                (Some(next), Some(connection)) if next.receives >= wanted.receives_max => {
                    self.move_to_dead_letters(connection, &next, wanted.now)?;
                }
                (Some(next), None) if next.receives >= wanted.receives_max => {
                    // The next receive has the table.
                    self.look_again();
                    waiting.remove(&owner);
                }
                (Some(next), _) => {
                    let turn = self.turns.number_after(next.turn);
                    self.turns.delivered(next.number, turn, owner, wanted.visible_at);
                    counts.add(owner);
                    self.hide(table, &next, turn, wanted.visible_at)?;
                    deliveries.push(delivery(next, turn));
                }
            }
        }
        Ok(deliveries)
    }

    /// The owners whose messages are visible.
    fn waiting_owners(
        &mut self,
        table: Option<&Connection>,
        counts: &Counts,
        now: Timestamp,
    ) -> Result<BTreeSet<OwnerId>, DatabaseError> {
        let mut look = Look { turns: &self.turns, counts, now, waiting: BTreeSet::new() };
        look.at(&self.in_memory, &mut self.searched_memory)?;
        if let Some(connection) = table {
            look.at(&Table(connection), &mut self.searched_table)?;
        }
        Ok(look.waiting)
    }

    /// The owner's message that has been visible longest, wherever it is.
    fn first_of(
        &self,
        table: Option<&Connection>,
        owner: &OwnerId,
        now: Timestamp,
    ) -> Result<Option<Waiting>, DatabaseError> {
        let in_table = table.map(|connection| table::first_of(connection, owner, now)).transpose()?.flatten();
        let in_memory = self.in_memory.first_of(owner, now);
        Ok(in_table.into_iter().chain(in_memory).min_by_key(|waiting| waiting.visible_at))
    }

    fn hide(
        &mut self,
        table: Option<&Connection>,
        next: &Waiting,
        turn: i64,
        until: Timestamp,
    ) -> Result<(), DatabaseError> {
        match table {
            Some(connection) if !next.is_in_memory() => table::delivered(connection, next.number, turn, until),
            Some(_) | None => {
                self.in_memory.delivered(next.number, turn, until);
                Ok(())
            }
        }
    }

    fn move_to_dead_letters(
        &mut self,
        connection: &Connection,
        next: &Waiting,
        now: Timestamp,
    ) -> Result<(), DatabaseError> {
        if next.is_in_memory() {
            table::insert_dead(connection, next, now)?;
            self.in_memory.remove(next.number);
            return Ok(());
        }
        table::move_to_dead_letters(connection, next.number, now)
    }
}

pub(crate) fn delivery(waiting: Waiting, turn: i64) -> Delivery {
    Delivery {
        message: waiting.message,
        receipt: format!("{}-{turn}", waiting.number),
        receives: waiting.receives.saturating_add(1),
        purpose: Purpose::Work,
    }
}

/// A look for the owners whose messages are visible.
struct Look<'a> {
    turns: &'a Turns,
    counts: &'a Counts,
    now: Timestamp,
    waiting: BTreeSet<OwnerId>,
}

impl Look<'_> {
    /// Looks at one place. If there are many messages, it may not find all owners: those of the messages that have been
    /// visible longest, and others from where the last search ended, so that every owner is found in time.
    fn at(&mut self, place: &dyn Owners, searched: &mut Option<OwnerId>) -> Result<(), DatabaseError> {
        let owners = place.waiting(self.now, WINDOW)?;
        let is_all = owners.len() < WINDOW;
        self.waiting.extend(owners);
        if is_all { Ok(()) } else { self.search(place, searched) }
    }

    /// Adds owners with visible messages, from where the last search ended.
    fn search(&mut self, place: &dyn Owners, searched: &mut Option<OwnerId>) -> Result<(), DatabaseError> {
        let begin = searched.take();
        let (mut at, mut wrapped, mut count) = (begin, false, 0);
        // Ends after one round at the latest: each look is at a later owner, and the second round ends where it began.
        while count < OWNERS_SEARCHED_MAX || !self.waiting.iter().any(|owner| self.turns.has_room(self.counts, owner)) {
            match place.next_owner(at.as_ref())? {
                Some((owner, _)) if wrapped && begin.is_none_or(|begin| owner > begin) => return Ok(()),
                Some((owner, visible_at)) => {
                    self.waiting.extend((visible_at <= self.now).then_some(owner));
                    (at, count) = (Some(owner), count + 1);
                }
                None if wrapped => return Ok(()),
                None => (at, wrapped) = (None, true),
            }
        }
        *searched = at;
        Ok(())
    }
}
