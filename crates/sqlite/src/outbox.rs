//! Notifications that are not passed on yet: each is written in the transaction of the event that it publishes.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ports::{Outbox, StoreError};
use longhaul_core::{Notification, Task};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::DatabaseError;
use crate::handle::Handle;
use crate::sql::execute;

/// The notifications that were left first.
pub(crate) const FIRST: &str = "SELECT seq, announcement FROM outbox WHERE seq > 0 ORDER BY seq LIMIT ?1";

/// Keeps a notification out of [`FIRST`].
const SET_ASIDE: &str = "UPDATE outbox SET seq = -seq WHERE seq = ?1 RETURNING CAST(event AS BLOB)";

pub(crate) const REMOVE: &str = "DELETE FROM outbox WHERE event = ?1";

/// The notifications in a [`Database`](crate::Database).
#[derive(Clone)]
pub struct SqliteOutbox {
    shared: Arc<Handle>,
}

impl SqliteOutbox {
    pub(crate) const fn new(shared: Arc<Handle>) -> Self {
        Self { shared }
    }

    /// Has notifications that cannot be read keep no other one waiting. They stay in the table.
    async fn set_aside(&self, damaged: Vec<(i64, DatabaseError)>) -> Result<(), DatabaseError> {
        let set = move |connection: &_| damaged.iter().try_for_each(|(seq, why)| set_aside(connection, *seq, why));
        self.shared.writer.call(set).await
    }
}

#[async_trait]
impl Outbox for SqliteOutbox {
    async fn notifications(&self, max: usize, wait_ms: u64) -> Result<Vec<Notification>, StoreError> {
        let until = self.shared.clock.now().plus_ms(wait_ms);
        loop {
            // Created before the query, so that what is left between the query and the wait is not missed.
            let woken = self.shared.notifications.notified();
            let First { found, damaged } = self.shared.read(move |connection| first(connection, max)).await?;
            if !damaged.is_empty() {
                self.set_aside(damaged).await?;
                continue;
            }
            let now = self.shared.clock.now();
            if !found.is_empty() || max == 0 || now >= until {
                return Ok(found);
            }
            tokio::select! {
                () = woken => {}
                () = self.shared.clock.sleep_ms(until.since_ms(now)) => {}
            }
        }
    }

    async fn remove(&self, notifications: &[Notification]) -> Result<(), StoreError> {
        let events: Vec<String> = notifications.iter().map(Notification::id).collect();
        let removed = self
            .shared
            .writer
            .call(move |connection| events.iter().try_for_each(|event| execute(connection, REMOVE, [event])));
        Ok(removed.await?)
    }
}

/// Leaves the notification of a change of a task, if the change is published. Returns whether there is one.
pub(crate) fn leave(connection: &Connection, before: &Task, after: &Task) -> Result<bool, DatabaseError> {
    let Some(notification) = Notification::between(before, after) else { return Ok(false) };
    execute(
        connection,
        "INSERT OR IGNORE INTO outbox (event, announcement) VALUES (?1, ?2)",
        params![notification.id(), serde_json::to_string(&notification)?],
    )?;
    Ok(true)
}

/// The notifications that were left first.
#[derive(Default)]
struct First {
    found: Vec<Notification>,
    /// The notifications that cannot be read, and why.
    damaged: Vec<(i64, DatabaseError)>,
}

fn first(connection: &Connection, max: usize) -> Result<First, DatabaseError> {
    let mut statement = connection.prepare_cached(FIRST)?;
    let mut rows = statement.query([i64::try_from(max).unwrap_or(i64::MAX)])?;
    let mut first = First::default();
    while let Some(row) = rows.next()? {
        match notification(row) {
            Ok(notification) => first.found.push(notification),
            Err(error) if error.is_permanent() => first.damaged.push((row.get(0)?, error)),
            Err(error) => return Err(error),
        }
    }
    Ok(first)
}

fn notification(row: &Row<'_>) -> Result<Notification, DatabaseError> {
    Ok(serde_json::from_str(&row.get::<_, String>(1)?)?)
}

fn set_aside(connection: &Connection, seq: i64, why: &DatabaseError) -> Result<(), DatabaseError> {
    let mut statement = connection.prepare_cached(SET_ASIDE)?;
    let event: Option<Vec<u8>> = statement.query_row([seq], |row| row.get(0)).optional()?;
    if let Some(event) = event {
        let (event, error) = (String::from_utf8_lossy(&event), why as &dyn std::error::Error);
        tracing::error!(%event, error, "a notification cannot be read, and is not passed on");
    }
    Ok(())
}
