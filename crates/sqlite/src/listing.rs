//! One page of an owner's tasks.

use std::cmp::Reverse;

use longhaul_core::ports::Page;
use longhaul_core::{OwnerId, Status, Task, TaskFilter, TaskId, TaskKey, Timestamp, limits};
use rusqlite::{Connection, Row, params};

use crate::tasks::{id_in, moment, record_text};
use crate::{DatabaseError, record};

pub(crate) const PAGE: &str =
    "SELECT record, id FROM tasks WHERE owner = ?1 AND id < ?2 AND expires_at > ?3 ORDER BY id DESC LIMIT ?4";

/// The query for those of one status that have not ended. It compares status and tool inside the index.
pub(crate) const OF_OPEN: &str = "SELECT record, id FROM tasks INDEXED BY tasks_open \
     WHERE status IN ('working', 'input_required') \
     AND owner = ?1 AND +status = ?2 AND id < ?3 AND expires_at > ?4 AND (?5 IS NULL OR tool = ?5) \
     ORDER BY id DESC LIMIT ?6";

/// The query for those of one status that have ended. It compares the tool inside the index.
pub(crate) const OF_ENDED: &str = "SELECT record, id FROM tasks INDEXED BY tasks_ended \
     WHERE status NOT IN ('working', 'input_required') \
     AND owner = ?1 AND status = ?2 AND id < ?3 AND expires_at > ?4 AND (?5 IS NULL OR tool = ?5) \
     ORDER BY id DESC LIMIT ?6";

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
    for row in statement.query_map(params![owner.as_bytes(), before, moment(now), rows], record_and_id)? {
        tasks.push(task(owner, row?)?);
    }
    Ok(Page::of(tasks, limit, None))
}

/// The same of those tasks that `filter` takes: its statuses one after the other, merged.
pub(crate) fn filtered_page(
    connection: &Connection,
    owner: &OwnerId,
    filter: &TaskFilter,
    before: Option<TaskId>,
    limit: usize,
    now: Timestamp,
) -> Result<Page, DatabaseError> {
    let limit = limit.min(limits::PAGE_MAX);
    let before = before.map_or([0xff; 16], |id| *id.as_bytes());
    let rows = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut tasks: Vec<Task> = Vec::new();
    for status in &filter.statuses {
        let query = match status {
            Status::Working | Status::InputRequired => OF_OPEN,
            Status::Completed | Status::Failed | Status::Cancelled => OF_ENDED,
        };
        let mut statement = connection.prepare_cached(query)?;
        let values = params![owner.as_bytes(), status.as_str(), before, moment(now), filter.tool, rows];
        for row in statement.query_map(values, record_and_id)? {
            tasks.push(task(owner, row?)?);
        }
    }
    tasks.sort_unstable_by_key(|task| Reverse(task.id));
    Ok(Page::of(tasks, limit, None))
}

fn record_and_id(row: &Row<'_>) -> rusqlite::Result<(String, TaskId)> {
    Ok((record_text(row)?, id_in(row, 1)?))
}

fn task(owner: &OwnerId, (record, id): (String, TaskId)) -> Result<Task, DatabaseError> {
    record::task(&record, &TaskKey::new(*owner, id))
}
