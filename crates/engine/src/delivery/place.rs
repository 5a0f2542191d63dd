//! The limit of running legs per owner, for workers that share no memory: a leg takes a place before its claim, and
//! gives it back when it has ended.
//!
//! The limit decides when a task runs, and nothing else. A delivery that finds no place is sent again, a little later;
//! a place whose worker died is free when its leg could no longer run; and if the places cannot be reached, the leg
//! runs.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use longhaul_core::ports::{LegPlace, StoreError, Taken};
use longhaul_core::{State, Task, Timestamp};

use super::Work;
use crate::{Disposition, Engine, LegLimit, WorkerSignals};

impl Engine {
    /// Runs a delivery's leg if its owner may run one more.
    pub(super) async fn run_in_a_place(&self, limit: &LegLimit, work: Work<'_>) -> Disposition {
        let (since, until) = (self.now(), self.place_until(limit, work.signals));
        let place = LegPlace { task: work.delivery.message.task, lease: work.lease, since, until };
        match limit.places.take(&place, limit.legs_max, since).await {
            Ok(Taken::Place) => self.giving_back(limit, &place, self.run_if_claimed_in_time(limit, &place, work)).await,
            Ok(Taken::Held(held)) => self.run_in_place_of_another(limit, &place, &held, work).await,
            Ok(Taken::Full) => self.wait_for_a_place(limit, work).await,
            Err(error) => {
                log_unknown(&place, &error);
                self.giving_back(limit, &place, self.run_leg(work)).await
            }
        }
    }

    /// Runs the leg of a task of which another leg has the place `held`. Only the claim knows whether that leg is over:
    /// if not, the place is not this delivery's, and stays.
    async fn run_in_place_of_another(
        &self,
        limit: &LegLimit,
        place: &LegPlace,
        held: &LegPlace,
        work: Work<'_>,
    ) -> Disposition {
        // Whoever took it a moment ago may be about to claim the task.
        let claimed_by = held.since.plus_ms(self.settings.lease_ms.saturating_mul(2));
        if claimed_by > self.now() {
            return Disposition::RetryAfter { after_ms: claimed_by.since_ms(self.now()) };
        }
        let task = match self.claim_in_time(limit, place, work).await {
            Ok(task) => task,
            Err(disposition) => return disposition,
        };
        match limit.places.take_over(place, held, limit.legs_max, self.now()).await {
            Ok(Taken::Place) => {}
            // The other leg gave its place back meanwhile, and another task has it; or a third leg of this task has it.
            Ok(Taken::Full | Taken::Held(_)) => return self.release_before_its_leg(limit, &task).await,
            Err(error) => log_unknown(place, &error),
        }
        self.giving_back(limit, place, self.run_claimed(task, work)).await
    }

    async fn run_if_claimed_in_time(&self, limit: &LegLimit, place: &LegPlace, work: Work<'_>) -> Disposition {
        match self.claim_in_time(limit, place, work).await {
            Ok(task) => self.run_claimed(task, work).await,
            Err(disposition) => disposition,
        }
    }

    /// The claimed task, or what to do with the message. A claim that is answered more than a lease after the place was
    /// asked for counts as none: from then on, another leg may take over the place, give it back, and another task may
    /// have it.
    async fn claim_in_time(&self, limit: &LegLimit, place: &LegPlace, work: Work<'_>) -> Result<Task, Disposition> {
        let task = self.claim(work).await?;
        let is_late = self.now() >= place.since.plus_ms(self.settings.lease_ms);
        if is_late { Err(self.release_before_its_leg(limit, &task).await) } else { Ok(task) }
    }

    /// Nothing was run: the task goes on in another leg.
    async fn release_before_its_leg(&self, limit: &LegLimit, task: &Task) -> Disposition {
        self.give_back_unrun(task, limit.next_wait_ms(0, &*self.ports.ids)).await
    }

    /// Gives the place back when `leg` is over, also by a panic.
    async fn giving_back(
        &self,
        limit: &LegLimit,
        place: &LegPlace,
        leg: impl Future<Output = Disposition>,
    ) -> Disposition {
        let ended = AssertUnwindSafe(leg).catch_unwind().await;
        if let Err(error) = self.with_retry(|| limit.places.give_back(place)).await {
            let (task_id, until, error) = (place.task.id, place.until.as_ms(), &error as &dyn std::error::Error);
            tracing::warn!(%task_id, until, error,
                "the place of a leg was not given back; it is free when its time is over");
        }
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Sends the message again, so that waiting does not count as a delivery, and only then lets the delivered one be
    /// deleted. One that was delivered before is kept instead. A task that would not be claimed anyway does not wait.
    async fn wait_for_a_place(&self, limit: &LegLimit, work: Work<'_>) -> Disposition {
        let (message, now) = (&work.delivery.message, self.now());
        let waited_ms = match self.store().get(&message.task, now).await {
            Ok(None) => return Disposition::Acknowledge,
            Ok(Some(task)) => match task.apply(&self.claim_of(work), now) {
                Err(why) => return self.refused_claim(&task, why, work).await,
                Ok(_) => now.since_ms(waits_since(&task)),
            },
            Err(error) => {
                let (task_id, error) = (message.task.id, &error as &dyn std::error::Error);
                tracing::warn!(%task_id, error, "a task that waits could not be read");
                0
            }
        };
        let delay_ms = limit.next_wait_ms(waited_ms, &*self.ports.ids);
        // A long wait has many tries: one of them is news.
        if waited_ms < limit.wait_ms {
            tracing::info!(task_id = %message.task.id, "the owner runs as many legs as it may; the task waits");
        } else {
            tracing::debug!(task_id = %message.task.id, waited_ms, delay_ms,
                "the task still waits for a leg of its owner");
        }
        if work.delivery.receives > 1 {
            // A worker that died, or could not delete it, may have sent one in its place already: copies would be
            // copied at every try, and be more and more.
            return Disposition::RetryAfter { after_ms: delay_ms };
        }
        self.send_later(message, delay_ms).await
    }

    /// When the leg can no longer run.
    fn place_until(&self, limit: &LegLimit, signals: &WorkerSignals) -> Timestamp {
        let now = self.now();
        // It begins after its claim, which takes no longer than a lease.
        let own_end = self.settings.leg_ms_max.map(|ms| now.plus_ms(ms).plus_ms(self.settings.lease_ms));
        own_end.into_iter().chain(signals.until).min().unwrap_or_else(|| now.plus_ms(limit.leg_ms))
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

/// A leg that should run is worth more than an exact limit.
fn log_unknown(place: &LegPlace, error: &StoreError) {
    let (task_id, error) = (place.task.id, error as &dyn std::error::Error);
    tracing::warn!(%task_id, error, "the running legs of the owner could not be counted; the leg runs");
}
