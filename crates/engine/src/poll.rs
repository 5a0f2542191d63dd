//! Requests of clients about a task, except answers: poll, list, cancel, extend its retention, forget it.

use longhaul_core::audit::{Entry as AuditEntry, Event, Outcome};
use longhaul_core::ports::{ApplyError, Page};
use longhaul_core::{Entry, OwnerId, Status, Task, TaskEvent, TaskFilter, TaskId, TaskKey, Timestamp, limits};

use crate::{Engine, PollError};

/// The outcome of a request to cancel a task.
#[derive(Clone, Debug)]
pub enum Cancelled {
    /// It is cancelled now.
    Now(Task),
    /// It had ended.
    Not(Task),
}

impl Engine {
    /// The task as it is. If no worker has it although one should, the poll recovers it. All pollers together
    /// do so at most once per [`resend_ms`](crate::Settings::resend_ms), and less often each time.
    pub async fn poll(&self, key: &TaskKey) -> Result<Task, PollError> {
        let found = self.store().get(key, self.now()).await.map_err(self.unavailable(PollError::Unavailable))?;
        let task = found.ok_or(PollError::NotFound)?;
        Ok(self.recover(task).await)
    }

    /// One page of an owner's tasks, newest first, as they are recorded. `limit` is clamped to 1 and
    /// [`limits::PAGE_MAX`].
    pub async fn list(&self, owner: &OwnerId, before: Option<TaskId>, limit: usize) -> Result<Page, PollError> {
        let limit = limit.clamp(1, limits::PAGE_MAX);
        self.store().list(owner, before, limit, self.now()).await.map_err(self.unavailable(PollError::Unavailable))
    }

    /// The same of those tasks that `filter` takes. A page may be short, and even empty, where
    /// [`limits::CHOSEN_FROM_MAX`] tasks had to be read for it: its `next` says whether there may be more.
    pub async fn list_filtered(
        &self,
        owner: &OwnerId,
        filter: &TaskFilter,
        before: Option<TaskId>,
        limit: usize,
    ) -> Result<Page, PollError> {
        let limit = limit.clamp(1, limits::PAGE_MAX);
        let page = self.store().list_filtered(owner, filter, before, limit, self.now()).await;
        page.map_err(self.unavailable(PollError::Unavailable))
    }

    /// The same of the tasks of all owners, for operators; `None` if the store does not have this list.
    pub async fn list_of_all_owners(
        &self,
        filter: &TaskFilter,
        before: Option<TaskId>,
        limit: usize,
    ) -> Result<Option<Page>, PollError> {
        let limit = limit.clamp(1, limits::PAGE_MAX);
        let page = self.store().list_of_all_owners(filter, before, limit, self.now()).await;
        page.map_err(self.unavailable(PollError::Unavailable))
    }

    /// All entries of a task's journal, in no particular order. They are the owner's, the process that asks: the caller
    /// has polled the task.
    pub async fn journal(&self, key: &TaskKey) -> Result<Vec<Entry>, PollError> {
        self.store().journal(key).await.map_err(self.unavailable(PollError::Unavailable))
    }

    /// Ends the task as `cancelled`; its worker learns of it with the next heartbeat. A task that has already ended
    /// stays as it is, which is not an error.
    pub async fn cancel(&self, key: &TaskKey) -> Result<Task, PollError> {
        let began_at = self.now();
        let cancelled = self.end_as_cancelled(key).await;
        audit_cancel(key, began_at, &cancelled);
        cancelled
    }

    /// Does what [`Engine::cancel`] does, for a caller who wants to know whether the task had ended.
    pub async fn cancel_unfinished(&self, key: &TaskKey) -> Result<Cancelled, PollError> {
        let began_at = self.now();
        let found = self.poll(key).await;
        let had_ended = found.as_ref().is_ok_and(Task::has_ended);
        let task = match found {
            Ok(_) if !had_ended => self.end_as_cancelled(key).await,
            ended_or_not_found => ended_or_not_found,
        };
        audit_cancel(key, began_at, &task);
        task.map(|task| match task.status() {
            Status::Cancelled if !had_ended => Cancelled::Now(task),
            _ => Cancelled::Not(task),
        })
    }

    async fn end_as_cancelled(&self, key: &TaskKey) -> Result<Task, PollError> {
        match self.apply_with_retry(key, &TaskEvent::Cancel).await {
            Ok(task) => {
                self.note_on_span(&task);
                self.send_for_cleanup(&task).await;
                Ok(task)
            }
            Err(error) => self.unchanged(error),
        }
    }

    /// Retains the result for at least `retention_ms` after the end. Nothing is written if it is retained that long
    /// anyway.
    pub async fn extend_retention(&self, key: &TaskKey, retention_ms: u64) -> Result<Task, PollError> {
        let task = self.poll(key).await?;
        if task.terms.retention_ms >= retention_ms {
            return Ok(task);
        }
        self.apply_with_retry(key, &TaskEvent::ExtendRetention { retention_ms })
            .await
            .or_else(|error| self.unchanged(error))
    }

    /// Forgets a task that has ended: from now on it is "not found". A task that has not ended stays.
    pub async fn forget(&self, key: &TaskKey) -> Result<(), PollError> {
        match self.apply_with_retry(key, &TaskEvent::Forget).await.or_else(|error| self.unchanged(error)) {
            Ok(_) | Err(PollError::NotFound) => Ok(()),
            Err(PollError::Unavailable(error)) => Err(PollError::Unavailable(error)),
        }
    }

    /// The answer to the client after a write that was not applied. A refusal leaves the task as it is, which is not an
    /// error.
    fn unchanged(&self, error: ApplyError) -> Result<Task, PollError> {
        match error {
            ApplyError::Refused { current, .. } => Ok(*current),
            ApplyError::NotFound => Err(PollError::NotFound),
            ApplyError::Store(error) => Err(self.unavailable(PollError::Unavailable)(error)),
        }
    }
}

/// A task was cancelled by a request that began at `began_at`, or was not.
fn audit_cancel(key: &TaskKey, began_at: Timestamp, cancelled: &Result<Task, PollError>) {
    let (outcome, tool) = match cancelled {
        Ok(task) => (of_cancelled(task, began_at), Some(task.tool.as_str())),
        Err(PollError::NotFound) => (Outcome::NotFound, None),
        Err(PollError::Unavailable(_)) => (Outcome::Unavailable, None),
    };
    let entry = AuditEntry::new(Event::Cancel, outcome).task(key);
    tool.map_or(entry, |tool| entry.tool(tool)).log();
}

fn of_cancelled(task: &Task, began_at: Timestamp) -> Outcome {
    let ended_before = task.ended_at.is_some_and(|ended_at| ended_at < began_at);
    if task.status() == Status::Cancelled && !ended_before { Outcome::Done } else { Outcome::Unchanged }
}
