//! Running one delivery: claim the task, run an attempt, write how the attempt ended.

use longhaul_core::ports::{ApplyError, Delivery, Message, Purpose, StoreError};
use longhaul_core::spans::{Span, SpanName};
use longhaul_core::{
    Admission, AttemptOutcome, LeaseToken, PastAttempt, Refusal, State, Task, TaskEvent, Timestamp, TraceParent,
    WEBHOOK_DELIVERY_TOOL,
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use tracing::field::Empty;

use crate::attempt::Start;
use crate::{Attempt, Engine, ToolRunner, Woken};

mod clean;
mod conclude;
mod permit;
mod watch;

/// The next action for the delivery's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Delete it.
    Acknowledge,
    /// Keep it, and have it delivered again after this time in milliseconds.
    RetryAfter {
        /// How long to hide it.
        after_ms: u64,
    },
}

/// The signals of a worker's process.
#[derive(Clone, Debug, Default)]
pub struct WorkerSignals {
    /// When the worker is killed, as Lambda does at the function's timeout.
    pub until: Option<Timestamp>,
    /// Fires when the worker is asked to stop: its attempt ends at the next step boundary, or after a short grace
    /// period.
    pub stop: CancellationToken,
}

#[derive(Clone, Copy)]
struct Work<'a> {
    delivery: &'a Delivery,
    runner: &'a dyn ToolRunner,
    signals: &'a WorkerSignals,
    lease: LeaseToken,
}

/// The process that comes to an ended task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CleanupBy {
    /// The worker that ran this attempt, and has dropped its tool.
    SameWorker(u32),
    /// Any worker, which does not know whether an attempt still runs.
    AnyWorker,
}

impl Engine {
    /// Runs one delivery to its end: claims the task, runs the tool for one attempt, writes how the attempt ended.
    /// Never fails: every error leads to another delivery, or to the end of the task.
    pub async fn run_delivery(
        &self,
        delivery: &Delivery,
        runner: &dyn ToolRunner,
        signals: &WorkerSignals,
    ) -> Disposition {
        let message = &delivery.message;
        let span = tracing::info_span!(
            "delivery", task_id = %message.task.id, owner = %message.task.owner, attempt = Empty,
            receives = delivery.receives,
            trace = message.trace.as_ref().map(TraceParent::as_str)
        );
        if delivery.purpose == Purpose::Wake {
            return self.run_wake(delivery).instrument(span).await;
        }
        let work = Work { delivery, runner, signals, lease: self.ports.ids.lease_token() };
        self.run_in_permits(work).instrument(span).await
    }

    /// Wakes the task that a message from outside names.
    pub(crate) async fn run_wake(&self, delivery: &Delivery) -> Disposition {
        match self.wake(&delivery.message.task).await {
            Ok(Woken::Now | Woken::NotWaiting) => Disposition::Acknowledge,
            Err(error) => {
                let (task_id, error) = (delivery.message.task.id, &error as &dyn std::error::Error);
                tracing::warn!(%task_id, error, "a task could not be woken");
                self.later()
            }
        }
    }

    async fn run_claimed(&self, task: Task, work: Work<'_>) -> Disposition {
        let Work { delivery, runner, signals, lease: _ } = work;
        let began_at = self.now();
        tracing::Span::current().record("attempt", task.attempt);
        tracing::info!(task_id = %task.id, attempt = task.attempt, tool = task.tool, "an attempt begins");
        self.count_claim(&task, began_at);
        let (claimed, span) = (task.clone(), span_of(&task, began_at));
        let started = match self.cancel_if_parent_ended(&claimed).await {
            Some(cancelled) => Err(cancelled),
            None => self.start(task, span.trace(), signals).await,
        };
        let (disposition, has_succeeded) = match started {
            Ok(attempt) => {
                let end = self.watch(&attempt, delivery, runner, signals).await;
                let has_succeeded = end.is_success();
                if !has_succeeded && !end.is_followed_by_another() {
                    span.fail();
                }
                (self.conclude(&attempt, end).await, has_succeeded)
            }
            Err(disposition) => (disposition, false),
        };
        drop(span);
        self.observer().attempt_ended(&claimed, self.now().since_ms(began_at));
        match disposition {
            // If the task was cancelled just before its tool succeeded, its cleanup has a message of its own.
            Disposition::Acknowledge if claimed.cleanup.is_armed() && !has_succeeded => {
                // An attempt that died without a word may only have lost its lease, by a clock that is behind, and run
                // on.
                let comes = if claimed.follows_a_dead_attempt() {
                    CleanupBy::AnyWorker
                } else {
                    CleanupBy::SameWorker(claimed.attempt)
                };
                self.clean_if_needed(&claimed.key(), comes, work, disposition).await
            }
            Disposition::Acknowledge | Disposition::RetryAfter { .. } => disposition,
        }
    }

    fn count_claim(&self, task: &Task, now: Timestamp) {
        if task.follows_a_dead_attempt() {
            self.observer().recovered(task);
        }
        let waited_ms = (task.attempt == 1).then(|| now.since_ms(task.due_at()));
        self.observer().attempt_began(task, waited_ms);
    }

    async fn claim(&self, work: Work<'_>, admission: Admission) -> Result<Task, ApplyError> {
        self.apply_with_retry(&work.delivery.message.task, &self.claim_of(work, admission)).await
    }

    /// Returns what to do with the message of a task that could not be claimed.
    async fn not_claimed(&self, work: Work<'_>, error: ApplyError) -> Disposition {
        let message = &work.delivery.message;
        match error {
            ApplyError::Refused { current, why } => self.refused_claim(&current, why, work).await,
            ApplyError::Store(error @ StoreError::NewerVersion(_)) => {
                self.leave_to_a_newer_version(message, &error).await
            }
            error => self.not_applied(&message.task, error, self.settings.retry_ms),
        }
    }

    /// Leaves a message to a worker of the version that wrote the task's record. Its delivery does not count. The
    /// message does not name the attempts that its sender knew. So no worker may read it as one of an earlier wait.
    async fn leave_to_a_newer_version(&self, message: &Message, error: &StoreError) -> Disposition {
        let after_ms = self.settings.lease_ms;
        tracing::warn!(
            task_id = %message.task.id, error = error as &dyn std::error::Error, after_ms,
            "the task is left for a worker of the version that wrote it"
        );
        self.send_later(&Message { attempt: None, ..message.clone() }, after_ms).await
    }

    fn claim_of(&self, work: Work<'_>, admission: Admission) -> TaskEvent {
        TaskEvent::Claim { token: work.lease, lease_until: self.lease_until(work.signals), admission }
    }

    async fn refused_claim(&self, current: &Task, why: Refusal, work: Work<'_>) -> Disposition {
        let disposition = self.settle_refused_claim(current, why, work.delivery).await;
        match disposition {
            Disposition::Acknowledge if current.cleanup.is_armed() => {
                self.clean_if_needed(&current.key(), CleanupBy::AnyWorker, work, disposition).await
            }
            Disposition::Acknowledge | Disposition::RetryAfter { .. } => disposition,
        }
    }

    async fn settle_refused_claim(&self, current: &Task, why: Refusal, delivery: &Delivery) -> Disposition {
        let now = self.now();
        let is_superseded = is_superseded(delivery, current);
        let why = match current.state {
            // The message for the timer alongside a question, or for the deadline. The answer may never come, so this
            // message must not be lost.
            State::InputRequired { until, .. } if why == Refusal::WaitsForInput => {
                Refusal::NotDue { until: until.unwrap_or(current.deadline()) }
            }
            State::Queued
            | State::Running { .. }
            | State::Sleeping { .. }
            | State::InputRequired { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Cancelled => why,
        };
        match why {
            // A question has no time of its own, and records of older versions may sleep past their deadline.
            Refusal::NotDue { .. } if now >= current.deadline() => self.end_for_good(current, TaskEvent::TimeOut).await,
            // The task has another message.
            Refusal::NotDue { .. } | Refusal::Leased { .. }
                if delivery.message.is_extra() && delivery.receives == 1 =>
            {
                Disposition::Acknowledge
            }
            // It stays what it is: a new message of its own would be one that the task needs.
            Refusal::Leased { until } if is_superseded => {
                self.send_later(&delivery.message, until.since_ms(now).max(1)).await
            }
            // Another worker is alive. The message stays, in case that worker dies.
            Refusal::Leased { until } => Disposition::RetryAfter { after_ms: until.since_ms(now).max(1) },
            Refusal::NotDue { .. } if is_superseded => Disposition::Acknowledge,
            // The message came early, as for a timer that is longer than the queue's longest delay: send a new one. But
            // a worker that died may have sent one in place of this message already: then it stays the one that it is,
            // or its copies would come early too, and be copied.
            Refusal::NotDue { until } if delivery.receives > 1 => {
                Disposition::RetryAfter { after_ms: until.since_ms(now).max(1) }
            }
            Refusal::NotDue { until } => self.replace_message(current, until.since_ms(now).max(1)).await,
            Refusal::RetriesExhausted => self.end_for_good(current, TaskEvent::RetriesExhausted).await,
            Refusal::PastDeadline => self.end_for_good(current, TaskEvent::TimeOut).await,
            // Whoever made the task what it is has sent a message for it.
            Refusal::WaitsForInput
            | Refusal::Ended
            | Refusal::Expired
            | Refusal::Stale { .. }
            | Refusal::NotAsked
            | Refusal::RetriesLeft
            | Refusal::BeforeDeadline
            | Refusal::NotEnded
            | Refusal::SentAlready { .. }
            | Refusal::NothingToClean
            | Refusal::NothingToWake
            | Refusal::NeedsPermits
            | Refusal::NothingAsked => Disposition::Acknowledge,
        }
    }

    /// Reads what the attempt needs. The first attempt has no journal to read.
    async fn start(
        &self,
        task: Task,
        trace: Option<TraceParent>,
        signals: &WorkerSignals,
    ) -> Result<Attempt, Disposition> {
        let key = task.key();
        let request = match self.load(&key, &task.request).await {
            Ok(request) => request,
            Err(error) => return Err(self.cannot_start(&task, error).await),
        };
        let journal = if task.attempt > 1 {
            match self.with_retry(|| self.store().journal(&key)).await {
                Ok(journal) => journal,
                Err(error) => return Err(self.cannot_start(&task, self.not_loaded(error)).await),
            }
        } else {
            Vec::new()
        };
        if let State::Running { lease } = task.state
            && lease.until <= self.now()
        {
            // What was read may be less than what was recorded: the task may have been ended and forgotten meanwhile.
            tracing::warn!(task_id = %task.id, attempt = task.attempt, "the lease expired before the tool could run");
            return Err(self.give_back_unrun(&task, self.settings.retry_ms).await);
        }
        let limits_ms = self.settings.attempt_ms_max.into_iter().chain(task.flow.as_ref().map(|flow| flow.attempt_ms));
        let ends_at = limits_ms.map(|ms| self.now().plus_ms(ms)).chain(signals.until).min();
        let trace = trace.or(task.trace);
        Ok(Attempt::new(self.clone(), Start { task, request, journal, trace, ends_at, unstored: None }))
    }

    fn lease_until(&self, signals: &WorkerSignals) -> Timestamp {
        let until = self.now().plus_ms(self.settings.lease_ms);
        // A worker that will be killed at a known moment holds nothing after it.
        signals.until.map_or(until, |killed_at| until.min(killed_at))
    }

    /// Have the message delivered again after the usual delay before a retry.
    pub(crate) const fn later(&self) -> Disposition {
        Disposition::RetryAfter { after_ms: self.settings.retry_ms }
    }
}

/// Begins the span of an attempt, and notes the time for which the task waited before it.
fn span_of(task: &Task, now: Timestamp) -> Span {
    let (trace, id) = (task.trace.as_ref(), &task.id);
    match task.attempts.past.last() {
        _ if task.attempt == 1 => Span::note(SpanName::Queue, trace, (task.due_at(), now), id),
        Some(PastAttempt { to, end: AttemptOutcome::Timer | AttemptOutcome::Input, .. }) => {
            Span::note(SpanName::Wait, trace, (*to, now), id);
        }
        Some(_) | None => {}
    }
    let name = if task.tool == WEBHOOK_DELIVERY_TOOL { SpanName::Webhook } else { SpanName::Attempt };
    let span = Span::begin(name, trace);
    span.set("longhaul.task_id", id);
    span.set("longhaul.tool", &task.tool);
    span.set("longhaul.attempt", task.attempt);
    span
}

/// Whether the task does not need the message of this delivery: another one is there, or was. A woken task continues by
/// the message of its wake. The message of its suspension comes later, when further attempts may have suspended the
/// task with a message of their own. Messages that no task needs any more must not be kept, or their number would grow.
///
/// That another attempt has begun since the message was sent is not enough: it may have begun by this message. Then
/// this is not its first delivery.
fn is_superseded(delivery: &Delivery, current: &Task) -> bool {
    delivery.receives == 1 && delivery.message.attempt.is_some_and(|attempt| attempt < current.attempt)
}
