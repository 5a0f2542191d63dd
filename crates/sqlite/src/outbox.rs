//! Notifications that are not passed on yet: each is written in the transaction of the event that it publishes.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ports::{Outbox, StoreError};
use longhaul_core::{Notification, Task};
use rusqlite::{Connection, params};

use crate::DatabaseError;
use crate::database::Shared;
use crate::tasks::execute;

/// The notifications that were left first.
pub(crate) const FIRST: &str = "SELECT announcement FROM outbox WHERE seq > 0 ORDER BY seq LIMIT ?1";

pub(crate) const REMOVE: &str = "DELETE FROM outbox WHERE event = ?1";

/// The notifications in a [`Database`](crate::Database).
#[derive(Clone)]
pub struct SqliteOutbox {
    shared: Arc<Shared>,
}

impl SqliteOutbox {
    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

#[async_trait]
impl Outbox for SqliteOutbox {
    async fn notifications(&self, max: usize, wait_ms: u64) -> Result<Vec<Notification>, StoreError> {
        let until = self.shared.clock.now().plus_ms(wait_ms);
        loop {
            // Created before the query, so that what is left between the query and the wait is not missed.
            let woken = self.shared.notifications.notified();
            let found = self.shared.read(move |connection| first(connection, max)).await?;
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

/// Leaves the notification of what happens to a task, if anything of it is published. Returns whether there is one.
pub(crate) fn leave(connection: &Connection, before: &Task, after: &Task) -> Result<bool, DatabaseError> {
    let Some(notification) = Notification::between(before, after) else { return Ok(false) };
    execute(
        connection,
        "INSERT OR IGNORE INTO outbox (event, announcement) VALUES (?1, ?2)",
        params![notification.id(), serde_json::to_string(&notification)?],
    )?;
    Ok(true)
}

fn first(connection: &Connection, max: usize) -> Result<Vec<Notification>, DatabaseError> {
    let mut statement = connection.prepare_cached(FIRST)?;
    let rows = statement.query_map([i64::try_from(max).unwrap_or(i64::MAX)], |row| row.get::<_, String>(0))?;
    rows.map(|text| Ok(serde_json::from_str(&text?)?)).collect()
}
