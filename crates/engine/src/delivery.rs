//! Running one delivery: claim, run a leg, write down how it ended.

use longhaul_core::planted::{Fault, planted};
use longhaul_core::ports::{ApplyError, Delivery};
use longhaul_core::{Refusal, State, Task, TaskEvent, Timestamp};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use tracing::field::Empty;

use crate::leg::Start;
use crate::{Engine, Leg, ToolRunner};

mod conclude;
mod watch;

/// What is to be done with the delivery's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Delete it.
    Done,
    /// Keep it, and let it be handed over again after this time in milliseconds.
    Later {
        /// How long to hide it.
        after_ms: u64,
    },
}

/// What the worker's surroundings tell it.
#[derive(Clone, Debug, Default)]
pub struct WorkerSignals {
    /// When the worker is killed, as Lambda does at the function's timeout.
    pub until: Option<Timestamp>,
    /// Fires when the worker is to stop: its leg ends at the next step boundary, or after a short grace.
    pub stop: CancellationToken,
}

/// What came of trying to claim a task.
enum Claimed {
    /// It is ours.
    Ours(Box<Task>),
    /// It is not, and this is what to do with the message.
    Not(Disposition),
}

impl Engine {
    /// Runs one delivery to its end: claims the task, runs the tool for one leg, writes how the leg ended. Never
    /// fails: whatever goes wrong leads to another delivery, or to the end of the task.
    pub async fn run_delivery(
        &self,
        delivery: &Delivery,
        runner: &dyn ToolRunner,
        signals: &WorkerSignals,
    ) -> Disposition {
        let message = &delivery.message;
        let span = tracing::info_span!(
            "delivery", task_id = %message.task.id, owner = %message.task.owner, attempt = Empty,
            receives = delivery.receives, trace = message.trace
        );
        self.run_leg(delivery, runner, signals).instrument(span).await
    }

    async fn run_leg(&self, delivery: &Delivery, runner: &dyn ToolRunner, signals: &WorkerSignals) -> Disposition {
        let task = match self.claim(delivery, signals).await {
            Claimed::Ours(task) => task,
            Claimed::Not(disposition) => return disposition,
        };
        let began_at = self.now();
        tracing::Span::current().record("attempt", task.attempt);
        tracing::info!(task_id = %task.id, attempt = task.attempt, tool = task.tool, "a leg begins");
        self.count_claim(&task, began_at);
        let claimed = task.clone();
        let disposition = match self.start(*task, signals).await {
            Ok(leg) => {
                let end = self.watch(&leg, delivery, runner, signals).await;
                self.conclude(&leg, end).await
            }
            Err(disposition) => disposition,
        };
        self.observer().leg_ended(&claimed, self.now().since_ms(began_at));
        disposition
    }

    fn count_claim(&self, task: &Task, now: Timestamp) {
        if task.follows_a_dead_leg() {
            self.observer().recovered(task);
        }
        let waited_ms = (task.attempt == 1).then(|| now.since_ms(task.created_at));
        self.observer().leg_began(task, waited_ms);
    }

    async fn claim(&self, delivery: &Delivery, signals: &WorkerSignals) -> Claimed {
        let key = &delivery.message.task;
        let lease_until = self.lease_until(signals);
        let claim = TaskEvent::Claim { token: self.ports.ids.lease_token(), lease_until };
        match self.apply_surely(key, &claim).await {
            Ok(task) => Claimed::Ours(Box::new(task)),
            Err(ApplyError::NotFound) => Claimed::Not(Disposition::Done),
            Err(ApplyError::Store(_)) => Claimed::Not(self.later()),
            Err(ApplyError::Refused { current, why }) => Claimed::Not(self.refused_claim(&current, why).await),
        }
    }

    async fn refused_claim(&self, current: &Task, why: Refusal) -> Disposition {
        let now = self.now();
        let why = match current.state {
            // The message of the moment beside a question: the answer may never come, so this one has to last.
            State::InputRequired { until: Some(until), .. } if why == Refusal::WaitsForInput => {
                Refusal::NotDue { until }
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
            Refusal::Leased { .. } if planted(Fault::LeasedMessageDropped) => Disposition::Done,
            Refusal::NotDue { .. } if planted(Fault::EarlyMessageDropped) => Disposition::Done,
            // Another worker lives. The message stays, in case that one dies.
            Refusal::Leased { until } => Disposition::Later { after_ms: until.since_ms(now).max(1) },
            // The message came early, as long timers do that take several hops: send it on.
            Refusal::NotDue { until } => {
                let delay_ms = until.since_ms(now).max(1);
                match self.send(current, delay_ms).await {
                    Ok(()) => Disposition::Done,
                    Err(_) => Disposition::Later { after_ms: delay_ms },
                }
            }
            Refusal::TriesUsedUp => self.end_for_good(current, TaskEvent::GiveUp).await,
            Refusal::PastDeadline => self.end_for_good(current, TaskEvent::TimeOut).await,
            // The answers, a poll or a timer send a message of their own.
            Refusal::WaitsForInput
            | Refusal::Ended
            | Refusal::Expired
            | Refusal::Stale { .. }
            | Refusal::NotAsked
            | Refusal::TriesLeft
            | Refusal::BeforeDeadline
            | Refusal::NotEnded
            | Refusal::SentAlready { .. }
            | Refusal::NothingAsked => Disposition::Done,
        }
    }

    async fn end_for_good(&self, task: &Task, event: TaskEvent) -> Disposition {
        match self.apply_surely(&task.key(), &event).await {
            Ok(_) | Err(ApplyError::NotFound) => Disposition::Done,
            Err(ApplyError::Refused { current, .. }) if current.has_ended() => Disposition::Done,
            Err(ApplyError::Refused { .. } | ApplyError::Store(_)) => self.later(),
        }
    }

    /// Reads what the leg needs. The first attempt has no journal to read.
    async fn start(&self, task: Task, signals: &WorkerSignals) -> Result<Leg, Disposition> {
        let key = task.key();
        let request = match self.load(&key, &task.request).await {
            Ok(request) => request,
            Err(error) => return Err(self.cannot_start(&task, error).await),
        };
        let lost = task.attempt > 1 && planted(Fault::ArgumentsLost);
        let request = if lost { "{}".to_owned() } else { request };
        let journal = if task.attempt > 1 {
            match self.surely(|| self.store().journal(&key)).await {
                Ok(journal) => journal,
                Err(error) => return Err(self.cannot_start(&task, crate::LoadError::Unavailable(error)).await),
            }
        } else {
            Vec::new()
        };
        let own_end = self.settings.leg_ms_max.map(|ms| self.now().plus_ms(ms));
        let ends_at = own_end.into_iter().chain(signals.until).min();
        Ok(Leg::new(self.clone(), Start { task, request, journal, ends_at }))
    }

    fn lease_until(&self, signals: &WorkerSignals) -> Timestamp {
        let until = self.now().plus_ms(self.settings.lease_ms);
        // A worker that is killed at a known moment holds nothing after it.
        signals.until.map_or(until, |killed_at| until.min(killed_at))
    }

    pub(crate) const fn later(&self) -> Disposition {
        Disposition::Later { after_ms: self.settings.retry_ms }
    }
}
