//! Values in SQL: keys and timestamps in rows, and statements without an answer.

use longhaul_core::{OwnerId, TaskId, TaskKey, Timestamp};
use rusqlite::{CachedStatement, Connection, Row};

use crate::DatabaseError;

/// Timestamps are unsigned, SQLite's integers are signed: a time beyond their range becomes the largest of them.
pub(crate) fn moment(at: Timestamp) -> i64 {
    i64::try_from(at.as_ms()).unwrap_or(i64::MAX)
}

/// The key in these two columns of a row: the owner, and the task's id.
pub(crate) fn key_in(row: &Row<'_>, owner: usize, id: usize) -> rusqlite::Result<TaskKey> {
    Ok(TaskKey::new(OwnerId::from_bytes(row.get(owner)?), id_in(row, id)?))
}

/// The key of these columns.
pub(crate) fn key_of(owner: &[u8], id: &[u8]) -> Option<TaskKey> {
    let owner = OwnerId::from_bytes(owner.try_into().ok()?);
    Some(TaskKey::new(owner, TaskId::from_bytes(id.try_into().ok()?).ok()?))
}

pub(crate) fn id_in(row: &Row<'_>, id: usize) -> rusqlite::Result<TaskId> {
    TaskId::from_bytes(row.get(id)?)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(id, rusqlite::types::Type::Blob, error.into()))
}

/// Runs a prepared statement that returns no rows.
pub(crate) fn execute(connection: &Connection, sql: &str, values: impl rusqlite::Params) -> Result<(), DatabaseError> {
    let mut statement: CachedStatement<'_> = connection.prepare_cached(sql)?;
    statement.execute(values)?;
    Ok(())
}
