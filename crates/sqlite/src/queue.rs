//! The work queue: messages in a table, hidden while a worker handles them.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ports::{Delivery, Message, QueueError, WorkQueue};
use longhaul_core::{OwnerId, TaskId, TaskKey, Timestamp, TraceParent};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::DatabaseError;
use crate::database::Shared;
use crate::tasks::{execute, moment};

/// When the next message becomes visible.
pub(crate) const NEXT_VISIBLE: &str = "SELECT visible_at FROM messages WHERE dead = 0 ORDER BY visible_at LIMIT 1";

/// What is visible; first what has been visible longest.
pub(crate) const VISIBLE: &str = "SELECT seq, turn, receives, owner, id, trace FROM messages \
     WHERE dead = ?1 AND visible_at <= ?2 ORDER BY visible_at, seq LIMIT ?3";

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
        let (clock, receives_max) = (Arc::clone(&self.shared.clock), self.shared.settings.receives_max);
        self.shared
            .writer
            .call(move |connection| {
                let now = clock.now();
                let deliveries = take(connection, max, receives_max, now, now.plus_ms(visibility_ms))?;
                let next_at = if deliveries.is_empty() { next_visible(connection)? } else { None };
                Ok(Taken { deliveries, next_at })
            })
            .await
    }
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
        let clock = Arc::clone(&self.shared.clock);
        self.shared
            .writer
            .call(move |connection| hide(connection, receipt, clock.now().plus_ms(visibility_ms)))
            .await?;
        // Receivers that wait have to see the new time.
        self.shared.messages.notify_waiters();
        Ok(())
    }

    async fn delete(&self, receipt: &str) -> Result<(), QueueError> {
        let Some(receipt) = Receipt::parse(receipt) else { return Ok(()) };
        Ok(self.shared.writer.call(move |connection| delete(connection, receipt)).await?)
    }

    async fn receive_dead(&self, max: usize, visibility_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        let clock = Arc::clone(&self.shared.clock);
        let deliveries = self.shared.writer.call(move |connection| {
            let now = clock.now();
            take_dead(connection, max, now, now.plus_ms(visibility_ms))
        });
        Ok(deliveries.await?)
    }
}

/// Identifies one delivery: the message, and a number that grows whenever earlier receipts become invalid.
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
        let id = TaskId::from_bytes(row.get(4)?)
            .map_err(|error| rusqlite::Error::FromSqlConversionFailure(4, rusqlite::types::Type::Blob, error.into()))?;
        let task = TaskKey::new(OwnerId::from_bytes(row.get(3)?), id);
        let trace: Option<String> = row.get(5)?;
        let message = Message { task, trace: trace.as_deref().and_then(TraceParent::parse) };
        Ok(Self { seq: row.get(0)?, turn: row.get(1)?, receives: row.get(2)?, message })
    }

    /// Delivers the message, and hides it until `visible_at`.
    fn deliver(self, connection: &Connection, visible_at: Timestamp) -> Result<Delivery, DatabaseError> {
        execute(
            connection,
            "UPDATE messages SET visible_at = ?2, turn = turn + 1, receives = receives + 1 WHERE seq = ?1",
            params![self.seq, moment(visible_at)],
        )?;
        Ok(Delivery {
            message: self.message,
            receipt: format!("{}-{}", self.seq, self.turn.saturating_add(1)),
            receives: self.receives.saturating_add(1),
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

fn insert(connection: &Connection, message: &Message, visible_at: Timestamp) -> Result<(), DatabaseError> {
    execute(
        connection,
        "INSERT INTO messages (visible_at, owner, id, trace) VALUES (?1, ?2, ?3, ?4)",
        params![
            moment(visible_at),
            message.task.owner.as_bytes(),
            message.task.id.as_bytes(),
            message.trace.as_ref().map(TraceParent::as_str)
        ],
    )
}

/// Up to `max` visible messages. What was delivered too often becomes a dead letter, and does not shorten the answer.
fn take(
    connection: &Connection,
    max: usize,
    receives_max: u32,
    now: Timestamp,
    visible_at: Timestamp,
) -> Result<Vec<Delivery>, DatabaseError> {
    // Every round makes at least one message a dead letter, or is the last.
    loop {
        let (exhausted, fresh): (Vec<_>, Vec<_>) =
            visible(connection, 0, max, now)?.into_iter().partition(|stored| stored.receives >= receives_max);
        if exhausted.is_empty() {
            return fresh.into_iter().map(|stored| stored.deliver(connection, visible_at)).collect();
        }
        for stored in exhausted {
            stored.move_to_dead_letters(connection, now)?;
        }
    }
}

fn take_dead(
    connection: &Connection,
    max: usize,
    now: Timestamp,
    visible_at: Timestamp,
) -> Result<Vec<Delivery>, DatabaseError> {
    visible(connection, 1, max, now)?.into_iter().map(|stored| stored.deliver(connection, visible_at)).collect()
}

fn visible(connection: &Connection, dead: i64, max: usize, now: Timestamp) -> Result<Vec<Stored>, DatabaseError> {
    let mut statement = connection.prepare_cached(VISIBLE)?;
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![dead, moment(now), max], Stored::of)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn next_visible(connection: &Connection) -> Result<Option<Timestamp>, DatabaseError> {
    let mut statement = connection.prepare_cached(NEXT_VISIBLE)?;
    let next: Option<i64> = statement.query_row([], |row| row.get(0)).optional()?;
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
