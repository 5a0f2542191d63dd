//! Deleting what has expired.

use longhaul_core::Timestamp;
use rusqlite::{Connection, params};

use crate::limits::ORPHAN_MS;
use crate::sql::{execute, key_of, moment};
use crate::tasks::forget;
use crate::{Database, DatabaseError};

/// Orphans, oldest first.
pub(crate) const ORPHANS: &str = "SELECT owner, id FROM orphans WHERE seen_at <= ?1 ORDER BY seen_at LIMIT ?2";

/// Expired tasks, oldest first.
pub(crate) const EXPIRED: &str = "SELECT owner, id FROM tasks WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2";

/// Expired messages in mailboxes, oldest first.
pub(crate) const EXPIRED_MAILBOXES: &str =
    "SELECT rowid FROM mailboxes WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2";

/// Whether a purge left anything to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purged {
    /// Nothing expired is left.
    All,
    /// It deleted as much as one call may; call again.
    UpToLimit,
}

impl Database {
    /// Deletes up to `limit` expired tasks, with their parts, journals and keys, and releases the slots of those that
    /// never ended. Also deletes up to `limit` orphans, and up to `limit` expired messages in mailboxes. Other calls
    /// run between two purges, so a small limit keeps them quick.
    ///
    /// # Errors
    /// [`DatabaseError`]; what earlier calls purged stays deleted.
    pub async fn purge(&self, now: Timestamp, limit: u32) -> Result<Purged, DatabaseError> {
        self.shared().writer.call(move |connection| purge(connection, now, limit)).await
    }
}

fn purge(connection: &Connection, now: Timestamp, limit: u32) -> Result<Purged, DatabaseError> {
    let expired = keys(connection, EXPIRED, moment(now), limit)?;
    for row in &expired {
        match key_of(&row.owner, &row.id) {
            Some(key) => drop(forget(connection, &key)?),
            // Nothing else belongs to a key that cannot be read.
            None => delete(connection, "DELETE FROM tasks WHERE owner = ?1 AND id = ?2", row)?,
        }
        forget_attachments(connection, row)?;
    }
    let orphans = keys(connection, ORPHANS, moment(now.minus_ms(ORPHAN_MS)), limit)?;
    for row in &orphans {
        forget_attachments(connection, row)?;
    }
    let texts = forget_texts(connection, now, limit)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let is_full = [expired.len(), orphans.len(), texts].into_iter().any(|found| found >= limit);
    Ok(if is_full { Purged::UpToLimit } else { Purged::All })
}

/// Deletes up to `limit` expired messages in mailboxes, and returns how many it deleted.
fn forget_texts(connection: &Connection, now: Timestamp, limit: u32) -> Result<usize, DatabaseError> {
    let mut statement = connection.prepare_cached(EXPIRED_MAILBOXES)?;
    let rows = statement.query_map(params![moment(now), limit], |row| row.get::<_, i64>(0))?;
    let rows: Vec<i64> = rows.collect::<rusqlite::Result<_>>()?;
    for row in &rows {
        execute(connection, "DELETE FROM mailboxes WHERE rowid = ?1", [row])?;
    }
    Ok(rows.len())
}

fn forget_attachments(connection: &Connection, row: &KeyColumns) -> Result<(), DatabaseError> {
    for sql in [
        "DELETE FROM journal WHERE owner = ?1 AND id = ?2",
        "DELETE FROM parts WHERE owner = ?1 AND id = ?2",
        "DELETE FROM orphans WHERE owner = ?1 AND id = ?2",
    ] {
        delete(connection, sql, row)?;
    }
    Ok(())
}

fn delete(connection: &Connection, sql: &str, row: &KeyColumns) -> Result<(), DatabaseError> {
    execute(connection, sql, params![row.owner, row.id])
}

/// A key as a row has it: a row that has none must not keep the others.
struct KeyColumns {
    owner: Vec<u8>,
    id: Vec<u8>,
}

fn keys(connection: &Connection, sql: &str, until: i64, limit: u32) -> Result<Vec<KeyColumns>, DatabaseError> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows =
        statement.query_map(params![until, limit], |row| Ok(KeyColumns { owner: row.get(0)?, id: row.get(1)? }))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
