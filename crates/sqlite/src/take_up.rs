//! Recovery of the work of the process that had the database before.
//!
//! A database belongs to one process at a time. So the process that opens it knows that no other process works on it:
//! every lease has expired, and the receivers of messages are gone.

use std::sync::{Arc, Mutex};

use longhaul_core::{Advance, Cleanup, CleanupEnd, State, Task, TaskEvent, TaskKey, Timestamp};
use rusqlite::{Connection, params};

use crate::limits::TAKEN_UP_AT_A_TIME;
use crate::queue::deliveries::{self, Deliveries, lock};
use crate::sql::{execute, key_in, moment};
use crate::tasks::{Application, apply, read_unexpired};
use crate::unreadable::Unreadable;
use crate::{Database, DatabaseError, permits, unfinished};

/// Messages that are hidden because a worker received them. If it is in the table, the message of a task that a worker
/// holds is among them. Each heartbeat hides it for longer than it extends the lease. A message that was only delayed,
/// as the timer of a task that sleeps, has no delivery, and comes when it has to.
pub(crate) const HIDDEN: &str = "SELECT seq, owner, id, visible_at FROM messages WHERE dead = 0 AND visible_at > ?1 \
                                 AND turn > 0 ORDER BY visible_at";

impl Database {
    /// Ends the leases that a former process left, and makes the messages visible that wait for nothing else: so that
    /// the work continues at once. Makes the messages that the former process had in memory. Returns how many leases it
    /// ended. Only right before this process begins to work on tasks itself.
    ///
    /// The dead attempts count as failed attempts, like any whose lease runs out.
    ///
    /// # Errors
    /// [`DatabaseError`]; what was resumed before stays so, and another call resumes the rest.
    pub async fn take_up(&self, now: Timestamp) -> Result<usize, DatabaseError> {
        let deliveries = Arc::clone(&self.shared().deliveries);
        let unreadable = Arc::clone(&self.shared().unreadable);
        let received = move |connection: &_| take_up_received(connection, &unreadable, now);
        let mut ended = self.shared().write_task(received).await?;
        lock(&deliveries).look_again();
        let happened = self.shared().happened();
        let mut after = None;
        loop {
            let (deliveries, unreadable) = (Arc::clone(&deliveries), Arc::clone(&self.shared().unreadable));
            let page = move |connection: &_| {
                let tasks = unfinished::page(connection, &unreadable, &deliveries, after, TAKEN_UP_AT_A_TIME, now)?;
                take_up_without_message(connection, &unreadable, &deliveries, &tasks, now)
            };
            let taken_up = self.shared().write_task(page).await?;
            ended += taken_up.ended;
            // Each page begins after the last task of the one before.
            if taken_up.last.is_none() {
                self.shared().note_scan(happened, after.is_none());
                return Ok(ended);
            }
            after = taken_up.last;
        }
    }
}

/// Recovers the tasks whose messages the former process had received, and the permits of its attempts.
fn take_up_received(connection: &Connection, unreadable: &Unreadable, now: Timestamp) -> Result<usize, DatabaseError> {
    permits::give_back_all(connection)?;
    let mut ended = 0;
    for (seq, key, visible_at) in hidden(connection, now)? {
        let task = match read_unexpired(connection, unreadable, &key, now) {
            Ok(Some(task)) => task,
            Ok(None) | Err(DatabaseError::Newer(_)) => continue,
            Err(error) => return Err(error),
        };
        match &task.state {
            State::Running { lease } => {
                ended += usize::from(lease.until > now && end_lease(connection, unreadable, &task, now)?);
                show(connection, seq, now)?;
                forget_receives(connection, seq)?;
            }
            // Received, but not claimed.
            State::Queued => show(connection, seq, now)?,
            State::Sleeping { until } | State::InputRequired { until: Some(until), .. } => {
                if visible_at > moment(now.max(*until)) {
                    show(connection, seq, now.max(*until))?;
                }
            }
            State::Completed { .. } | State::Failed { .. } | State::Cancelled => {
                if end_cleanup(connection, unreadable, &task, now)? {
                    ended += 1;
                    show(connection, seq, now)?;
                }
            }
            State::InputRequired { until: None, .. } => {}
        }
    }
    Ok(ended)
}

/// A page of tasks that were resumed.
struct TakenUp {
    ended: usize,
    /// The last task of the page; `None` if there is none.
    last: Option<TaskKey>,
}

/// Recovers these unfinished tasks, whose messages were in memory.
fn take_up_without_message(
    connection: &Connection,
    unreadable: &Unreadable,
    deliveries: &Mutex<Deliveries>,
    tasks: &[Task],
    now: Timestamp,
) -> Result<TakenUp, DatabaseError> {
    let mut ended = 0;
    for task in tasks {
        let due_at = match &task.state {
            State::Running { lease } => {
                ended += usize::from(lease.until > now && end_lease(connection, unreadable, task, now)?);
                now
            }
            State::Queued => now,
            State::Sleeping { until } | State::InputRequired { until: Some(until), .. } => now.max(*until),
            State::InputRequired { until: None, .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Cancelled => continue,
        };
        deliveries::send_first(connection, deliveries, task, (now, due_at))?;
    }
    Ok(TakenUp { ended, last: tasks.last().map(Task::key) })
}

fn hidden(connection: &Connection, now: Timestamp) -> Result<Vec<(i64, TaskKey, i64)>, DatabaseError> {
    let mut statement = connection.prepare_cached(HIDDEN)?;
    let rows = statement.query_map([moment(now)], |row| Ok((row.get(0)?, key_in(row, 1, 2)?, row.get(3)?)))?;
    // A message that has no readable key is left to the queue, which sets it aside.
    Ok(rows.filter_map(Result::ok).collect())
}

/// Writes the last heartbeat of an attempt that is dead: it holds its task until now. Returns whether that was written.
fn end_lease(
    connection: &Connection,
    unreadable: &Unreadable,
    task: &Task,
    now: Timestamp,
) -> Result<bool, DatabaseError> {
    let last = TaskEvent::Heartbeat {
        attempt: task.attempt,
        lease_until: now,
        progress: None,
        labels: None,
        advance: Advance::NotYet,
    };
    Ok(matches!(apply(connection, unreadable, &task.key(), &last, now)?, Application::Done { .. }))
}

/// Ends the try to clean up a task during which the process died: the next one may begin now. Returns whether there was
/// one.
fn end_cleanup(
    connection: &Connection,
    unreadable: &Unreadable,
    task: &Task,
    now: Timestamp,
) -> Result<bool, DatabaseError> {
    let Cleanup::Armed { lease: Some(lease), .. } = task.cleanup else { return Ok(false) };
    if lease.until <= now {
        return Ok(false);
    }
    let failed = TaskEvent::EndCleanup { token: lease.token, end: CleanupEnd::Failed { again_at: now } };
    Ok(matches!(apply(connection, unreadable, &task.key(), &failed, now)?, Application::Done { .. }))
}

/// Makes the message visible at `at`, unless it is earlier anyway.
fn show(connection: &Connection, seq: i64, at: Timestamp) -> Result<(), DatabaseError> {
    execute(
        connection,
        "UPDATE messages SET visible_at = ?2 WHERE seq = ?1 AND visible_at > ?2",
        params![seq, moment(at)],
    )
}

/// The message counts as a new one. The record counts the failures of the task. A task that makes progress may be
/// interrupted any number of times.
fn forget_receives(connection: &Connection, seq: i64) -> Result<(), DatabaseError> {
    execute(connection, "UPDATE messages SET receives = 0 WHERE seq = ?1", [seq])
}
