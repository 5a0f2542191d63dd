//! The unfinished tasks of all owners: those that have no message, since a message is not lost in the same file.

use async_trait::async_trait;
use longhaul_core::ports::{StoreError, UnfinishedTasks};
use longhaul_core::{Task, TaskKey, Timestamp};
use rusqlite::{Connection, params};

use crate::tasks::{moment, parse, record_text};
use crate::{DatabaseError, SqliteStore};

/// A page of unfinished tasks that have no message.
pub(crate) const PAGE: &str = "SELECT record FROM tasks INDEXED BY tasks_unfinished \
     WHERE status IN ('working', 'input_required') AND (owner, id) > (?1, ?2) AND expires_at > ?3 \
     AND NOT EXISTS (SELECT 1 FROM messages INDEXED BY messages_by_task \
     WHERE dead = 0 AND messages.owner = tasks.owner AND messages.id = tasks.id) \
     ORDER BY owner, id LIMIT ?4";

#[async_trait]
impl UnfinishedTasks for SqliteStore {
    async fn unfinished(&self, after: Option<TaskKey>, max: usize, now: Timestamp) -> Result<Vec<Task>, StoreError> {
        Ok(self.shared.read(move |connection| page(connection, after, max, now)).await?)
    }
}

/// A record that cannot be read is left out: what is wrong with it concerns nobody but its owner.
fn page(
    connection: &Connection,
    after: Option<TaskKey>,
    max: usize,
    now: Timestamp,
) -> Result<Vec<Task>, DatabaseError> {
    let mut statement = connection.prepare_cached(PAGE)?;
    let owner: &[u8] = after.as_ref().map_or(&[], |key| key.owner.as_bytes());
    let id: &[u8] = after.as_ref().map_or(&[], |key| key.id.as_bytes());
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let records = statement.query_map(params![owner, id, moment(now), max], record_text)?;
    let records = records.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(records.iter().filter_map(|record| parse(record).ok()).collect())
}
