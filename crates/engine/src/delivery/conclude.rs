//! Writing down how a leg ended.

use longhaul_core::planted::{Fault, planted};
use longhaul_core::ports::{ApplyError, StoreError};
use longhaul_core::{
    Advance, Failure, FailureKind, Outcome, PartsName, Payload, Refusal, ResultKind, Suspension, Task, TaskEvent,
    limits,
};

use super::watch::End;
use crate::suspension::Reason;
use crate::tool::Suspended;
use crate::{Disposition, Engine, Leg, LegEnd, LoadError};

impl Engine {
    /// Writes how the leg ended, and says what becomes of its message.
    pub(crate) async fn conclude(&self, leg: &Leg, end: End) -> Disposition {
        match end {
            End::Tool(LegEnd::Completed { result, kind }) => self.complete(leg, result, kind).await,
            End::Tool(LegEnd::Failed { message, detail }) => self.fail(leg, message, detail).await,
            End::Tool(LegEnd::Crashed { reason }) if planted(Fault::CrashIsTheEnd) => {
                self.finish(leg.task(), failed(FailureKind::TriesUsedUp, &reason, None)).await
            }
            End::Tool(LegEnd::Crashed { reason }) => self.retry(leg, reason).await,
            End::Tool(LegEnd::Suspended(Suspended(Reason::Suspend(suspension)))) => self.suspend(leg, suspension).await,
            End::Tool(LegEnd::Suspended(Suspended(Reason::Retry(reason)))) => self.retry(leg, reason).await,
            End::Tool(LegEnd::Suspended(Suspended(Reason::Fail(kind, message)))) => {
                self.finish(leg.task(), failed(kind, &message, None)).await
            }
            End::PastDeadline => self.end_for_good(leg.task(), TaskEvent::TimeOut).await,
            End::Overran => self.retry(leg, self.overrun()).await,
            End::Stopped => self.suspend(leg, Suspension::Yield).await,
            End::Lost(why) => self.lost(leg.task(), why),
        }
    }

    /// A leg that could not even begin.
    pub(crate) async fn cannot_start(&self, task: &Task, error: LoadError) -> Disposition {
        match error {
            LoadError::Missing => {
                let message = "the arguments of the call are not all there any more; call the tool again";
                self.finish(task, failed(FailureKind::Corrupt, message, None)).await
            }
            // Nothing was run and nothing is wrong with the task: give it back.
            LoadError::Unavailable(_) => {
                let back = TaskEvent::Suspend { attempt: task.attempt, suspension: Suspension::Yield, progress: None };
                self.give_back(task, &back, self.settings.retry_ms).await
            }
        }
    }

    async fn complete(&self, leg: &Leg, result: String, kind: ResultKind) -> Disposition {
        let task = leg.task();
        if result.len() > limits::RESULT_BYTES_MAX {
            return self.finish(task, too_large("result", result.len())).await;
        }
        match self.keep_outcome(task, result).await {
            Ok(result) => self.finish(task, Outcome::Completed { result, kind }).await,
            Err(error) => self.unwritten(task, &error),
        }
    }

    async fn fail(&self, leg: &Leg, message: String, detail: String) -> Disposition {
        let task = leg.task();
        if detail.len() > limits::RESULT_BYTES_MAX {
            return self.finish(task, too_large("error", detail.len())).await;
        }
        match self.keep_outcome(task, detail).await {
            Ok(detail) => self.finish(task, failed(FailureKind::Tool, &message, Some(detail))).await,
            Err(error) => self.unwritten(task, &error),
        }
    }

    async fn keep_outcome(&self, task: &Task, text: String) -> Result<Payload, StoreError> {
        let name = PartsName::Outcome { attempt: task.attempt };
        self.keep(&task.key(), name, text, limits::INLINE_BYTES_MAX).await
    }

    async fn finish(&self, task: &Task, outcome: Outcome) -> Disposition {
        let finish = TaskEvent::Finish { attempt: task.attempt, outcome };
        match self.apply_surely(&task.key(), &finish).await {
            Ok(ended) => {
                tracing::info!(task_id = %task.id, attempt = task.attempt, status = ended.status().as_str(), "the task ended");
                Disposition::Done
            }
            Err(ApplyError::Refused { why, .. }) => self.lost(task, why),
            Err(ApplyError::NotFound) => Disposition::Done,
            Err(ApplyError::Store(error)) => self.unwritten(task, &error),
        }
    }

    async fn suspend(&self, leg: &Leg, suspension: Suspension) -> Disposition {
        let task = leg.task();
        if let Suspension::Input { asks, .. } = &suspension {
            let bytes = asks.iter().map(|ask| ask.key.len() + ask.request.len()).sum::<usize>();
            if asks.len() > limits::ASKS_MAX || bytes > limits::ASKS_BYTES_MAX {
                return self.finish(task, too_many_asks(asks.len(), bytes)).await;
            }
        }
        let resume_in_ms = match &suspension {
            Suspension::Input { until: None, .. } => None,
            Suspension::Timer(_) if planted(Fault::SleepForgotten) => None,
            Suspension::Input { until: Some(until), .. } | Suspension::Timer(until) => Some(until.since_ms(self.now())),
            Suspension::Yield => Some(0),
        };
        let (progress, _) = leg.shared().news.take();
        let event = TaskEvent::Suspend { attempt: task.attempt, suspension, progress };
        match resume_in_ms {
            Some(delay_ms) => self.give_back(task, &event, delay_ms).await,
            // The answer will send the message.
            None => match self.apply_surely(&task.key(), &event).await {
                Ok(_) | Err(ApplyError::NotFound) => Disposition::Done,
                Err(ApplyError::Refused { why, .. }) => self.lost(task, why),
                Err(ApplyError::Store(error)) => self.unwritten(task, &error),
            },
        }
    }

    async fn retry(&self, leg: &Leg, reason: String) -> Disposition {
        let task = leg.task();
        let (_, advance) = leg.shared().news.take();
        // A leg that got further than the ones before it starts the count anew; that has to be on record first.
        let failures = if leg.shared().news.has_advanced() { 0 } else { task.failures };
        if advance == Advance::Recorded && task.failures > 0 {
            let lease_until = self.now().plus_ms(self.settings.lease_ms);
            let beat = TaskEvent::Heartbeat { attempt: task.attempt, lease_until, progress: None, advance };
            if let Err(ApplyError::Refused { why, .. }) = self.apply_surely(&task.key(), &beat).await {
                return self.lost(task, why);
            }
        }
        let reason = limits::cut(&reason, limits::MESSAGE_BYTES_MAX);
        tracing::warn!(task_id = %task.id, attempt = task.attempt, reason, "a leg failed");
        let delay_ms = self.settings.retry_delay_ms(failures);
        let not_before = self.now().plus_ms(delay_ms);
        let retry = TaskEvent::Retry { attempt: task.attempt, not_before, reason: reason.clone() };
        match self.apply_surely(&task.key(), &retry).await {
            Ok(_) if planted(Fault::RetryNotSent) => Disposition::Done,
            Ok(task) => self.send_or_keep(&task, delay_ms).await,
            Err(ApplyError::Refused { current, why: Refusal::TriesUsedUp }) => {
                let message = format!("gave up after {} tries: {reason}", current.failures.saturating_add(1));
                self.finish(&current, failed(FailureKind::TriesUsedUp, &message, None)).await
            }
            Err(ApplyError::Refused { why, .. }) => self.lost(task, why),
            Err(ApplyError::NotFound) => Disposition::Done,
            Err(ApplyError::Store(error)) => self.unwritten(task, &error),
        }
    }

    /// Writes `event`, after which nobody holds the task, and sends the message for the next leg.
    async fn give_back(&self, task: &Task, event: &TaskEvent, delay_ms: u64) -> Disposition {
        match self.apply_surely(&task.key(), event).await {
            Ok(task) => self.send_or_keep(&task, delay_ms).await,
            Err(ApplyError::NotFound) => Disposition::Done,
            Err(ApplyError::Refused { why, .. }) => self.lost(task, why),
            Err(ApplyError::Store(error)) => self.unwritten(task, &error),
        }
    }

    /// A new message, since the old one would carry its count of deliveries on; the old one where that fails.
    async fn send_or_keep(&self, task: &Task, delay_ms: u64) -> Disposition {
        match self.send(task, delay_ms).await {
            Ok(()) => Disposition::Done,
            Err(_) => Disposition::Later { after_ms: delay_ms },
        }
    }

    /// The record moved on without this attempt.
    fn lost(&self, task: &Task, why: Refusal) -> Disposition {
        tracing::info!(task_id = %task.id, attempt = task.attempt, %why, "a leg has nothing to write any more");
        match why {
            Refusal::Ended | Refusal::Expired => Disposition::Done,
            // Somebody else works on the task, perhaps by this very message: it is not ours to delete.
            Refusal::Stale { .. }
            | Refusal::Leased { .. }
            | Refusal::NotDue { .. }
            | Refusal::WaitsForInput
            | Refusal::NotAsked
            | Refusal::TriesUsedUp
            | Refusal::TriesLeft
            | Refusal::PastDeadline
            | Refusal::BeforeDeadline
            | Refusal::NotEnded
            | Refusal::SentAlready { .. }
            | Refusal::NothingAsked => Disposition::Later { after_ms: self.settings.lease_ms },
        }
    }

    /// The end of the leg could not be written: the lease runs out, and the next attempt finds what is recorded.
    fn unwritten(&self, task: &Task, error: &StoreError) -> Disposition {
        tracing::error!(
            task_id = %task.id, attempt = task.attempt, error = error as &dyn std::error::Error,
            "the end of a leg could not be written"
        );
        Disposition::Later { after_ms: self.settings.lease_ms }
    }

    fn overrun(&self) -> String {
        let limit = self.settings.leg_ms_max.map_or_else(String::new, |ms| format!(" of {ms} ms"));
        format!("the tool came to no step boundary within the time of its leg{limit}; split it into shorter steps")
    }
}

fn failed(kind: FailureKind, message: &str, detail: Option<Payload>) -> Outcome {
    Outcome::Failed(Failure { kind, message: limits::cut(message, limits::MESSAGE_BYTES_MAX), detail })
}

fn too_large(what: &str, bytes: usize) -> Outcome {
    let max = limits::RESULT_BYTES_MAX;
    failed(FailureKind::TooLarge, &format!("the tool's {what} has {bytes} bytes; at most {max} can be kept"), None)
}

fn too_many_asks(count: usize, bytes: usize) -> Outcome {
    let (count_max, bytes_max) = (limits::ASKS_MAX, limits::ASKS_BYTES_MAX);
    let message = format!(
        "the tool asks {count} questions of {bytes} bytes at once; at most {count_max} of {bytes_max} are taken"
    );
    failed(FailureKind::TooLarge, &message, None)
}
