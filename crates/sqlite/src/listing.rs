//! One page of an owner's tasks, and of the tasks of all owners.

use std::cmp::Reverse;

use longhaul_core::ports::Page;
use longhaul_core::{OwnerId, Status, Task, TaskFilter, TaskId, TaskKey, Timestamp, limits};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::sql::{id_in, moment};
use crate::unreadable::Unreadable;
use crate::{DatabaseError, record};

pub(crate) const PAGE: &str =
    "SELECT record, id FROM tasks WHERE owner = ?1 AND id < ?2 AND expires_at > ?3 AND id > ?4 ORDER BY id DESC";

/// The owners, one after the other.
pub(crate) const NEXT_OWNER: &str = "SELECT owner FROM tasks WHERE owner > ?1 ORDER BY owner LIMIT 1";

/// The query for those of one status that have not ended. It compares status and tool inside the index.
pub(crate) const OF_OPEN: &str = "SELECT record, id FROM tasks INDEXED BY tasks_open \
     WHERE status IN ('working', 'input_required') \
     AND owner = ?1 AND +status = ?2 AND id < ?3 AND expires_at > ?4 AND (?5 IS NULL OR tool = ?5) AND id > ?6 \
     ORDER BY id DESC";

/// The query for those of one status that have ended. It compares the tool inside the index.
pub(crate) const OF_ENDED: &str = "SELECT record, id FROM tasks INDEXED BY tasks_ended \
     WHERE status NOT IN ('working', 'input_required') \
     AND owner = ?1 AND status = ?2 AND id < ?3 AND expires_at > ?4 AND (?5 IS NULL OR tool = ?5) AND id > ?6 \
     ORDER BY id DESC";

/// The query for those with a label. It compares status and tool before it reads the record.
pub(crate) const WITH_LABEL: &str = "SELECT t.record, t.id FROM labels l CROSS JOIN tasks t USING (owner, id) \
     WHERE l.owner = ?1 AND l.key = ?2 AND l.value = ?3 AND l.id < ?4 AND l.id > ?5 AND t.expires_at > ?6 \
     AND (?7 IS NULL OR t.tool = ?7) AND instr(?8, t.status) > 0 ORDER BY l.id DESC";

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
    let span = Span::of(before, limit, now);
    let tasks = Tasks { connection, unreadable, owner }.newest(None, &span)?;
    Ok(Page::of(tasks, span.max - 1, None))
}

/// The same of those tasks that `filter` takes.
pub(crate) fn filtered_page(
    connection: &Connection,
    unreadable: &Unreadable,
    owner: &OwnerId,
    filter: &TaskFilter,
    before: Option<TaskId>,
    limit: usize,
    now: Timestamp,
) -> Result<Page, DatabaseError> {
    let span = Span::of(before, limit, now);
    let tasks = Tasks { connection, unreadable, owner }.newest(Some(filter), &span)?;
    Ok(Page::of(tasks, span.max - 1, None))
}

/// The same of all owners, one after the other. It reads only those tasks of an owner that are newer than the oldest
/// one of the page so far. So the cost grows with the number of owners, and not with that of their tasks. An index over
/// all owners would cost every change of a task another page.
pub(crate) fn page_of_all_owners(
    connection: &Connection,
    unreadable: &Unreadable,
    filter: &TaskFilter,
    before: Option<TaskId>,
    limit: usize,
    now: Timestamp,
) -> Result<Page, DatabaseError> {
    let mut span = Span::of(before, limit, now);
    let filter = Some(filter).filter(|filter| **filter != TaskFilter::default());
    let (mut tasks, mut last): (Vec<Task>, Vec<u8>) = (Vec::new(), Vec::new());
    let mut next_owner = connection.prepare_cached(NEXT_OWNER)?;
    while let Some(next) = next_owner.query_row([&last], |row| row.get(0)).optional()? {
        last = next;
        // What another program wrote has no owner.
        let Ok(owner) = last.as_slice().try_into().map(OwnerId::from_bytes) else { continue };
        tasks.extend(Tasks { connection, unreadable, owner: &owner }.newest(filter, &span)?);
        tasks.sort_unstable_by_key(|task| Reverse(task.id));
        tasks.truncate(span.max);
        if let Some(oldest) = tasks.get(span.max - 1) {
            span.after = *oldest.id.as_bytes();
        }
    }
    Ok(Page::of(tasks, span.max - 1, None))
}

/// Which tasks are wanted, by their ids.
struct Span {
    before: [u8; 16],
    after: [u8; 16],
    /// One more than the page has.
    max: usize,
    now: Timestamp,
}

impl Span {
    fn of(before: Option<TaskId>, limit: usize, now: Timestamp) -> Self {
        let max = limit.min(limits::PAGE_MAX).saturating_add(1);
        Self { before: bound(before), after: [0; 16], max, now }
    }
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
    /// The newest of them; with a filter, those with its first label, or those of its
    /// statuses one after the other, merged.
    fn newest(&self, filter: Option<&TaskFilter>, span: &Span) -> Result<Vec<Task>, DatabaseError> {
        let (owner, Span { before, after, max, now }) = (self.owner.as_bytes(), span);
        let Some(filter) = filter else {
            let mut statement = self.connection.prepare_cached(PAGE)?;
            let rows = statement.query_map(params![owner, before, moment(*now), after], record_and_id)?;
            return self.first(rows, *max, |_task| true);
        };
        if let Some((key, value)) = filter.labels.iter().next() {
            let statuses: Vec<&str> = filter.statuses.iter().map(|status| status.as_str()).collect();
            let mut statement = self.connection.prepare_cached(WITH_LABEL)?;
            let values = params![owner, key, value, before, after, moment(*now), filter.tool, statuses.join(" ")];
            let rows = statement.query_map(values, record_and_id)?;
            return self.first(rows, *max, |task| filter.takes(task));
        }
        let mut tasks: Vec<Task> = Vec::new();
        for status in &filter.statuses {
            let query = match status {
                Status::Working | Status::InputRequired => OF_OPEN,
                Status::Completed | Status::Failed | Status::Cancelled => OF_ENDED,
            };
            let mut statement = self.connection.prepare_cached(query)?;
            let values = params![owner, status.as_str(), before, moment(*now), filter.tool, after];
            let rows = statement.query_map(values, record_and_id)?;
            // The row of a damaged task may have the status that the task had.
            tasks.extend(self.first(rows, *max, |task| task.status() == *status)?);
        }
        tasks.sort_unstable_by_key(|task| Reverse(task.id));
        Ok(tasks)
    }

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
