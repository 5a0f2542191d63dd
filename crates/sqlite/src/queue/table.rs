//! Messages in the table.

use longhaul_core::ports::{Delivery, Message};
use longhaul_core::{OwnerId, Timestamp, TraceParent};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::DatabaseError;
use crate::limits::BACKLOG_COUNTED_MAX;
use crate::queue::backlog::Backlog;
use crate::queue::message::{Owners, Receipt, Waiting, delivery};
use crate::queue::turns::Turns;
use crate::sql::{execute, key_in, moment};

/// When the first message becomes visible, or became so.
pub(crate) const FIRST_VISIBLE: &str = "SELECT visible_at FROM messages WHERE dead = 0 ORDER BY visible_at LIMIT 1";

/// When the next message becomes visible.
pub(crate) const NEXT_VISIBLE: &str =
    "SELECT visible_at FROM messages WHERE dead = 0 AND visible_at > ?1 ORDER BY visible_at LIMIT 1";

/// When visible messages became so; first those that have been visible longest.
pub(crate) const BACKLOG: &str =
    "SELECT visible_at FROM messages WHERE dead = 0 AND visible_at <= ?1 ORDER BY visible_at LIMIT ?2";

/// Whose messages are visible; first what has been visible longest.
pub(crate) const WAITING: &str =
    "SELECT owner FROM messages WHERE dead = 0 AND visible_at <= ?1 ORDER BY visible_at, seq LIMIT ?2";

/// The next owner that has messages, and when the first of them is visible. Without the name of the index, SQLite would
/// rather read all messages and sort them.
pub(crate) const NEXT_OWNER: &str = "SELECT owner, visible_at FROM messages INDEXED BY messages_by_owner \
     WHERE dead = 0 AND owner > ?1 ORDER BY owner, visible_at, seq LIMIT 1";

/// The owner's message that has been visible longest.
pub(crate) const FIRST_OF_OWNER: &str = "SELECT seq, turn, receives, owner, id, trace, attempt, visible_at FROM \
                                         messages \
     INDEXED BY messages_by_owner WHERE dead = 0 AND owner = ?1 AND visible_at <= ?2 ORDER BY visible_at, seq LIMIT 1";

/// The dead letters that are visible.
pub(crate) const DEAD: &str = "SELECT seq, turn, receives, owner, id, trace, attempt, visible_at FROM messages \
     WHERE dead = 1 AND visible_at <= ?1 ORDER BY visible_at, seq LIMIT ?2";

const ALL: &str =
    "SELECT seq, turn, receives, owner, id, trace, attempt, visible_at FROM messages WHERE dead IN (0, 1)";

pub(crate) struct Table<'a>(pub(crate) &'a Connection);

impl Owners for Table<'_> {
    fn waiting(&self, now: Timestamp, max: usize) -> Result<Vec<OwnerId>, DatabaseError> {
        let mut statement = self.0.prepare_cached(WAITING)?;
        let limit = i64::try_from(max).unwrap_or(i64::MAX);
        let rows = statement.query_map(params![moment(now), limit], |row| row.get(0).map(OwnerId::from_bytes))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn next_owner(&self, after: Option<&OwnerId>) -> Result<Option<(OwnerId, Timestamp)>, DatabaseError> {
        let mut statement = self.0.prepare_cached(NEXT_OWNER)?;
        let after: &[u8] = after.map_or(&[], |owner| owner.as_bytes());
        let next = statement.query_row([after], |row| Ok((OwnerId::from_bytes(row.get(0)?), timestamp(row.get(1)?))));
        Ok(next.optional()?)
    }
}

fn timestamp(moment: i64) -> Timestamp {
    Timestamp::from_ms(moment.unsigned_abs())
}

fn waiting(row: &Row<'_>) -> rusqlite::Result<Waiting> {
    let task = key_in(row, 3, 4)?;
    let trace: Option<String> = row.get(5)?;
    let message = Message { task, trace: trace.as_deref().and_then(TraceParent::parse), attempt: row.get(6)? };
    let visible_at = timestamp(row.get(7)?);
    Ok(Waiting { number: row.get(0)?, turn: row.get(1)?, receives: row.get(2)?, visible_at, message })
}

/// Marks the messages that cannot be read, so that they are neither delivered nor dead letters. Returns how many.
pub(crate) fn set_aside_unreadable(connection: &Connection) -> Result<usize, DatabaseError> {
    let mut statement = connection.prepare_cached(ALL)?;
    let mut rows = statement.query([])?;
    let mut unreadable: Vec<i64> = Vec::new();
    while let Some(row) = rows.next()? {
        if waiting(row).is_err() {
            unreadable.push(row.get(0)?);
        }
    }
    for seq in &unreadable {
        execute(connection, "UPDATE messages SET dead = 2 WHERE seq = ?1", [seq])?;
    }
    Ok(unreadable.len())
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

/// Writes a message that was in memory, as a dead letter.
pub(crate) fn insert_dead(connection: &Connection, waiting: &Waiting, now: Timestamp) -> Result<(), DatabaseError> {
    let message = &waiting.message;
    execute(
        connection,
        "INSERT INTO messages (dead, visible_at, receives, turn, owner, id, trace, attempt) \
         VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            moment(now),
            waiting.receives,
            waiting.turn.saturating_add(1),
            message.task.owner.as_bytes(),
            message.task.id.as_bytes(),
            message.trace.as_ref().map(TraceParent::as_str),
            message.attempt
        ],
    )
}

pub(crate) fn move_to_dead_letters(connection: &Connection, seq: i64, now: Timestamp) -> Result<(), DatabaseError> {
    execute(
        connection,
        "UPDATE messages SET dead = 1, visible_at = ?2, turn = turn + 1 WHERE seq = ?1",
        params![seq, moment(now)],
    )
}

/// The message was delivered under the number `turn`, and is hidden until `until`.
pub(crate) fn delivered(connection: &Connection, seq: i64, turn: i64, until: Timestamp) -> Result<(), DatabaseError> {
    execute(
        connection,
        "UPDATE messages SET visible_at = ?2, turn = ?3, receives = receives + 1 WHERE seq = ?1",
        params![seq, moment(until), turn],
    )
}

pub(crate) fn first_of(
    connection: &Connection,
    owner: &OwnerId,
    now: Timestamp,
) -> Result<Option<Waiting>, DatabaseError> {
    let mut statement = connection.prepare_cached(FIRST_OF_OWNER)?;
    Ok(statement.query_row(params![owner.as_bytes(), moment(now)], waiting).optional()?)
}

pub(crate) fn take_dead(
    connection: &Connection,
    turns: &mut Turns,
    max: usize,
    (now, visible_at): (Timestamp, Timestamp),
) -> Result<Vec<Delivery>, DatabaseError> {
    let mut statement = connection.prepare_cached(DEAD)?;
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![moment(now), max], waiting)?;
    let dead: Vec<Waiting> = rows.collect::<rusqlite::Result<_>>()?;
    let deliveries = dead.into_iter().map(|letter| {
        let turn = turns.number_after(letter.turn);
        delivered(connection, letter.number, turn, visible_at)?;
        Ok(delivery(letter, turn))
    });
    deliveries.collect()
}

pub(crate) fn first_visible(connection: &Connection) -> Result<Option<Timestamp>, DatabaseError> {
    let mut statement = connection.prepare_cached(FIRST_VISIBLE)?;
    Ok(statement.query_row([], |row| row.get(0).map(timestamp)).optional()?)
}

pub(crate) fn next_visible(connection: &Connection, now: Timestamp) -> Result<Option<Timestamp>, DatabaseError> {
    let mut statement = connection.prepare_cached(NEXT_VISIBLE)?;
    Ok(statement.query_row([moment(now)], |row| row.get(0).map(timestamp)).optional()?)
}

pub(crate) fn backlog(connection: &Connection, now: Timestamp) -> Result<Backlog, DatabaseError> {
    let mut statement = connection.prepare_cached(BACKLOG)?;
    let max = i64::try_from(BACKLOG_COUNTED_MAX).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![moment(now), max])?;
    let mut backlog = Backlog::default();
    while let Some(row) = rows.next()? {
        let age_ms = now.since_ms(timestamp(row.get(0)?));
        backlog = backlog.and(Backlog { messages: 1, oldest_age_ms: age_ms });
    }
    Ok(backlog)
}

pub(crate) fn hide(connection: &Connection, receipt: Receipt, visible_at: Timestamp) -> Result<(), DatabaseError> {
    execute(
        connection,
        "UPDATE messages SET visible_at = ?3 WHERE seq = ?1 AND turn = ?2",
        params![receipt.number, receipt.turn, moment(visible_at)],
    )
}

pub(crate) fn delete(connection: &Connection, receipt: Receipt) -> Result<(), DatabaseError> {
    execute(connection, "DELETE FROM messages WHERE seq = ?1 AND turn = ?2", params![receipt.number, receipt.turn])
}
