//! Rows whose content cannot be read. Each costs itself only: the others are read, and for a task with a damaged record
//! stands one that has failed. Its content is kept, and the log names it once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhaul_core::{NotedTasks, Task, TaskKey, Timestamp, with_causes};
use rusqlite::{Connection, OptionalExtension, params};

use crate::DatabaseError;
use crate::quota::change_open;
use crate::sql::execute;
use crate::writer::Writer;

/// The tasks that this process cannot read.
#[derive(Default)]
pub(crate) struct Unreadable {
    damaged: NotedTasks,
    newer: NotedTasks,
    /// The tasks that are not in the log yet.
    met: Mutex<Vec<Met>>,
    /// Whether a row was met that does not even have a key.
    keyless: AtomicBool,
}

enum Met {
    /// Its row does not say yet that it has failed.
    Damaged {
        key: TaskKey,
        why: String,
    },
    Newer {
        key: TaskKey,
        why: String,
    },
}

/// The meaning of a row.
pub(crate) enum Found {
    Task(Task),
    /// The substitute for a task whose record is damaged.
    Damaged(Task),
}

impl Found {
    pub(crate) fn into_task(self) -> Task {
        match self {
            Self::Task(task) | Self::Damaged(task) => task,
        }
    }
}

impl Unreadable {
    /// The task under `key`, whose record was `read` so. A record of a newer version stays an error.
    pub(crate) fn found(
        &self,
        connection: &Connection,
        key: &TaskKey,
        read: Result<Task, DatabaseError>,
    ) -> Result<Found, DatabaseError> {
        match read {
            Ok(task) => Ok(Found::Task(task)),
            Err(error) if error.is_permanent() => {
                let task = in_place_of(connection, key)?;
                if self.damaged.note(key, task.expires_at) {
                    self.lock().push(Met::Damaged { key: *key, why: why(&error) });
                }
                Ok(Found::Damaged(task))
            }
            Err(error) => {
                if matches!(error, DatabaseError::Newer(_)) && self.newer.note(key, Timestamp::from_ms(u64::MAX)) {
                    self.lock().push(Met::Newer { key: *key, why: why(&error) });
                }
                Err(error)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Met>> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The row, unless its columns cannot be read.
    pub(crate) fn row<T>(&self, row: rusqlite::Result<T>) -> Result<Option<T>, DatabaseError> {
        match row.map_err(DatabaseError::from) {
            Ok(row) => Ok(Some(row)),
            Err(error) if error.is_permanent() => {
                if !self.keyless.swap(true, Ordering::Relaxed) {
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        "a row has no readable key, and is left out"
                    );
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// How many tasks that have not expired this process could not read.
    pub(crate) fn count(&self, now: Timestamp) -> usize {
        self.damaged.count(now)
    }

    /// Logs the names of the unreadable tasks that were met. Marks the rows of damaged ones as failed, since filters of
    /// lists read them, and frees their places in the open-task quota. If that fails, the next start of the process
    /// tries it again.
    pub(crate) async fn set_aside(&self, writer: &Writer) {
        let met = std::mem::take(&mut *self.lock());
        if met.is_empty() {
            return;
        }
        let mut damaged = Vec::new();
        for met in met {
            match met {
                Met::Damaged { key, why } => {
                    tracing::error!(
                        task_id = %key.id, why, "the record of a task cannot be read: its owner sees the task as failed"
                    );
                    damaged.push(key);
                }
                Met::Newer { key, why } => tracing::warn!(task_id = %key.id, why, "a task is left alone"),
            }
        }
        let set = move |connection: &_| damaged.iter().try_for_each(|key| set_aside(connection, key));
        if let Err(error) = writer.call(set).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "damaged tasks were not set aside");
        }
    }
}

/// The fault, in words that quote nothing of the record.
fn why(error: &DatabaseError) -> String {
    match error {
        DatabaseError::Corrupt(error) => format!("{:?} error in column {}", error.classify(), error.column()),
        other => with_causes(other),
    }
}

fn in_place_of(connection: &Connection, key: &TaskKey) -> Result<Task, DatabaseError> {
    let mut statement = connection.prepare_cached("SELECT tool, expires_at FROM tasks WHERE owner = ?1 AND id = ?2")?;
    let known = statement.query_row(params![key.owner.as_bytes(), key.id.as_bytes()], |row| {
        Ok((row.get_ref(0)?.as_str().ok().map(str::to_owned), row.get::<_, i64>(1)?))
    });
    let (tool, expires_at) = known.optional()?.unzip();
    Ok(Task::unreadable(key, tool.flatten(), expires_at.map(|at| Timestamp::from_ms(u64::try_from(at).unwrap_or(0)))))
}

fn set_aside(connection: &Connection, key: &TaskKey) -> Result<(), DatabaseError> {
    let values = params![key.owner.as_bytes(), key.id.as_bytes()];
    let mut statement = connection.prepare_cached("SELECT counted FROM tasks WHERE owner = ?1 AND id = ?2")?;
    let counted: Option<i64> = statement.query_row(values, |row| row.get(0)).optional()?;
    change_open(connection, key, -counted.unwrap_or(0))?;
    execute(connection, "UPDATE tasks SET status = 'failed', counted = 0 WHERE owner = ?1 AND id = ?2", values)
}
