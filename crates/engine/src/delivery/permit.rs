//! The limit of running attempts per owner, for workers that share no memory. An attempt takes a permit before its
//! claim, and gives it back when it has ended.
//!
//! The limit decides when a task runs, and nothing else. A delivery that finds no permit is sent again, a little later.
//! A permit whose worker died is free when its attempt could no longer run. If the permits cannot be reached, the
//! attempt runs.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use longhaul_core::ports::{AttemptPermit, StoreError, Taken};
use longhaul_core::{State, Task, Timestamp};

use super::Work;
use crate::{AttemptLimit, Disposition, Engine, WorkerSignals};

impl Engine {
    /// Runs a delivery's attempt if its owner may run one more.
    pub(super) async fn run_in_a_permit(&self, limit: &AttemptLimit, work: Work<'_>) -> Disposition {
        let (since, until) = (self.now(), self.permit_until(limit, work.signals));
        let permit = AttemptPermit { task: work.delivery.message.task, lease: work.lease, since, until };
        match limit.permits.take(&permit, limit.attempts_max, since).await {
            Ok(Taken::Permit) => {
                self.giving_back(limit, &permit, self.run_if_claimed_in_time(limit, &permit, work)).await
            }
            Ok(Taken::Held(held)) => self.run_in_permit_of_another(limit, &permit, &held, work).await,
            Ok(Taken::Full) => self.wait_for_a_permit(limit, work).await,
            Err(error) => {
                log_unknown(&permit, &error);
                self.giving_back(limit, &permit, self.run_attempt(work)).await
            }
        }
    }

    /// Runs the attempt of a task of which another attempt has the permit `held`. Only the claim knows whether that
    /// attempt has ended: if not, the permit is not this delivery's, and stays.
    async fn run_in_permit_of_another(
        &self,
        limit: &AttemptLimit,
        permit: &AttemptPermit,
        held: &AttemptPermit,
        work: Work<'_>,
    ) -> Disposition {
        // Whoever took it a moment ago may be about to claim the task.
        let claimed_by = held.since.plus_ms(self.settings.lease_ms.saturating_mul(2));
        if claimed_by > self.now() {
            return Disposition::RetryAfter { after_ms: claimed_by.since_ms(self.now()) };
        }
        let task = match self.claim_in_time(limit, permit, work).await {
            Ok(task) => task,
            Err(disposition) => return disposition,
        };
        match limit.permits.take_over(permit, held, limit.attempts_max, self.now()).await {
            Ok(Taken::Permit) => {}
            // The other attempt gave its permit back meanwhile, and another task has it; or a third attempt of this
            // task has it.
            Ok(Taken::Full | Taken::Held(_)) => return self.release_before_its_attempt(limit, &task).await,
            Err(error) => log_unknown(permit, &error),
        }
        self.giving_back(limit, permit, self.run_claimed(task, work)).await
    }

    async fn run_if_claimed_in_time(
        &self,
        limit: &AttemptLimit,
        permit: &AttemptPermit,
        work: Work<'_>,
    ) -> Disposition {
        match self.claim_in_time(limit, permit, work).await {
            Ok(task) => self.run_claimed(task, work).await,
            Err(disposition) => disposition,
        }
    }

    /// The claimed task, or what to do with the message. A claim that is answered more than a lease after the
    /// request for the permit does not count. From then on, another attempt may take over the permit and give it back.
    /// Then another task may have it.
    async fn claim_in_time(
        &self,
        limit: &AttemptLimit,
        permit: &AttemptPermit,
        work: Work<'_>,
    ) -> Result<Task, Disposition> {
        let task = self.claim(work).await?;
        let is_late = self.now() >= permit.since.plus_ms(self.settings.lease_ms);
        if is_late { Err(self.release_before_its_attempt(limit, &task).await) } else { Ok(task) }
    }

    /// Nothing was run: the task continues in another attempt.
    async fn release_before_its_attempt(&self, limit: &AttemptLimit, task: &Task) -> Disposition {
        self.give_back_unrun(task, limit.next_wait_ms(0, &*self.ports.ids)).await
    }

    /// Gives the permit back when `attempt` has ended, also by a panic.
    async fn giving_back(
        &self,
        limit: &AttemptLimit,
        permit: &AttemptPermit,
        attempt: impl Future<Output = Disposition>,
    ) -> Disposition {
        let ended = AssertUnwindSafe(attempt).catch_unwind().await;
        if let Err(error) = self.with_retry(|| limit.permits.give_back(permit)).await {
            let (task_id, until, error) = (permit.task.id, permit.until.as_ms(), &error as &dyn std::error::Error);
            tracing::warn!(%task_id, until, error,
                "the permit of an attempt was not given back; it is free when it expires");
        }
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Sends the message again, so that waiting does not count as a delivery, and only then lets the delivered one be
    /// deleted. One that was delivered before is kept instead. A task that would not be claimed anyway does not wait.
    async fn wait_for_a_permit(&self, limit: &AttemptLimit, work: Work<'_>) -> Disposition {
        let (message, now) = (&work.delivery.message, self.now());
        let (waited_ms, left_ms) = match self.store().get(&message.task, now).await {
            Ok(None) => return Disposition::Acknowledge,
            Ok(Some(task)) => match task.apply(&self.claim_of(work), now) {
                Err(why) => return self.refused_claim(&task, why, work).await,
                Ok(_) => (now.since_ms(waits_since(&task)), task.deadline().since_ms(now)),
            },
            Err(error) => {
                let (task_id, error) = (message.task.id, &error as &dyn std::error::Error);
                tracing::warn!(%task_id, error, "a task that waits could not be read");
                (0, u64::MAX)
            }
        };
        let delay_ms = limit.next_wait_ms(waited_ms, &*self.ports.ids).min(left_ms);
        // A long wait has many tries: one of them is news.
        if waited_ms < limit.wait_ms {
            tracing::info!(task_id = %message.task.id, "the owner runs as many attempts as it may; the task waits");
        } else {
            tracing::debug!(task_id = %message.task.id, waited_ms, delay_ms,
                "the task still waits for an attempt of its owner");
        }
        if work.delivery.receives > 1 {
            // A worker that died, or could not delete it, may have sent one in its permit already: copies would be
            // copied at every try, and be more and more.
            return Disposition::RetryAfter { after_ms: delay_ms };
        }
        self.send_later(message, delay_ms).await
    }

    /// When the attempt can no longer run.
    fn permit_until(&self, limit: &AttemptLimit, signals: &WorkerSignals) -> Timestamp {
        let now = self.now();
        // It begins after its claim, which takes no longer than a lease.
        let own_end = self.settings.attempt_ms_max.map(|ms| now.plus_ms(ms).plus_ms(self.settings.lease_ms));
        own_end.into_iter().chain(signals.until).min().unwrap_or_else(|| now.plus_ms(limit.attempt_ms))
    }
}

/// Since when the task could have run.
fn waits_since(task: &Task) -> Timestamp {
    match &task.state {
        State::Sleeping { until } | State::InputRequired { until: Some(until), .. } => *until,
        State::Running { lease } => lease.until,
        State::Queued
        | State::InputRequired { until: None, .. }
        | State::Completed { .. }
        | State::Failed { .. }
        | State::Cancelled => task.updated_at,
    }
}

/// An attempt that should run is worth more than an exact limit.
fn log_unknown(permit: &AttemptPermit, error: &StoreError) {
    let (task_id, error) = (permit.task.id, error as &dyn std::error::Error);
    tracing::warn!(%task_id, error, "the running attempts of the owner could not be counted; the attempt runs");
}
