//! One page of an owner's tasks.

use longhaul_core::ports::Page;
use longhaul_core::{OwnerId, Task, TaskId, Timestamp, limits};
use rusqlite::{Connection, params};

use crate::DatabaseError;
use crate::tasks::{moment, parse, record_text};

/// The query for one page.
pub(crate) const PAGE: &str =
    "SELECT record FROM tasks WHERE owner = ?1 AND id < ?2 AND expires_at > ?3 ORDER BY id DESC LIMIT ?4";

/// The unexpired tasks of `owner` before `before`, newest first. It reads one task more than requested, to know whether
/// another page follows: a cursor must not lead to an empty page.
pub(crate) fn page(
    connection: &Connection,
    owner: &OwnerId,
    before: Option<TaskId>,
    limit: usize,
    now: Timestamp,
) -> Result<Page, DatabaseError> {
    let limit = limit.min(limits::PAGE_MAX);
    let before = before.map_or([0xff; 16], |id| *id.as_bytes());
    let mut statement = connection.prepare_cached(PAGE)?;
    let rows = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut tasks: Vec<Task> = Vec::new();
    for record in statement.query_map(params![owner.as_bytes(), before, moment(now), rows], record_text)? {
        tasks.push(parse(&record?)?);
    }
    let more = tasks.len() > limit;
    tasks.truncate(limit);
    let next = tasks.last().filter(|_oldest| more).map(|oldest| oldest.id);
    Ok(Page { tasks, next })
}
