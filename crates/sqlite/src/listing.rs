//! One page of an owner's tasks.

use std::cmp::Reverse;

use longhaul_core::ports::Page;
use longhaul_core::{OwnerId, Status, Task, TaskFilter, TaskId, TaskKey, Timestamp, limits};
use rusqlite::{Connection, Row, params};

use crate::sql::{id_in, moment};
use crate::unreadable::Unreadable;
use crate::{DatabaseError, record};

pub(crate) const PAGE: &str =
    "SELECT record, id FROM tasks WHERE owner = ?1 AND id < ?2 AND expires_at > ?3 ORDER BY id DESC";

/// The query for those of one status that have not ended. It compares status and tool inside the index.
pub(crate) const OF_OPEN: &str = "SELECT record, id FROM tasks INDEXED BY tasks_open \
     WHERE status IN ('working', 'input_required') \
     AND owner = ?1 AND +status = ?2 AND id < ?3 AND expires_at > ?4 AND (?5 IS NULL OR tool = ?5) \
     ORDER BY id DESC";

/// The query for those of one status that have ended. It compares the tool inside the index.
pub(crate) const OF_ENDED: &str = "SELECT record, id FROM tasks INDEXED BY tasks_ended \
     WHERE status NOT IN ('working', 'input_required') \
     AND owner = ?1 AND status = ?2 AND id < ?3 AND expires_at > ?4 AND (?5 IS NULL OR tool = ?5) \
     ORDER BY id DESC";

/// The unexpired tasks of `owner` before `before`, newest first. It reads one task more than requested, to know whether
/// another page follows: a cursor must not lead to an empty page.
pub(crate) fn page(
    connection: &Connection,
    unreadable: &Unreadable,
    owner: &OwnerId,
    before: Option<TaskId>,
    limit: usize,
    now: Timestamp,
) -> Result<Page, DatabaseError> {
    let limit = limit.min(limits::PAGE_MAX);
    let mut statement = connection.prepare_cached(PAGE)?;
    let rows = statement.query_map(params![owner.as_bytes(), bound(before), moment(now)], record_and_id)?;
    let tasks = Tasks { connection, unreadable, owner }.first(rows, limit.saturating_add(1), |_task| true)?;
    Ok(Page::of(tasks, limit, None))
}

/// The same of those tasks that `filter` takes: its statuses one after the other, merged.
pub(crate) fn filtered_page(
    connection: &Connection,
    unreadable: &Unreadable,
    owner: &OwnerId,
    filter: &TaskFilter,
    before: Option<TaskId>,
    limit: usize,
    now: Timestamp,
) -> Result<Page, DatabaseError> {
    let limit = limit.min(limits::PAGE_MAX);
    let mut tasks: Vec<Task> = Vec::new();
    for status in &filter.statuses {
        let query = match status {
            Status::Working | Status::InputRequired => OF_OPEN,
            Status::Completed | Status::Failed | Status::Cancelled => OF_ENDED,
        };
        let mut statement = connection.prepare_cached(query)?;
        let values = params![owner.as_bytes(), status.as_str(), bound(before), moment(now), filter.tool];
        let rows = statement.query_map(values, record_and_id)?;
        let found = Tasks { connection, unreadable, owner };
        // The row of a damaged task may have the status that the task had.
        tasks.extend(found.first(rows, limit.saturating_add(1), |task| task.status() == *status)?);
    }
    tasks.sort_unstable_by_key(|task| Reverse(task.id));
    Ok(Page::of(tasks, limit, None))
}

/// All ids of a list are below this.
fn bound(before: Option<TaskId>) -> [u8; 16] {
    before.map_or([0xff; 16], |id| *id.as_bytes())
}

fn record_and_id(row: &Row<'_>) -> rusqlite::Result<(Vec<u8>, TaskId)> {
    Ok((record::column(row)?, id_in(row, 1)?))
}

/// The tasks of one owner in rows.
struct Tasks<'a> {
    connection: &'a Connection,
    unreadable: &'a Unreadable,
    owner: &'a OwnerId,
}

impl Tasks<'_> {
    /// The first `max` tasks that are wanted, without those that a newer version wrote. Reads no row after them.
    fn first(
        &self,
        rows: impl Iterator<Item = rusqlite::Result<(Vec<u8>, TaskId)>>,
        max: usize,
        is_wanted: impl Fn(&Task) -> bool,
    ) -> Result<Vec<Task>, DatabaseError> {
        let mut tasks = Vec::new();
        for row in rows {
            if tasks.len() >= max {
                break;
            }
            let Some((record, id)) = self.unreadable.row(row)? else { continue };
            let key = TaskKey::new(*self.owner, id);
            match self.unreadable.found(self.connection, &key, record::task(&record, &key)) {
                Ok(found) => tasks.extend(Some(found.into_task()).filter(&is_wanted)),
                Err(DatabaseError::Newer(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(tasks)
    }
}
