//! Recovery of a task that is stuck by a lost message, a dead worker or a missed deadline. A poll of the task recovers
//! it. A scan of all unfinished tasks does the same, so that no task depends on polls. A message that was delivered too
//! often, or that no worker takes, also leads to a recovery.

use longhaul_core::ports::{ApplyError, Delivery, Purpose, QueueError, StoreError, UnfinishedTasks};
use longhaul_core::{Cleanup, State, Task, TaskEvent, TaskKey, Timestamp};

use crate::limits::{ENSURE_TRIES_MAX, SWEPT_MAX, UNFINISHED_PAGE_MAX};
use crate::{Disposition, Engine};

impl Engine {
    /// Recovers `task` if it is stuck, and returns it as it is then. Never fails: the record was read, and that is an
    /// answer.
    pub(crate) async fn recover(&self, task: Task) -> Task {
        self.note_on_span(&task);
        let now = self.now();
        let Some(event) = self.recovery_event(&task, now) else { return task };
        let applied = if event.ends_task() {
            self.apply_with_retry(&task.key(), &event).await
        } else {
            self.apply_once(&task.key(), &event).await
        };
        match applied {
            Ok(recovered) => {
                tracing::info!(task_id = %task.id, attempt = task.attempt, ?event, "a poll recovered the task");
                self.observer().recovered(&recovered);
                if event.ends_task() {
                    self.send_for_cleanup(&recovered).await;
                } else {
                    // A failure is logged; the record remembers this sending, and the next poll after the bound repeats
                    // it.
                    let _logged = self.send(&recovered, 0).await;
                }
                recovered
            }
            Err(ApplyError::Refused { current, .. }) => *current,
            Err(ApplyError::NotFound) => task,
            Err(ApplyError::Store(error)) => {
                tracing::warn!(
                    task_id = %task.id, error = &error as &dyn std::error::Error,
                    "the task could not be recovered; the next poll tries again"
                );
                task
            }
        }
    }

    /// The event that recovers a stuck task; `None` if it is not stuck.
    fn recovery_event(&self, task: &Task, now: Timestamp) -> Option<TaskEvent> {
        if task.needs_cleanup() {
            return self.resend_event(task, self.cleanup_wanted_at(task), now);
        }
        if task.has_ended() {
            return None;
        }
        if now >= task.deadline() {
            return Some(TaskEvent::TimeOut);
        }
        let due = match &task.state {
            State::Queued => task.sent_at,
            State::Running { lease } if now >= lease.until && task.is_on_last_retry() => {
                return Some(TaskEvent::RetriesExhausted);
            }
            State::Running { lease } => lease.until.max(task.sent_at),
            State::Sleeping { until } | State::InputRequired { until: Some(until), .. } => (*until).max(task.sent_at),
            State::InputRequired { until: None, .. } => return None,
            State::Completed { .. } | State::Failed { .. } | State::Cancelled => return None,
        };
        self.resend_event(task, due, now)
    }

    /// When a message should be visible for the cleanup of the task.
    pub(crate) fn cleanup_wanted_at(&self, task: &Task) -> Timestamp {
        let due_at = self.cleanup_due_at(task).max(task.sent_at);
        match task.cleanup {
            Cleanup::Armed { lease: Some(lease), .. } => due_at.max(lease.until),
            Cleanup::Armed { lease: None, .. } | Cleanup::None | Cleanup::Done | Cleanup::GivenUp => due_at,
        }
    }

    /// Sends the message for the cleanup of a task that has just ended without a worker.
    pub(crate) async fn send_for_cleanup(&self, task: &Task) {
        if task.needs_cleanup() {
            let delay_ms = self.cleanup_due_at(task).since_ms(self.now());
            // A failure is logged, and a poll sends it again.
            let _logged = self.send(task, delay_ms).await;
        }
    }

    /// The event of a message that is sent again, if it was due long enough ago.
    fn resend_event(&self, task: &Task, due: Timestamp, now: Timestamp) -> Option<TaskEvent> {
        let resend_ms = self.settings.resend_after_ms(task.resends);
        (now >= due.plus_ms(resend_ms)).then(|| TaskEvent::Resend { not_since: now.minus_ms(resend_ms) })
    }

    /// Recovers every unfinished task as a poll would: sends a lost message again, and ends a task that is past its
    /// deadline. So no task depends on a client that polls it.
    ///
    /// # Errors
    /// [`StoreError`] if the tasks could not be read. The tasks that were read before are recovered.
    pub async fn sweep(&self, tasks: &dyn UnfinishedTasks) -> Result<Swept, StoreError> {
        let (mut swept, mut after) = (Swept::default(), None);
        while swept.seen < SWEPT_MAX {
            let page = self.with_retry(|| tasks.unfinished(after, UNFINISHED_PAGE_MAX, self.now())).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key());
            swept.seen += page.len();
            for task in page {
                let before = (task.resends, task.has_ended());
                let after = self.recover(task).await;
                swept.recovered += usize::from(before != (after.resends, after.has_ended()));
            }
        }
        Ok(swept)
    }

    /// Sends the message of a task once more if no worker has taken it. The task waits for a worker or for its later
    /// start, or is to be cleaned up. Once this returns, the task does not depend on an earlier sender of its message.
    ///
    /// Like a poll, it sends one message per [`resend_ms`](crate::Settings::resend_ms) together with all others that
    /// resend. But it does not come back later. So if it is too early, it sends the later message now, hidden until its
    /// time.
    pub async fn ensure_message(&self, key: &TaskKey) -> Result<Ensured, EnsureError> {
        let Some(mut task) = self.with_retry(|| self.store().get(key, self.now())).await? else {
            return Ok(Ensured::NotNeeded);
        };
        for _ in 0..ENSURE_TRIES_MAX {
            let Some(visible_at) = self.next_message_at(&task) else { return Ok(Ensured::NotNeeded) };
            let not_since = visible_at.minus_ms(self.settings.resend_after_ms(task.resends));
            // The write bears the moment of the message, from which others count.
            let resent = self.store().apply(key, &TaskEvent::Resend { not_since }, visible_at).await;
            match resent {
                Ok(resent) => {
                    let delay_ms = visible_at.since_ms(self.now());
                    tracing::info!(task_id = %key.id, delay_ms, "no worker took the task: its message is sent again");
                    self.observer().recovered(&resent);
                    self.send(&resent, delay_ms).await?;
                    return Ok(Ensured::Sent { delay_ms });
                }
                // Whoever sent a message meanwhile may have died before that.
                Err(ApplyError::Refused { current, .. }) => task = *current,
                Err(ApplyError::NotFound) => return Ok(Ensured::NotNeeded),
                Err(ApplyError::Store(error)) => return Err(error.into()),
            }
        }
        Err(EnsureError::Contended)
    }

    /// When the next message of the task may be visible, if no worker has taken it; now, if that time has passed.
    fn next_message_at(&self, task: &Task) -> Option<Timestamp> {
        let wanted_at = match &task.state {
            _ if task.needs_cleanup() => self.cleanup_wanted_at(task),
            State::Queued => task.sent_at,
            // A call that is to start later: like any new one, it had no message when its record was written.
            State::Sleeping { until } if task.awaited_start().is_some() => (*until).max(task.sent_at),
            // The worker that brought it there has a message, which it deletes only when it has sent the next one.
            State::Running { .. } | State::Sleeping { .. } | State::InputRequired { .. } => return None,
            State::Completed { .. } | State::Failed { .. } | State::Cancelled => return None,
        };
        Some(wanted_at.plus_ms(self.settings.resend_after_ms(task.resends)).max(self.now()))
    }

    /// Recovers the task of a dead letter. Whether the task has failed is decided by the failures in its record: a
    /// task that was merely unlucky gets a new message.
    pub async fn run_dead_letter(&self, letter: &Delivery) -> Disposition {
        if letter.purpose == Purpose::Wake {
            return self.run_wake(letter).await;
        }
        let key = &letter.message.task;
        let now = self.now();
        let task = match self.with_retry(|| self.store().get(key, now)).await {
            Ok(Some(task)) => task,
            Ok(None) => return Disposition::Acknowledge,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(task_id = %key.id, error, "the task of a dead letter could not be read");
                return self.later();
            }
        };
        match self.need_of(&task, now) {
            Need::Nothing => Disposition::Acknowledge,
            Need::End(event) => match self.end_for_good(&task, event).await {
                Disposition::Acknowledge if task.cleanup.is_armed() => {
                    self.replace_message(&task, self.settings.lease_ms).await
                }
                disposition => disposition,
            },
            Need::Message(at) => match self.send(&task, at.since_ms(now)).await {
                Ok(()) => Disposition::Acknowledge,
                Err(_logged) => self.later(),
            },
        }
    }

    fn need_of(&self, task: &Task, now: Timestamp) -> Need {
        if task.needs_cleanup() {
            return Need::Message(self.cleanup_due_at(task).max(now.plus_ms(self.settings.retry_ms)));
        }
        if task.has_ended() {
            return Need::Nothing;
        }
        if now >= task.deadline() {
            return Need::End(TaskEvent::TimeOut);
        }
        match &task.state {
            State::Running { lease } if now >= lease.until && task.is_on_last_retry() => {
                Need::End(TaskEvent::RetriesExhausted)
            }
            State::Running { lease } => Need::Message(lease.until),
            State::Sleeping { until } | State::InputRequired { until: Some(until), .. } => Need::Message(*until),
            State::InputRequired { until: None, .. } => Need::Message(task.deadline()),
            State::Queued => Need::Message(now.plus_ms(self.settings.retry_ms)),
            State::Completed { .. } | State::Failed { .. } | State::Cancelled => Need::Nothing,
        }
    }
}

/// The counts of a recovery scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Unfinished tasks.
    pub seen: usize,
    /// The tasks of them that were stuck, and are not any more.
    pub recovered: usize,
}

/// The outcome for the message of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ensured {
    /// None is needed: a worker took the task, it has ended, or it is gone.
    NotNeeded,
    /// One was sent, which is visible after this time in milliseconds.
    Sent {
        /// How long it is hidden.
        delay_ms: u64,
    },
}

/// Why it is not known that a task has its message. The same call may be made again.
#[derive(Debug, thiserror::Error)]
pub enum EnsureError {
    /// The store did not answer.
    #[error("the store did not answer")]
    Store(#[from] StoreError),
    /// The message was not sent.
    #[error("the message was not sent")]
    Queue(#[from] QueueError),
    /// Others sent messages all the time, or could not.
    #[error("others sent messages for the task all the time")]
    Contended,
}

/// The need of the task of a dead letter.
enum Need {
    /// Nothing: it has ended.
    Nothing,
    /// The end that this event is.
    End(TaskEvent),
    /// A new message, visible from this time on.
    Message(Timestamp),
}
