//! Cleaning up a task that has ended, and not with success.

use std::pin::pin;

use futures::future::{Either, select};
use longhaul_core::ports::ApplyError;
use longhaul_core::{Cleanup, CleanupEnd, Lease, Refusal, Task, TaskEvent, TaskKey, Timestamp, limits};

use super::{CleanupBy, Work};
use crate::{Cleaned, Disposition, Ended, Engine, LoadError};

impl Engine {
    /// Cleans up if the recorded task needs it now. Returns what to do with the message, which is `otherwise` if there
    /// is nothing to clean.
    pub(super) async fn clean_if_needed(
        &self,
        key: &TaskKey,
        comes: CleanupBy,
        work: Work<'_>,
        otherwise: Disposition,
    ) -> Disposition {
        let now = self.now();
        let task = match self.with_retry(|| self.store().get(key, now)).await {
            Ok(Some(task)) if task.needs_cleanup() => task,
            Ok(_) => return otherwise,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(task_id = %key.id, error, "a task that may need cleanup could not be read");
                return self.later();
            }
        };
        let due_at = self.cleanup_due_at(&task);
        match comes {
            CleanupBy::SameWorker(attempt) if attempt == task.attempt && self.has_time_to_clean(work) => {
                self.clean(&task, work).await
            }
            CleanupBy::SameWorker(_) | CleanupBy::AnyWorker if now >= due_at => self.clean(&task, work).await,
            CleanupBy::SameWorker(_) | CleanupBy::AnyWorker => self.replace_message(&task, due_at.since_ms(now)).await,
        }
    }

    /// Whether the worker lives for a whole try. If not, another one begins it, rather than that this one is cut short.
    fn has_time_to_clean(&self, work: Work<'_>) -> bool {
        let over_at = self.now().plus_ms(self.settings.cleanup_ms);
        work.signals.until.is_none_or(|killed_at| over_at <= killed_at)
    }

    /// The time after which no attempt of the task runs its tool. A worker that held the task may not know of its end
    /// before its lease has expired, and clocks differ. So others wait for a lease at least.
    pub(crate) fn cleanup_due_at(&self, task: &Task) -> Timestamp {
        let ended_at = task.ended_at.unwrap_or(task.updated_at);
        task.held_until.map_or(ended_at, |until| until.max(ended_at.plus_ms(self.settings.lease_ms)))
    }

    async fn clean(&self, task: &Task, work: Work<'_>) -> Disposition {
        let now = self.now();
        let until = now.plus_ms(self.settings.cleanup_ms);
        let until = work.signals.until.map_or(until, |killed_at| until.min(killed_at));
        let lease = Lease { until, token: self.ports.ids.lease_token() };
        let key = task.key();
        let begun = match self.apply_with_retry(&key, &TaskEvent::BeginCleanup { lease }).await {
            Ok(begun) => begun,
            // The answer to an earlier try of this write was lost.
            Err(ApplyError::Refused { current, .. }) if current.cleanup == Cleanup::GivenUp => *current,
            Err(ApplyError::Refused { why: Refusal::Leased { until }, .. }) => {
                return Disposition::RetryAfter { after_ms: until.since_ms(now).max(1) };
            }
            Err(error) => return self.not_applied(&key, error, self.settings.retry_ms),
        };
        if begun.cleanup == Cleanup::GivenUp {
            tracing::error!(task_id = %key.id, tool = begun.tool, "cleaning up failed too often, and is given up");
            self.observer().cleanup_given_up(&begun);
            return Disposition::Acknowledge;
        }
        tracing::info!(task_id = %key.id, tool = begun.tool, "cleaning up begins");
        let cleaned = self.run_cleanup(&begun, lease, work).await;
        self.conclude_cleanup(&begun, lease, cleaned).await
    }

    /// Runs the author's code, at most until the lease has expired.
    async fn run_cleanup(&self, task: &Task, lease: Lease, work: Work<'_>) -> Cleaned {
        let left_ms = lease.until.since_ms(self.now());
        if let Err(error) = self.queue().extend(&work.delivery.receipt, left_ms).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(task_id = %task.id, error, "the message was not extended");
        }
        let ended = match self.read_ended(task, lease).await {
            Ok(ended) => ended,
            Err(error) => return Cleaned::Failed { reason: error.to_string() },
        };
        let cleanup = pin!(work.runner.clean(&ended));
        // The time comes first: a worker that was frozen begins no compensation that the next worker has run.
        match select(self.ports.clock.sleep_ms(lease.until.since_ms(self.now())), cleanup).await {
            Either::Left(_) => Cleaned::Failed { reason: "it took too long".to_owned() },
            Either::Right((cleaned, _)) => cleaned,
        }
    }

    async fn read_ended(&self, task: &Task, lease: Lease) -> Result<Ended, LoadError> {
        let key = task.key();
        let request = self.load(&key, &task.request).await?;
        let journal = self.with_retry(|| self.store().journal(&key)).await.map_err(LoadError::Unavailable)?;
        Ok(Ended::new(self.clone(), task.clone(), request, journal, lease.until))
    }

    async fn conclude_cleanup(&self, task: &Task, lease: Lease, cleaned: Cleaned) -> Disposition {
        let (end, again_ms) = match cleaned {
            Cleaned::Done => {
                tracing::info!(task_id = %task.id, tool = task.tool, "what the task left is clean");
                (CleanupEnd::Done, None)
            }
            Cleaned::Failed { reason } => self.after_a_failed_cleanup(task, &reason),
            Cleaned::Unfinished { reason } => self.after_an_unfinished_cleanup(task, &reason),
            Cleaned::Waits { until } => {
                let after_ms = until.since_ms(self.now());
                tracing::info!(task_id = %task.id, tool = task.tool, after_ms, "cleaning up waits");
                (CleanupEnd::Postponed { again_at: until }, Some(after_ms))
            }
            Cleaned::GivenUp { reason } => {
                tracing::error!(task_id = %task.id, tool = task.tool, reason, "compensations failed, and are given up");
                (CleanupEnd::GivenUp, None)
            }
            Cleaned::NoSuchTool => {
                let after_ms = self.settings.lease_ms;
                tracing::warn!(task_id = %task.id, tool = task.tool, after_ms, "this worker cannot clean up after the \
                    tool");
                (CleanupEnd::Postponed { again_at: self.now().plus_ms(after_ms) }, Some(after_ms))
            }
            Cleaned::NoMemory => {
                let after_ms = self.memory_wait_ms();
                tracing::info!(task_id = %task.id, tool = task.tool, after_ms, "there is no memory for cleaning up");
                (CleanupEnd::Postponed { again_at: self.now().plus_ms(after_ms) }, Some(after_ms))
            }
        };
        let event = TaskEvent::EndCleanup { token: lease.token, end };
        match (self.apply_with_retry(&task.key(), &event).await, again_ms) {
            (Ok(task), None) => {
                if task.cleanup == Cleanup::GivenUp {
                    self.observer().cleanup_given_up(&task);
                }
                Disposition::Acknowledge
            }
            (Ok(task), Some(again_ms)) => self.replace_message(&task, again_ms).await,
            (Err(error), _) => self.not_applied(&task.key(), error, self.settings.cleanup_ms),
        }
    }

    /// The resource may be away for hours. An error is tried again until then, and does not count as a try.
    fn after_an_unfinished_cleanup(&self, task: &Task, reason: &str) -> (CleanupEnd, Option<u64>) {
        let since_ms = self.since_end_ms(task);
        if since_ms >= limits::CLEANUP_MS_MAX {
            return self.after_a_failed_cleanup(task, reason);
        }
        let again_ms = (since_ms / 2).min(limits::CLEANUP_PAUSE_MS_MAX).max(self.settings.retry_ms);
        tracing::warn!(task_id = %task.id, tool = task.tool, again_ms, reason, "cleaning up failed");
        (CleanupEnd::Postponed { again_at: self.now().plus_ms(again_ms) }, Some(again_ms))
    }

    fn after_a_failed_cleanup(&self, task: &Task, reason: &str) -> (CleanupEnd, Option<u64>) {
        let tries = match task.cleanup {
            Cleanup::Armed { tries, .. } => tries,
            Cleanup::None | Cleanup::Done | Cleanup::GivenUp => 0,
        };
        let again_ms = self.settings.retry_delay_ms(tries.saturating_sub(1));
        tracing::warn!(task_id = %task.id, tool = task.tool, tries, reason, "cleaning up failed");
        (CleanupEnd::Failed { again_at: self.now().plus_ms(again_ms) }, Some(again_ms))
    }

    pub(crate) fn since_end_ms(&self, task: &Task) -> u64 {
        self.now().since_ms(task.ended_at.unwrap_or(task.updated_at))
    }
}
