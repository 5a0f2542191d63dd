//! The counts of an owner: unfinished tasks, stored bytes, and new tasks within a minute.

use longhaul_core::ports::NewTask;
use longhaul_core::{OwnerId, TaskKey, Timestamp, limits};
use rusqlite::{Connection, OptionalExtension, params};

use crate::DatabaseError;
use crate::sql::{execute, moment};

/// Counts the owner's unfinished tasks one by one.
pub(crate) const RECOUNT: &str = "SELECT count(*) FROM tasks INDEXED BY tasks_open \
     WHERE owner = ?1 AND status IN ('working', 'input_required') AND counted = 1";

/// Removes tasks that expired unfinished from the count.
pub(crate) const DISCOUNT: &str = "UPDATE tasks INDEXED BY tasks_open SET counted = 0 \
     WHERE owner = ?1 AND status IN ('working', 'input_required') AND counted = 1 AND expires_at <= ?2";

/// Whether the owner may have one more unfinished task. Before it refuses, it counts again, without tasks that expired
/// unfinished. So the count repairs itself, and owners are not locked out by tasks that no longer exist.
pub(crate) fn has_free_slot(connection: &Connection, new: &NewTask, now: Timestamp) -> Result<bool, DatabaseError> {
    let owner = new.task.owner.as_bytes();
    let mut statement = connection.prepare_cached("SELECT open FROM quotas WHERE owner = ?1")?;
    let open: Option<u32> = statement.query_row([owner], |row| row.get(0)).optional()?;
    if open.unwrap_or(0) < new.open_max {
        return Ok(true);
    }
    execute(connection, DISCOUNT, params![owner, moment(now)])?;
    let mut statement = connection.prepare_cached(RECOUNT)?;
    let open: u32 = statement.query_row([owner], |row| row.get(0))?;
    execute(connection, "UPDATE quotas SET open = ?2 WHERE owner = ?1", params![owner, open])?;
    Ok(open < new.open_max)
}

/// Whether the owner may store the arguments of one more task.
pub(crate) fn has_room(connection: &Connection, new: &NewTask) -> Result<bool, DatabaseError> {
    let mut statement = connection.prepare_cached("SELECT bytes FROM quotas WHERE owner = ?1")?;
    let stored: Option<i64> = statement.query_row([new.task.owner.as_bytes()], |row| row.get(0)).optional()?;
    let stored = u64::try_from(stored.unwrap_or(0)).unwrap_or(0);
    Ok(stored.saturating_add(new.task.stored_bytes()) <= new.stored_max)
}

/// The tasks that an owner has created since a time.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub(crate) new: u32,
    pub(crate) since: Timestamp,
}

/// The window in which the owner creates tasks now: a new one if the last has ended.
pub(crate) fn window(connection: &Connection, owner: &OwnerId, now: Timestamp) -> Result<Window, DatabaseError> {
    let mut statement = connection.prepare_cached("SELECT new, new_since FROM quotas WHERE owner = ?1")?;
    let last: Option<(u32, i64)> =
        statement.query_row([owner.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let last = last.map(|(new, since)| Window { new, since: Timestamp::from_ms(u64::try_from(since).unwrap_or(0)) });
    let last = last.filter(|last| limits::minute_left_ms(last.since, now) > 0);
    Ok(last.unwrap_or(Window { new: 0, since: now }))
}

/// The owner of this task has so many more unfinished ones.
pub(crate) fn change_open(connection: &Connection, key: &TaskKey, open: i64) -> Result<(), DatabaseError> {
    change_quota(connection, key, open, 0)
}

pub(crate) fn change_quota(connection: &Connection, key: &TaskKey, open: i64, bytes: i64) -> Result<(), DatabaseError> {
    if open == 0 && bytes == 0 {
        return Ok(());
    }
    execute(
        connection,
        "UPDATE quotas SET open = max(open + ?2, 0), bytes = max(bytes + ?3, 0) WHERE owner = ?1",
        params![key.owner.as_bytes(), open, bytes],
    )
}
