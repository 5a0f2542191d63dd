//! The limits of running attempts, for workers that share no memory: those of an owner, and those of a tool and key
//! ([`FlowControl`]). An attempt takes its permits before its claim, and gives them back when it has ended.
//!
//! A limit decides when a task runs, and nothing else. A delivery that finds no permit is sent again, a little later,
//! and holds no worker meanwhile. A permit whose worker died is free when its attempt could no longer run.
//!
//! The owner's permit is taken first: the worker knows the owner without a read. A task with flow control refuses the
//! claim of a worker that has no permits for it, and the refusal says which it needs. So no other task pays for that.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use longhaul_core::ports::{ApplyError, AttemptPermit, AttemptPermits, Message, StoreError, Taken};
use longhaul_core::{Admission, FlowControl, PermitGroup, Refusal, State, Task, TaskKey, Timestamp, Turn};

use super::Work;
use crate::limits::{FLOW_WAIT_MS, FLOW_WAIT_MS_MAX};
use crate::settings::next_wait_ms;
use crate::{AttemptLimit, Disposition, Engine, Settings};

/// The permit of an attempt, or of a task that is about to have one.
struct Permit<'a> {
    permits: &'a dyn AttemptPermits,
    permit: AttemptPermit,
    max: u32,
    holder: Holder,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    Myself,
    /// It is not known: the store did not answer.
    Unknown,
    /// Another attempt of the task. Only the claim knows whether that one has ended.
    Earlier(AttemptPermit),
}

impl Engine {
    /// Claims the task of a delivery and runs its attempt, if there are permits for it.
    pub(super) async fn run_in_permits(&self, work: Work<'_>) -> Disposition {
        let mut permits = Vec::new();
        let ended = AssertUnwindSafe(self.claim_and_run(&mut permits, work)).catch_unwind().await;
        for permit in &permits {
            self.give_permit_back(permit).await;
        }
        match ended {
            Ok(Ok(disposition) | Err(disposition)) => disposition,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    async fn claim_and_run<'a>(
        &'a self,
        permits: &mut Vec<Permit<'a>>,
        work: Work<'_>,
    ) -> Result<Disposition, Disposition> {
        if let Some(limit) = &self.attempt_limit {
            let (group, until) = (PermitGroup::Owner(work.delivery.message.task.owner), self.owners_until(limit, work));
            self.take_permit(permits, &*limit.permits, (group, limit.attempts_max, until), (work, None)).await?;
        }
        let task = match self.claim(work, Admission::Free).await {
            Err(ApplyError::Refused { current, why: Refusal::NeedsPermits }) => {
                self.take_for_flow(permits, &current, work).await?;
                self.claim(work, Admission::Permitted).await
            }
            claimed => claimed,
        };
        let task = match task {
            Ok(task) => task,
            Err(error) => {
                if let ApplyError::Refused { current, why: Refusal::Ended | Refusal::PastDeadline } = &error {
                    self.take_offered(permits, current, work).await?;
                }
                return Err(self.not_claimed(work, error).await);
            }
        };
        // From a lease after the request on, another attempt may take over the permit and give it back. Then another
        // task may have it.
        let is_late = |permit: &Permit<'_>| self.now() >= permit.permit.since.plus_ms(self.settings.lease_ms);
        if permits.iter().any(|permit| permit.holder != Holder::Unknown && is_late(permit)) {
            return Err(self.release_before_its_attempt(&task).await);
        }
        for permit in &mut *permits {
            self.take_over_permit(permit, &task).await?;
        }
        Ok(self.run_claimed(task, work).await)
    }

    /// Takes the permits that the flow control of a task asks for.
    async fn take_for_flow<'a>(
        &'a self,
        permits: &mut Vec<Permit<'a>>,
        task: &Task,
        work: Work<'_>,
    ) -> Result<(), Disposition> {
        let Some(flow) = &task.flow else { return Ok(()) };
        let Some(store) = self.permits.as_deref() else {
            tracing::error!(task_id = %task.id, tool = task.tool,
                "this worker has no store of permits: the task is left for a worker that has one");
            return Err(self.wait_for_a_permit(work, Some(task)).await);
        };
        if let Some(concurrency) = flow.concurrency {
            let wanted = (flow.running(&task.tool), concurrency, self.running_until(flow, work));
            self.take_permit(permits, store, wanted, (work, Some(task))).await?;
        }
        if let Some(rate) = flow.rate.filter(|_| task.started_at.is_none()) {
            let wanted = (flow.begun(&task.tool), rate.max, self.now().plus_ms(rate.per_ms));
            self.take_permit(permits, store, wanted, (work, Some(task))).await?;
        }
        Ok(())
    }

    /// Takes the permit of a task that ended while it waited, if this message offers it one. After the delivery, the
    /// permit is offered to the next task.
    async fn take_offered<'a>(
        &'a self,
        permits: &mut Vec<Permit<'a>>,
        ended: &Task,
        work: Work<'_>,
    ) -> Result<(), Disposition> {
        let flow = ended.flow.as_ref().filter(|_| work.delivery.message.is_extra());
        if let (Some(flow), Some(store)) = (flow, self.permits.as_deref())
            && let Some(concurrency) = flow.concurrency
        {
            let until = self.now().plus_ms(self.settings.lease_ms);
            self.take_permit(permits, store, (flow.running(&ended.tool), concurrency, until), (work, None)).await?;
        }
        Ok(())
    }

    /// Takes a permit, or returns what to do with the message. The task is known if its claim was refused.
    async fn take_permit<'a>(
        &self,
        permits: &mut Vec<Permit<'a>>,
        store: &'a dyn AttemptPermits,
        (group, max, until): (PermitGroup, u32, Timestamp),
        (work, task): (Work<'_>, Option<&Task>),
    ) -> Result<(), Disposition> {
        let since = self.now();
        let turn = match (group, task) {
            (PermitGroup::Running(_), Some(task)) => {
                let priority = task.flow.as_ref().map_or(0, |flow| flow.priority);
                Some(Turn { priority, since: waits_since(task) })
            }
            _ => None,
        };
        let permit = AttemptPermit { group, task: work.delivery.message.task, lease: work.lease, since, until, turn };
        let holder = match (store.take(&permit, max, since).await, group) {
            (Ok(Taken::Permit), _) => Holder::Myself,
            // The task has not begun since it was admitted.
            (Ok(Taken::Held(_)), PermitGroup::Begun(_)) => Holder::Myself,
            (Ok(Taken::Held(held)), PermitGroup::Owner(_) | PermitGroup::Running(_)) => {
                // Another attempt that took it a moment ago may be about to claim the task.
                let claimed_by = held.since.plus_ms(self.settings.lease_ms.saturating_mul(2));
                if claimed_by > since {
                    return Err(Disposition::RetryAfter { after_ms: claimed_by.since_ms(since) });
                }
                Holder::Earlier(held)
            }
            (Ok(Taken::Full), _) => return Err(self.wait_for_a_permit(work, task).await),
            (Err(error), PermitGroup::Owner(_)) => {
                log_unknown(&permit, &error);
                Holder::Unknown
            }
            // The author's limit protects something that more attempts would break.
            (Err(error), PermitGroup::Running(_) | PermitGroup::Begun(_)) => {
                log_uncounted(&permit, &error);
                return Err(self.wait_for_a_permit(work, task).await);
            }
        };
        permits.push(Permit { permits: store, permit, max, holder });
        Ok(())
    }

    /// Takes over the permit that an earlier attempt of the claimed task has.
    async fn take_over_permit(&self, permit: &mut Permit<'_>, task: &Task) -> Result<(), Disposition> {
        let Holder::Earlier(held) = permit.holder else { return Ok(()) };
        match permit.permits.take_over(&permit.permit, &held, permit.max, self.now()).await {
            Ok(Taken::Permit) => permit.holder = Holder::Myself,
            // The other attempt gave its permit back meanwhile, and another task has it; or a third attempt of this
            // task has it.
            Ok(Taken::Full | Taken::Held(_)) => return Err(self.release_before_its_attempt(task).await),
            Err(error) => {
                permit.holder = Holder::Unknown;
                if let PermitGroup::Running(_) = permit.permit.group {
                    log_uncounted(&permit.permit, &error);
                    return Err(self.release_before_its_attempt(task).await);
                }
                log_unknown(&permit.permit, &error);
            }
        }
        Ok(())
    }

    /// Nothing was run: the task continues in another attempt.
    async fn release_before_its_attempt(&self, task: &Task) -> Disposition {
        self.give_back_unrun(task, self.permit_wait_ms(0)).await
    }

    async fn give_permit_back(&self, permit: &Permit<'_>) {
        let Permit { permits, permit, holder, .. } = permit;
        match (holder, permit.group) {
            // What a rate counts is that the task has begun.
            (Holder::Earlier(_), _) | (_, PermitGroup::Begun(_)) => return,
            (Holder::Myself | Holder::Unknown, PermitGroup::Owner(_) | PermitGroup::Running(_)) => {}
        }
        match self.with_retry(|| permits.give_back(permit, self.now())).await {
            Ok(Some(next)) => self.send_permit_message(next).await,
            Ok(None) => {}
            Err(error) => {
                let (task_id, until, error) = (permit.task.id, permit.until.as_ms(), &error as &dyn std::error::Error);
                tracing::warn!(%task_id, until, error,
                    "the permit of an attempt was not given back; it is free when it expires");
            }
        }
    }

    /// Sends a message to the task that waits for a permit. It has the tool of this delivery, and so its queue. If the
    /// message is lost, the task looks for a permit itself.
    async fn send_permit_message(&self, next: TaskKey) {
        if let Err(error) = self.queue().send(&Message::extra(next), 0).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(task_id = %next.id, error,
                "the message about a free permit was not sent; the task looks for one later");
        }
    }

    /// Sends the message again, so that waiting does not count as a delivery, and only then lets the delivered one be
    /// deleted. One that was delivered before is kept instead. A task that would not be claimed anyway does not wait.
    async fn wait_for_a_permit(&self, work: Work<'_>, task: Option<&Task>) -> Disposition {
        let (message, now) = (&work.delivery.message, self.now());
        if message.is_extra() {
            return Disposition::Acknowledge;
        }
        let found = match task {
            Some(task) => Ok(Some(task.clone())),
            None => self.store().get(&message.task, now).await,
        };
        let (waited_ms, left_ms) = match found {
            Ok(None) => return Disposition::Acknowledge,
            Ok(Some(task)) => match task.apply(&self.claim_of(work, Admission::Permitted), now) {
                Err(why) => return self.refused_claim(&task, why, work).await,
                Ok(_) => (now.since_ms(waits_since(&task)), task.deadline().since_ms(now)),
            },
            Err(error) => {
                let (task_id, error) = (message.task.id, &error as &dyn std::error::Error);
                tracing::warn!(%task_id, error, "a task that waits could not be read");
                (0, u64::MAX)
            }
        };
        let (task_id, delay_ms) = (message.task.id, self.permit_wait_ms(waited_ms).min(left_ms));
        // A long wait has many tries: one of them is news.
        if waited_ms < self.permit_wait_ms_first() {
            tracing::info!(%task_id, "as many attempts run as may; the task waits for a permit");
        } else {
            tracing::debug!(%task_id, waited_ms, delay_ms, "the task still waits for a permit");
        }
        if work.delivery.receives > 1 {
            // A worker that died, or could not delete it, may have sent one in its permit already: copies would be
            // copied at every try, and be more and more.
            return Disposition::RetryAfter { after_ms: delay_ms };
        }
        self.send_later(message, delay_ms).await
    }

    /// How long a task waits at first before it looks for a permit again.
    fn permit_wait_ms_first(&self) -> u64 {
        self.attempt_limit.as_ref().map_or(FLOW_WAIT_MS, |limit| limit.wait_ms)
    }

    fn permit_wait_ms(&self, waited_ms: u64) -> u64 {
        let longest_ms = self.attempt_limit.as_ref().map_or(FLOW_WAIT_MS_MAX, |limit| limit.wait_ms_max);
        next_wait_ms(waited_ms, (self.permit_wait_ms_first(), longest_ms), &*self.ports.ids)
    }

    /// When the attempt of an owner can no longer run.
    fn owners_until(&self, limit: &AttemptLimit, work: Work<'_>) -> Timestamp {
        self.attempt_until(work).unwrap_or_else(|| self.now().plus_ms(limit.attempt_ms))
    }

    /// When the attempt of a tool can no longer run.
    fn running_until(&self, flow: &FlowControl, work: Work<'_>) -> Timestamp {
        let Settings { lease_ms, stop_grace_ms, .. } = self.settings;
        let own_end = self.now().plus_ms(flow.attempt_ms).plus_ms(lease_ms).plus_ms(stop_grace_ms);
        self.attempt_until(work).map_or(own_end, |until| until.min(own_end))
    }

    /// When every attempt in this worker has ended, if that is known.
    fn attempt_until(&self, work: Work<'_>) -> Option<Timestamp> {
        // It begins after its claim, which takes no longer than a lease.
        let own_end = self.settings.attempt_ms_max.map(|ms| self.now().plus_ms(ms).plus_ms(self.settings.lease_ms));
        own_end.into_iter().chain(work.signals.until).min()
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

/// An attempt that should run is worth more than an exact limit of its owner.
fn log_unknown(permit: &AttemptPermit, error: &StoreError) {
    let (task_id, error) = (permit.task.id, error as &dyn std::error::Error);
    tracing::warn!(%task_id, error, "the running attempts of the owner could not be counted; the attempt runs");
}

fn log_uncounted(permit: &AttemptPermit, error: &StoreError) {
    let (task_id, error) = (permit.task.id, error as &dyn std::error::Error);
    tracing::warn!(%task_id, error, "the permits of the tool could not be counted; the task waits");
}
