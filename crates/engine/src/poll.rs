//! Polls, and what they mend on the way: a lost message, a dead worker, a missed deadline.

use longhaul_core::planted::{Fault, planted};
use longhaul_core::ports::{ApplyError, Page};
use longhaul_core::{OwnerId, State, Task, TaskEvent, TaskId, TaskKey, Timestamp, limits};

use crate::{Engine, PollError};

/// What a task that nobody seems to work on needs.
enum Remedy {
    /// Nothing.
    None,
    /// It is past its deadline.
    TimeOut,
    /// Its last allowed leg is dead.
    GiveUp,
    /// Its message may be lost.
    Nudge,
}

impl Engine {
    /// The task as it is. Where nobody works on it although somebody should, the poll sees to that, at most once per
    /// bound for all pollers together.
    ///
    /// # Errors
    /// [`PollError`]
    pub async fn poll(&self, key: &TaskKey) -> Result<Task, PollError> {
        let found = self.store().get(key, self.now()).await.map_err(PollError::Unavailable)?;
        let task = found.ok_or(PollError::NotFound)?;
        Ok(self.recover(task).await)
    }

    /// One page of an owner's tasks, newest first, as they are on record. `limit` is held to
    /// [`limits::PAGE_MAX`].
    ///
    /// # Errors
    /// [`PollError::Unavailable`]
    pub async fn list(&self, owner: &OwnerId, before: Option<TaskId>, limit: usize) -> Result<Page, PollError> {
        let limit = limit.clamp(1, limits::PAGE_MAX);
        self.store().list(owner, before, limit, self.now()).await.map_err(PollError::Unavailable)
    }

    /// Ends the task as `cancelled`; its worker learns of it with the next heartbeat. A task that has ended stays as
    /// it is, and that is no error.
    ///
    /// # Errors
    /// [`PollError`]
    pub async fn cancel(&self, key: &TaskKey) -> Result<Task, PollError> {
        if planted(Fault::CancelOnlyTold) {
            let task = self.poll(key).await?;
            return Ok(task.apply(&TaskEvent::Cancel, self.now()).unwrap_or(task));
        }
        match self.apply_surely(key, &TaskEvent::Cancel).await {
            Ok(task) => {
                self.note_on_span(&task);
                Ok(task)
            }
            Err(ApplyError::Refused { current, .. }) => Ok(*current),
            Err(ApplyError::NotFound) => Err(PollError::NotFound),
            Err(ApplyError::Store(error)) => Err(PollError::Unavailable(error)),
        }
    }

    /// Keeps the result for at least `keep_ms` after the end. Nothing is written where it is kept that long anyway.
    ///
    /// # Errors
    /// [`PollError`]
    pub async fn prolong(&self, key: &TaskKey, keep_ms: u64) -> Result<Task, PollError> {
        let task = self.poll(key).await?;
        if task.terms.keep_ms >= keep_ms {
            return Ok(task);
        }
        match self.apply_surely(key, &TaskEvent::Keep { keep_ms }).await {
            Ok(task) => Ok(task),
            Err(ApplyError::Refused { current, .. }) => Ok(*current),
            Err(ApplyError::NotFound) => Err(PollError::NotFound),
            Err(ApplyError::Store(error)) => Err(PollError::Unavailable(error)),
        }
    }

    /// Forgets a task that has ended: from now on it is "not found". One that has not ended stays.
    ///
    /// # Errors
    /// [`PollError::Unavailable`]
    pub async fn forget(&self, key: &TaskKey) -> Result<(), PollError> {
        match self.apply_surely(key, &TaskEvent::Forget).await {
            Ok(_) | Err(ApplyError::Refused { .. } | ApplyError::NotFound) => Ok(()),
            Err(ApplyError::Store(error)) => Err(PollError::Unavailable(error)),
        }
    }

    /// Mends what a look at the record shows to be broken. Never fails: the record was read, and that is an answer.
    pub(crate) async fn recover(&self, task: Task) -> Task {
        self.note_on_span(&task);
        let now = self.now();
        let event = match self.remedy(&task, now) {
            Remedy::None => return task,
            Remedy::TimeOut => TaskEvent::TimeOut,
            Remedy::GiveUp => TaskEvent::GiveUp,
            Remedy::Nudge if planted(Fault::RecoveryWithoutBound) => TaskEvent::Nudge { not_since: now.plus_ms(1) },
            Remedy::Nudge => TaskEvent::Nudge { not_since: now.minus_ms(self.settings.resend_ms) },
        };
        match self.store().apply(&task.key(), &event, now).await {
            Ok(mended) => {
                tracing::info!(task_id = %task.id, attempt = task.attempt, ?event, "a poll recovered the task");
                self.observer().recovered(&mended);
                if mended.has_ended() {
                    self.observer().ended(&mended);
                } else {
                    // A failure is logged; the record remembers this try, and the next poll after the bound repeats it.
                    let _logged = self.send(&mended, 0).await;
                }
                mended
            }
            Err(ApplyError::Refused { current, .. }) => *current,
            Err(ApplyError::NotFound | ApplyError::Store(_)) => task,
        }
    }

    fn remedy(&self, task: &Task, now: Timestamp) -> Remedy {
        if task.has_ended() || planted(Fault::RecoveryNever) {
            return Remedy::None;
        }
        if now >= task.deadline() {
            return Remedy::TimeOut;
        }
        let due = match &task.state {
            State::Queued => task.sent_at,
            State::Running { lease } if now >= lease.until && task.is_on_last_try() => return Remedy::GiveUp,
            State::Running { lease } => lease.until.max(task.sent_at),
            State::Sleeping { until } | State::InputRequired { until: Some(until), .. } => (*until).max(task.sent_at),
            State::InputRequired { until: None, .. } => return Remedy::None,
            State::Completed { .. } | State::Failed { .. } | State::Cancelled => return Remedy::None,
        };
        if now >= due.plus_ms(self.settings.resend_ms) || planted(Fault::RecoveryWithoutBound) {
            Remedy::Nudge
        } else {
            Remedy::None
        }
    }
}
