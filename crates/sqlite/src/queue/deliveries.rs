//! The state of messages in memory, and the choice of a receive. It takes messages of the table and of memory, from the
//! owners in turn.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhaul_core::ports::{Delivery, Message};
use longhaul_core::{OwnerId, Task, TaskKey, Timestamp};
use rusqlite::Connection;

use crate::DatabaseError;
use crate::limits::{OWNERS_SEARCHED_MAX, OWNERS_WINDOW, TABLE_KNOWN_MS};
use crate::queue::backlog::Backlog;
use crate::queue::in_memory::InMemory;
use crate::queue::message::{Owners, Receipt, Waiting, delivery};
use crate::queue::table::{self, Table};
use crate::queue::turns::{Counts, Freed, Turns};

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
    /// If it gets nothing: when a message becomes visible that is not visible now. A visible message that was not
    /// delivered has an owner with enough in flight. A change of that wakes the receivers.
    pub(crate) next_at: Option<Timestamp>,
}

/// The state of the table that is known without a read.
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

/// The messages in memory: only this process delivers those of its database.
pub(crate) struct Deliveries {
    turns: Turns,
    in_memory: InMemory,
    known: Known,
    /// How far the search for owners came, the last time that it was cut short.
    searched_memory: Option<OwnerId>,
    searched_table: Option<OwnerId>,
    is_closed: bool,
}

impl Deliveries {
    /// The state of a database that was just opened.
    pub(crate) fn new(owner_max: usize, now: Timestamp) -> Self {
        Self {
            turns: Turns::new(owner_max, now),
            in_memory: InMemory::default(),
            known: Known::NOTHING,
            searched_memory: None,
            searched_table: None,
            is_closed: false,
        }
    }

    /// Whether a message of this task is in memory.
    pub(crate) fn has(&self, task: &TaskKey) -> bool {
        self.in_memory.has(task)
    }

    /// The visible messages in memory.
    pub(crate) fn backlog(&self, now: Timestamp) -> Backlog {
        self.in_memory.backlog(now)
    }

    /// How many messages in memory are gone.
    pub(crate) const fn removed(&self) -> u64 {
        self.in_memory.removed()
    }

    /// From now on nothing is delivered.
    pub(crate) const fn close(&mut self) {
        self.is_closed = true;
    }

    /// The times of messages in the table were changed, to earlier ones perhaps.
    pub(crate) const fn look_again(&mut self) {
        self.known = Known::NOTHING;
    }

    pub(crate) fn hidden(&mut self, receipt: Receipt, until: Timestamp) -> Result<(), DatabaseError> {
        self.refuse_if_closed()?;
        self.turns.hidden(receipt.number, receipt.turn, until);
        if receipt.is_in_memory() {
            self.in_memory.hide(receipt.number, receipt.turn, until);
        } else {
            self.known.note(until);
        }
        Ok(())
    }

    pub(crate) fn deleted(&mut self, receipt: Receipt) -> Result<Freed, DatabaseError> {
        self.refuse_if_closed()?;
        if receipt.is_in_memory() {
            self.in_memory.delete(receipt.number, receipt.turn);
        }
        Ok(self.turns.deleted(receipt.number, receipt.turn))
    }

    const fn refuse_if_closed(&self) -> Result<(), DatabaseError> {
        if self.is_closed { Err(DatabaseError::Closed) } else { Ok(()) }
    }

    /// Up to `max` dead letters, which are hidden until `visible_at`.
    pub(crate) fn take_dead(
        &mut self,
        connection: &Connection,
        max: usize,
        times: (Timestamp, Timestamp),
    ) -> Result<Vec<Delivery>, DatabaseError> {
        table::take_dead(connection, &mut self.turns, max, times)
    }

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

    /// Up to `max` visible messages, of the owners in turn. A message that was delivered too often becomes a dead
    /// letter, and does not shorten the answer.
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

/// A search for the owners whose messages are visible.
struct Look<'a> {
    turns: &'a Turns,
    counts: &'a Counts,
    now: Timestamp,
    waiting: BTreeSet<OwnerId>,
}

impl Look<'_> {
    /// Searches one place. With many messages, it may not find all owners. It finds those of the messages that have
    /// been visible longest. It finds others from where the last search ended, so that every owner is found in time.
    fn at(&mut self, place: &dyn Owners, searched: &mut Option<OwnerId>) -> Result<(), DatabaseError> {
        let owners = place.waiting(self.now, OWNERS_WINDOW)?;
        let is_all = owners.len() < OWNERS_WINDOW;
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

pub(crate) fn lock(deliveries: &Mutex<Deliveries>) -> MutexGuard<'_, Deliveries> {
    deliveries.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends the message of a task that has just been written. It stays in memory if it is visible at once, and if the
/// record says that there is one. Cleanup needs a message even when its task has ended.
pub(crate) fn send_first(
    connection: &Connection,
    deliveries: &Mutex<Deliveries>,
    task: &Task,
    (now, visible_at): (Timestamp, Timestamp),
) -> Result<(), DatabaseError> {
    let message = Message::about(task);
    let is_on_record = visible_at <= now && !task.cleanup.is_armed();
    if is_on_record && lock(deliveries).in_memory.put(message.clone(), visible_at) {
        return Ok(());
    }
    send(connection, deliveries, &message, visible_at)
}

/// Writes a message into the table.
pub(crate) fn send(
    connection: &Connection,
    deliveries: &Mutex<Deliveries>,
    message: &Message,
    visible_at: Timestamp,
) -> Result<(), DatabaseError> {
    table::insert(connection, message, visible_at)?;
    lock(deliveries).known.note(visible_at);
    Ok(())
}
