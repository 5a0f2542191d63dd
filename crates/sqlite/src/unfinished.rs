//! The unfinished tasks of all owners that need a message or an end. Either they have no message, or they would expire
//! before a worker takes it. A message is lost neither in the same file nor in the same process.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use longhaul_core::ports::{StoreError, UnfinishedTasks};
use longhaul_core::{OwnerId, Task, TaskKey, Timestamp, limits};
use rusqlite::{Connection, params};

use crate::queue::deliveries::{Deliveries, lock};
use crate::sql::{key_in, moment};
use crate::tasks::read_unexpired;
use crate::unreadable::Unreadable;
use crate::{DatabaseError, SqliteStore};

/// Unfinished tasks, by the index alone.
pub(crate) const PAGE: &str = "SELECT owner, id, expires_at FROM tasks INDEXED BY tasks_open \
     WHERE status IN ('working', 'input_required') AND (owner, id) > (?1, ?2) AND expires_at > ?3 \
     ORDER BY owner, id LIMIT ?4";

/// The tasks of an owner that have messages, by the index alone.
pub(crate) const WITH_MESSAGE: &str =
    "SELECT id FROM messages INDEXED BY messages_by_owner WHERE dead = 0 AND owner = ?1";

#[async_trait]
impl UnfinishedTasks for SqliteStore {
    async fn unfinished(&self, after: Option<TaskKey>, max: usize, now: Timestamp) -> Result<Vec<Task>, StoreError> {
        let happened = self.shared.happened();
        if after.is_none() && self.shared.is_quiet(happened) {
            return Ok(Vec::new());
        }
        let deliveries = Arc::clone(&self.shared.deliveries);
        let unreadable = Arc::clone(&self.shared.unreadable);
        let read = move |connection: &_| page(connection, &unreadable, &deliveries, after, max, now);
        let tasks = self.shared.read(read).await?;
        if after.is_none() {
            self.shared.note_scan(happened, tasks.is_empty());
        }
        Ok(tasks)
    }
}

/// A record that cannot be read is left out: what is wrong with it concerns only its owner.
pub(crate) fn page(
    connection: &Connection,
    unreadable: &Unreadable,
    deliveries: &Mutex<Deliveries>,
    after: Option<TaskKey>,
    max: usize,
    now: Timestamp,
) -> Result<Vec<Task>, DatabaseError> {
    let mut with_message = WithMessage::default();
    let mut after = after.map(|key| (key.owner.as_bytes().to_vec(), key.id.as_bytes().to_vec()));
    loop {
        let (mut tasks, mut seen) = (Vec::new(), 0_usize);
        let mut statement = connection.prepare_cached(PAGE)?;
        let (owner, id) = after.clone().unwrap_or_default();
        let limit = i64::try_from(max).unwrap_or(i64::MAX);
        let mut rows = statement.query(params![owner, id, moment(now), limit])?;
        while let Some(row) = rows.next()? {
            seen = seen.saturating_add(1);
            after = Some((row.get(0)?, row.get(1)?));
            let Some(key) = unreadable.row(key_in(row, 0, 1))? else { continue };
            let has_message = with_message.has(connection, &key)? || lock(deliveries).has(&key);
            if has_message && row.get::<_, i64>(2)? > moment(now.plus_ms(limits::EXPIRES_SOON_MS)) {
                continue;
            }
            let is_missed = |task: &Task| !task.has_ended() && (!has_message || now >= task.deadline());
            match read_unexpired(connection, unreadable, &key, now) {
                Ok(task) => tasks.extend(task.filter(is_missed)),
                Err(DatabaseError::Newer(_)) => {}
                Err(error) => return Err(error),
            }
        }
        // Each round begins after the last row of the one before.
        if !tasks.is_empty() || seen < max {
            return Ok(tasks);
        }
    }
}

/// Which tasks of one owner have messages. Keys come owner by owner.
#[derive(Default)]
struct WithMessage {
    owner: Option<OwnerId>,
    ids: HashSet<[u8; 16]>,
}

impl WithMessage {
    fn has(&mut self, connection: &Connection, key: &TaskKey) -> Result<bool, DatabaseError> {
        if self.owner != Some(key.owner) {
            let mut statement = connection.prepare_cached(WITH_MESSAGE)?;
            let ids = statement.query_map([key.owner.as_bytes()], |row| row.get(0))?;
            // A message whose task has no readable id is that of no task.
            self.ids = ids.filter_map(Result::ok).collect();
            self.owner = Some(key.owner);
        }
        Ok(self.ids.contains(key.id.as_bytes()))
    }
}
