//! The work queue: messages in a table, hidden while a worker handles them. Owners take turns.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use longhaul_core::ports::{Delivery, Message, Purpose, QueueError, WorkQueue};
use longhaul_core::{OwnerId, Timestamp, TraceParent};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::DatabaseError;
use crate::database::Shared;
use crate::tasks::{execute, key_in, moment};
use crate::turns::{Counts, Freed, Turns};

/// When the next message becomes visible.
pub(crate) const NEXT_VISIBLE: &str =
    "SELECT visible_at FROM messages WHERE dead = 0 AND visible_at > ?1 ORDER BY visible_at LIMIT 1";

/// Whose messages are visible; first what has been visible longest.
pub(crate) const WAITING: &str =
    "SELECT owner FROM messages WHERE dead = 0 AND visible_at <= ?1 ORDER BY visible_at, seq LIMIT ?2";

/// The next owner that has messages, and when the first of them is visible. Without the name of the index, SQLite would
/// rather read all messages and sort them.
pub(crate) const NEXT_OWNER: &str = "SELECT owner, visible_at FROM messages INDEXED BY messages_by_owner \
     WHERE dead = 0 AND owner > ?1 ORDER BY owner, visible_at, seq LIMIT 1";

/// The owner's message that has been visible longest.
pub(crate) const FIRST_OF_OWNER: &str = "SELECT seq, turn, receives, owner, id, trace, attempt FROM messages \
     INDEXED BY messages_by_owner WHERE dead = 0 AND owner = ?1 AND visible_at <= ?2 ORDER BY visible_at, seq LIMIT 1";

/// The dead letters that are visible.
pub(crate) const DEAD: &str = "SELECT seq, turn, receives, owner, id, trace, attempt FROM messages \
     WHERE dead = 1 AND visible_at <= ?1 ORDER BY visible_at, seq LIMIT ?2";

/// Messages among which owners are looked for first. Fewer of them than this are all that there are.
const WINDOW: usize = 64;

/// Owners that one receive looks at behind those messages, if it has found something to deliver; the next one goes on
/// from there.
const OWNERS_SEARCHED_MAX: usize = 64;

/// The messages in a [`Database`](crate::Database).
#[derive(Clone)]
pub struct SqliteQueue {
    shared: Arc<Shared>,
}

impl SqliteQueue {
    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The messages that are visible now; if there are none, when the next one becomes visible.
    async fn take(&self, max: usize, visibility_ms: u64) -> Result<Taken, DatabaseError> {
        let (clock, turns) = (Arc::clone(&self.shared.clock), Arc::clone(&self.shared.turns));
        let receives_max = self.shared.settings.receives_max;
        self.shared
            .writer
            .call_soon_durable(move |connection| {
                let now = clock.now();
                let wanted = Wanted { max, receives_max, now, visible_at: now.plus_ms(visibility_ms) };
                // If the transaction is not committed, what this notes is wrong until those messages would be visible.
                let deliveries = take(connection, &mut lock(&turns), &wanted)?;
                let next_at = if deliveries.is_empty() { next_visible(connection, now)? } else { None };
                Ok(Taken { deliveries, next_at })
            })
            .await
    }
}

/// What a receiver wants.
struct Wanted {
    max: usize,
    receives_max: u32,
    now: Timestamp,
    /// Until when deliveries are hidden.
    visible_at: Timestamp,
}

fn lock(turns: &Mutex<Turns>) -> MutexGuard<'_, Turns> {
    turns.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Taken {
    deliveries: Vec<Delivery>,
    next_at: Option<Timestamp>,
}

#[async_trait]
impl WorkQueue for SqliteQueue {
    async fn send(&self, message: &Message, delay_ms: u64) -> Result<(), QueueError> {
        let (message, clock) = (message.clone(), Arc::clone(&self.shared.clock));
        self.shared.writer.call(move |connection| insert(connection, &message, clock.now().plus_ms(delay_ms))).await?;
        self.shared.messages.notify_waiters();
        Ok(())
    }

    async fn receive(&self, max: usize, visibility_ms: u64, wait_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        let until = self.shared.clock.now().plus_ms(wait_ms);
        loop {
            // Created before the query, so that a message sent between the query and the wait is not missed.
            let woken = self.shared.messages.notified();
            let taken = self.take(max, visibility_ms).await?;
            let now = self.shared.clock.now();
            if !taken.deliveries.is_empty() || max == 0 || now >= until {
                return Ok(taken.deliveries);
            }
            let wake_at = taken.next_at.map_or(until, |next_at| next_at.min(until));
            tokio::select! {
                () = woken => {}
                () = self.shared.clock.sleep_ms(wake_at.since_ms(now)) => {}
            }
        }
    }

    async fn extend(&self, receipt: &str, visibility_ms: u64) -> Result<(), QueueError> {
        let Some(receipt) = Receipt::parse(receipt) else { return Ok(()) };
        let until = self.shared.clock.now().plus_ms(visibility_ms);
        self.shared.writer.call_soon_durable(move |connection| hide(connection, receipt, until)).await?;
        lock(&self.shared.turns).hidden(receipt.seq, receipt.turn, until);
        // Receivers that wait have to see the new time.
        self.shared.messages.notify_waiters();
        Ok(())
    }

    async fn delete(&self, receipt: &str) -> Result<(), QueueError> {
        let Some(receipt) = Receipt::parse(receipt) else { return Ok(()) };
        self.shared.writer.call_soon_durable(move |connection| delete(connection, receipt)).await?;
        match lock(&self.shared.turns).deleted(receipt.seq, receipt.turn) {
            Freed::Share => self.shared.messages.notify_waiters(),
            Freed::Nothing => {}
        }
        Ok(())
    }

    async fn receive_dead(&self, max: usize, visibility_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        let (clock, turns) = (Arc::clone(&self.shared.clock), Arc::clone(&self.shared.turns));
        let deliveries = self.shared.writer.call_soon_durable(move |connection| {
            let now = clock.now();
            take_dead(connection, &mut lock(&turns), max, (now, now.plus_ms(visibility_ms)))
        });
        Ok(deliveries.await?)
    }
}

/// Identifies one delivery: the message, and a number that is the delivery's alone and grows from one to the next.
#[derive(Clone, Copy)]
struct Receipt {
    seq: i64,
    turn: i64,
}

impl Receipt {
    fn parse(text: &str) -> Option<Self> {
        let (seq, turn) = text.split_once('-')?;
        Some(Self { seq: seq.parse().ok()?, turn: turn.parse().ok()? })
    }
}

/// A message as the table has it.
struct Stored {
    seq: i64,
    turn: i64,
    receives: u32,
    message: Message,
}

impl Stored {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        let task = key_in(row, 3, 4)?;
        let trace: Option<String> = row.get(5)?;
        let message = Message { task, trace: trace.as_deref().and_then(TraceParent::parse), attempt: row.get(6)? };
        Ok(Self { seq: row.get(0)?, turn: row.get(1)?, receives: row.get(2)?, message })
    }

    /// Delivers the message under the number `turn`, and hides it until `visible_at`.
    fn deliver(self, connection: &Connection, turn: i64, visible_at: Timestamp) -> Result<Delivery, DatabaseError> {
        execute(
            connection,
            "UPDATE messages SET visible_at = ?2, turn = ?3, receives = receives + 1 WHERE seq = ?1",
            params![self.seq, moment(visible_at), turn],
        )?;
        Ok(Delivery {
            message: self.message,
            receipt: format!("{}-{turn}", self.seq),
            receives: self.receives.saturating_add(1),
            purpose: Purpose::Work,
        })
    }

    /// Moves the message to the dead letters.
    fn move_to_dead_letters(&self, connection: &Connection, now: Timestamp) -> Result<(), DatabaseError> {
        execute(
            connection,
            "UPDATE messages SET dead = 1, visible_at = ?2, turn = turn + 1 WHERE seq = ?1",
            params![self.seq, moment(now)],
        )
    }
}

pub(crate) fn insert(connection: &Connection, message: &Message, visible_at: Timestamp) -> Result<(), DatabaseError> {
    execute(
        connection,
        "INSERT INTO messages (visible_at, owner, id, trace, attempt) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![
            moment(visible_at),
            message.task.owner.as_bytes(),
            message.task.id.as_bytes(),
            message.trace.as_ref().map(TraceParent::as_str),
            message.attempt
        ],
    )
}

/// Up to `max` visible messages, of the owners in turn. What was delivered too often becomes a dead letter, and does not
/// shorten the answer.
fn take(connection: &Connection, turns: &mut Turns, wanted: &Wanted) -> Result<Vec<Delivery>, DatabaseError> {
    let mut counts = turns.counts(wanted.now);
    let mut waiting = waiting_owners(connection, turns, &counts, wanted.now)?;
    let mut deliveries = Vec::new();
    // Every round delivers a message, makes one a dead letter, or is the last for its owner.
    while deliveries.len() < wanted.max
        && let Some(owner) = turns.next(&counts, &waiting)
    {
        match first_of_owner(connection, &owner, wanted.now)? {
            None => drop(waiting.remove(&owner)),
            Some(stored) if stored.receives >= wanted.receives_max => {
                stored.move_to_dead_letters(connection, wanted.now)?;
            }
            Some(stored) => {
                let turn = turns.number_after(stored.turn);
                turns.delivered(stored.seq, turn, owner, wanted.visible_at);
                counts.add(owner);
                deliveries.push(stored.deliver(connection, turn, wanted.visible_at)?);
            }
        }
    }
    Ok(deliveries)
}

/// The owners whose messages are visible. If there are many messages, it may not be all owners: those of the messages
/// that have been visible longest, and others from where the last search ended, so that every owner is found in time.
fn waiting_owners(
    connection: &Connection,
    turns: &mut Turns,
    counts: &Counts,
    now: Timestamp,
) -> Result<BTreeSet<OwnerId>, DatabaseError> {
    let mut statement = connection.prepare_cached(WAITING)?;
    let limit = i64::try_from(WINDOW).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![moment(now), limit], |row| row.get(0).map(OwnerId::from_bytes))?;
    let owners: Vec<OwnerId> = rows.collect::<rusqlite::Result<_>>()?;
    let is_all = owners.len() < WINDOW;
    let mut waiting: BTreeSet<OwnerId> = owners.into_iter().collect();
    if !is_all {
        search_owners(connection, turns, counts, now, &mut waiting)?;
    }
    Ok(waiting)
}

/// Adds owners with visible messages, from where the last search ended.
fn search_owners(
    connection: &Connection,
    turns: &mut Turns,
    counts: &Counts,
    now: Timestamp,
    waiting: &mut BTreeSet<OwnerId>,
) -> Result<(), DatabaseError> {
    let begin = turns.searched.take();
    let (mut at, mut wrapped, mut searched) = (begin, false, 0);
    // Ends after one round at the latest: each look is at a later owner, and the second round ends where it began.
    while searched < OWNERS_SEARCHED_MAX || !waiting.iter().any(|owner| turns.has_room(counts, owner)) {
        match next_owner(connection, at.as_ref())? {
            Some((owner, _)) if wrapped && begin.is_none_or(|begin| owner > begin) => return Ok(()),
            Some((owner, visible_at)) => {
                if visible_at <= moment(now) {
                    waiting.insert(owner);
                }
                (at, searched) = (Some(owner), searched + 1);
            }
            None if wrapped => return Ok(()),
            None => (at, wrapped) = (None, true),
        }
    }
    turns.searched = at;
    Ok(())
}

fn next_owner(connection: &Connection, after: Option<&OwnerId>) -> Result<Option<(OwnerId, i64)>, DatabaseError> {
    let mut statement = connection.prepare_cached(NEXT_OWNER)?;
    let after: &[u8] = after.map_or(&[], |owner| owner.as_bytes());
    let next = statement.query_row([after], |row| Ok((OwnerId::from_bytes(row.get(0)?), row.get(1)?)));
    Ok(next.optional()?)
}

fn first_of_owner(connection: &Connection, owner: &OwnerId, now: Timestamp) -> Result<Option<Stored>, DatabaseError> {
    let mut statement = connection.prepare_cached(FIRST_OF_OWNER)?;
    Ok(statement.query_row(params![owner.as_bytes(), moment(now)], Stored::of).optional()?)
}

fn take_dead(
    connection: &Connection,
    turns: &mut Turns,
    max: usize,
    (now, visible_at): (Timestamp, Timestamp),
) -> Result<Vec<Delivery>, DatabaseError> {
    let mut statement = connection.prepare_cached(DEAD)?;
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![moment(now), max], Stored::of)?;
    let dead: Vec<Stored> = rows.collect::<rusqlite::Result<_>>()?;
    let delivered = dead.into_iter().map(|stored| {
        let turn = turns.number_after(stored.turn);
        stored.deliver(connection, turn, visible_at)
    });
    delivered.collect()
}

/// When a message becomes visible that is not visible now. What is visible and was not delivered has an owner with
/// enough in flight: when that changes, the receivers are told.
fn next_visible(connection: &Connection, now: Timestamp) -> Result<Option<Timestamp>, DatabaseError> {
    let mut statement = connection.prepare_cached(NEXT_VISIBLE)?;
    let next: Option<i64> = statement.query_row([moment(now)], |row| row.get(0)).optional()?;
    Ok(next.map(|ms| Timestamp::from_ms(ms.unsigned_abs())))
}

fn hide(connection: &Connection, receipt: Receipt, visible_at: Timestamp) -> Result<(), DatabaseError> {
    execute(
        connection,
        "UPDATE messages SET visible_at = ?3 WHERE seq = ?1 AND turn = ?2",
        params![receipt.seq, receipt.turn, moment(visible_at)],
    )
}

fn delete(connection: &Connection, receipt: Receipt) -> Result<(), DatabaseError> {
    execute(connection, "DELETE FROM messages WHERE seq = ?1 AND turn = ?2", params![receipt.seq, receipt.turn])
}
