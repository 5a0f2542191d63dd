//! Creating and changing tasks, inside the writer's transaction: each function is one atomic operation.

use longhaul_core::ports::{Created, NewEntry, NewTask};
use longhaul_core::{PartsName, Payload, Refusal, Task, TaskEvent, TaskKey, Timestamp, limits};
use rusqlite::{Connection, OptionalExtension, params};

use crate::quota::{Window, change_quota, has_free_slot, has_room, window};
use crate::sql::{execute, id_in, moment};
use crate::unreadable::{Found, Unreadable};
use crate::{DatabaseError, attachments, record};

#[derive(Clone, Copy, Debug)]
pub(crate) enum NotCreated {
    KeyReused,
    TooManyOpen,
    TooMuchStored,
    TooManyNew { new_max: u32, retry_ms: u64 },
}

pub(crate) type Creation = Result<Created, NotCreated>;

pub(crate) enum Application {
    Done {
        /// As it was; `None` if the event has changed nothing.
        before: Option<Box<Task>>,
        after: Box<Task>,
    },
    Refused {
        current: Box<Task>,
        why: Refusal,
    },
    NotFound,
}

/// The record under `key`, even if it has expired.
fn read(connection: &Connection, unreadable: &Unreadable, key: &TaskKey) -> Result<Option<Found>, DatabaseError> {
    let mut statement = connection.prepare_cached("SELECT record FROM tasks WHERE owner = ?1 AND id = ?2")?;
    let values = params![key.owner.as_bytes(), key.id.as_bytes()];
    let record = statement.query_row(values, record::column).optional()?;
    record.map(|record| unreadable.found(connection, key, record::task(&record, key))).transpose()
}

/// The task under `key`, unless it has expired; if its record is damaged, what stands for it.
pub(crate) fn read_unexpired(
    connection: &Connection,
    unreadable: &Unreadable,
    key: &TaskKey,
    now: Timestamp,
) -> Result<Option<Task>, DatabaseError> {
    let task = read(connection, unreadable, key)?.map(Found::into_task);
    Ok(task.filter(|task| !task.has_expired(now)))
}

/// Writes a new task, the parts of its request, its journal, its key and the owner's count.
pub(crate) fn create(
    connection: &Connection,
    unreadable: &Unreadable,
    new: &NewTask,
    now: Timestamp,
) -> Result<Creation, DatabaseError> {
    let key = new.task.key();
    if let Some(creation) = find_idempotent(connection, unreadable, new, now)? {
        return Ok(creation);
    }
    if let Some(task) = read_unexpired(connection, unreadable, &key, now)? {
        return Ok(Ok(Created::Existing(task)));
    }
    let is_webhook_delivery = new.task.is_webhook_delivery();
    if !is_webhook_delivery && !has_free_slot(connection, new, now)? {
        return Ok(Err(NotCreated::TooManyOpen));
    }
    if !is_webhook_delivery && !has_room(connection, new)? {
        return Ok(Err(NotCreated::TooMuchStored));
    }
    let window = window(connection, &key.owner, now)?;
    if let Some(new_max) = new.new_max.filter(|new_max| !is_webhook_delivery && window.new >= *new_max) {
        return Ok(Err(NotCreated::TooManyNew { new_max, retry_ms: limits::minute_left_ms(window.since, now) }));
    }
    if forget(connection, &key)? {
        // The journal of an expired task with the same id must not be taken for work of this one.
        execute(
            connection,
            "DELETE FROM journal WHERE owner = ?1 AND id = ?2",
            params![key.owner.as_bytes(), key.id.as_bytes()],
        )?;
    }
    insert(connection, new, window)?;
    if !new.request_parts.is_empty() {
        attachments::put_parts(connection, &key, &PartsName::Request, &new.request_parts, now)?;
    }
    for NewEntry { entry, parts } in new.journal.iter() {
        if let Payload::Parts { name, .. } = &entry.value {
            attachments::put_parts(connection, &key, name, parts, now)?;
        }
        attachments::record(connection, &key, entry, now)?;
    }
    Ok(Ok(Created::New(new.task.clone())))
}

/// The outcome, if an earlier creation with the same idempotency key decides it.
fn find_idempotent(
    connection: &Connection,
    unreadable: &Unreadable,
    new: &NewTask,
    now: Timestamp,
) -> Result<Option<Creation>, DatabaseError> {
    let Some(idempotency) = new.idempotency else { return Ok(None) };
    let mut statement = connection.prepare_cached(
        "SELECT record, keys.request, keys.id FROM keys JOIN tasks USING (owner, id) WHERE keys.owner = ?1 AND \
         keys.key = ?2",
    )?;
    let found = statement
        .query_row(params![new.task.owner.as_bytes(), idempotency.key], |row| {
            Ok((record::column(row)?, row.get::<_, [u8; 32]>(1)?, id_in(row, 2)?))
        })
        .optional()?;
    let Some((record, request, id)) = found else { return Ok(None) };
    let key = TaskKey::new(new.task.owner, id);
    let task = unreadable.found(connection, &key, record::task(&record, &key))?.into_task();
    if task.has_expired(now) {
        return Ok(None);
    }
    let same = request == idempotency.request;
    Ok(Some(if same { Ok(Created::Existing(task)) } else { Err(NotCreated::KeyReused) }))
}

fn insert(connection: &Connection, new: &NewTask, window: Window) -> Result<(), DatabaseError> {
    let task = &new.task;
    let (owner, id) = (task.owner.as_bytes(), task.id.as_bytes());
    let counted = i64::from(!task.has_ended() && !task.is_webhook_delivery());
    // A webhook delivery is not one that its owner has created.
    let new_in_window = window.new.saturating_add(u32::from(!task.is_webhook_delivery()));
    execute(
        connection,
        "INSERT INTO tasks (owner, id, counted, expires_at, idempotency, record, status, tool) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            owner,
            id,
            counted,
            moment(task.expires_at),
            new.idempotency.map(|idempotency| idempotency.key),
            record::text(task)?,
            task.status().as_str(),
            task.tool
        ],
    )?;
    if let Some(idempotency) = new.idempotency {
        execute(
            connection,
            "REPLACE INTO keys (owner, key, request, id) VALUES (?1, ?2, ?3, ?4)",
            params![owner, idempotency.key, idempotency.request, id],
        )?;
    }
    execute(
        connection,
        "INSERT INTO quotas (owner, open, bytes, new, new_since) VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT DO UPDATE SET open = open + excluded.open, bytes = bytes + excluded.bytes, \
         new = excluded.new, new_since = excluded.new_since",
        params![owner, counted, bytes(task), new_in_window, moment(window.since)],
    )?;
    put_labels(connection, task)?;
    execute(connection, "DELETE FROM orphans WHERE owner = ?1 AND id = ?2", params![owner, id])
}

fn put_labels(connection: &Connection, task: &Task) -> Result<(), DatabaseError> {
    for (key, value) in task.labels.iter() {
        let values = params![task.owner.as_bytes(), task.id.as_bytes(), key, value];
        execute(connection, "INSERT INTO labels (owner, id, key, value) VALUES (?1, ?2, ?3, ?4)", values)?;
    }
    Ok(())
}

fn delete_labels(connection: &Connection, key: &TaskKey) -> Result<(), DatabaseError> {
    let values = params![key.owner.as_bytes(), key.id.as_bytes()];
    execute(connection, "DELETE FROM labels WHERE owner = ?1 AND id = ?2", values)
}

/// Deletes the record and its key, and releases its slot; returns whether there was a record. The attachments stay.
pub(crate) fn forget(connection: &Connection, key: &TaskKey) -> Result<bool, DatabaseError> {
    let (owner, id) = (key.owner.as_bytes(), key.id.as_bytes());
    let mut statement = connection
        .prepare_cached("DELETE FROM tasks WHERE owner = ?1 AND id = ?2 RETURNING record, counted, idempotency")?;
    let deleted = statement
        .query_row(params![owner, id], |row| {
            // A key that cannot be read is none.
            Ok((record::column(row)?, row.get::<_, i64>(1)?, row.get::<_, [u8; 32]>(2).ok()))
        })
        .optional()?;
    let Some((record, counted, idempotency)) = deleted else { return Ok(false) };
    delete_labels(connection, key)?;
    // A record that cannot be read is deleted like all others.
    let stored = record::task(&record, key).map_or(0, |task| bytes(&task));
    change_quota(connection, key, -counted, -stored)?;
    if let Some(idempotency) = idempotency {
        // The key may belong to a newer task by now.
        execute(
            connection,
            "DELETE FROM keys WHERE owner = ?1 AND key = ?2 AND id = ?3",
            params![owner, idempotency, id],
        )?;
    }
    Ok(true)
}

/// The bytes of the task that count as its owner's.
fn bytes(task: &Task) -> i64 {
    if task.is_webhook_delivery() { 0 } else { i64::try_from(task.stored_bytes()).unwrap_or(i64::MAX) }
}

/// Does what [`Task::apply`] does to the task under `key`.
pub(crate) fn apply(
    connection: &Connection,
    unreadable: &Unreadable,
    key: &TaskKey,
    event: &TaskEvent,
    now: Timestamp,
) -> Result<Application, DatabaseError> {
    let task = match read(connection, unreadable, key)? {
        Some(Found::Task(task)) if !task.has_expired(now) => task,
        Some(Found::Damaged(task)) if !task.has_expired(now) => {
            return Ok(Application::Refused { current: Box::new(task), why: Refusal::Ended });
        }
        Some(_) | None => return Ok(Application::NotFound),
    };
    match task.apply(event, now) {
        Err(why) => Ok(Application::Refused { current: Box::new(task), why }),
        Ok(next) => {
            if next == task {
                return Ok(Application::Done { before: None, after: Box::new(next) });
            }
            write(connection, &task, &next)?;
            Ok(Application::Done { before: Some(Box::new(task)), after: Box::new(next) })
        }
    }
}

fn write(connection: &Connection, before: &Task, after: &Task) -> Result<(), DatabaseError> {
    let (owner, id, record) = (after.owner.as_bytes(), after.id.as_bytes(), record::text(after)?);
    if before.labels != after.labels {
        delete_labels(connection, &after.key())?;
        put_labels(connection, after)?;
    }
    if before.status() == after.status() && !after.has_ended() && before.expires_at == after.expires_at {
        // The usual case, mostly heartbeats, changes no index.
        return execute(
            connection,
            "UPDATE tasks SET record = ?3 WHERE owner = ?1 AND id = ?2",
            params![owner, id, record],
        );
    }
    let released = after.has_ended() && is_counted(connection, after)?;
    change_quota(connection, &after.key(), -i64::from(released), bytes(after).saturating_sub(bytes(before)))?;
    execute(
        connection,
        "UPDATE tasks SET record = ?3, expires_at = ?4, counted = counted AND ?5, status = ?6 \
         WHERE owner = ?1 AND id = ?2",
        params![owner, id, record, moment(after.expires_at), i64::from(!after.has_ended()), after.status().as_str()],
    )
}

fn is_counted(connection: &Connection, task: &Task) -> Result<bool, DatabaseError> {
    let mut statement = connection.prepare_cached("SELECT counted FROM tasks WHERE owner = ?1 AND id = ?2")?;
    let counted: i64 = statement.query_row(params![task.owner.as_bytes(), task.id.as_bytes()], |row| row.get(0))?;
    Ok(counted != 0)
}
