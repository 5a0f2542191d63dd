//! Writing how an attempt ended, and deciding what to do with its message.

use longhaul_core::ports::{ApplyError, Message, StoreError};
use longhaul_core::{
    Advance, Failure, FailureKind, Labels, Outcome, PartsName, Payload, Progress, Refusal, ResultKind, State,
    Suspension, Task, TaskEvent, TaskKey, Timestamp, limits,
};

use super::watch::End;
use crate::attempt::NewUpdates;
use crate::limits::MEMORY_WAIT_MS;
use crate::suspension::{Reason, Suspended};
use crate::{Attempt, AttemptEnd, Disposition, Engine, LoadError};

impl Engine {
    /// Writes how the attempt ended, and returns what to do with its message. If the task has ended with it otherwise
    /// than by a result, cancels the children that the attempt knows.
    pub(crate) async fn conclude(&self, attempt: &Attempt, end: End) -> Disposition {
        let goes_on = end.is_followed_by_another();
        let has_result = matches!(end, End::Tool(AttemptEnd::Completed { .. }));
        let disposition = self.write_end(attempt, end).await;
        if !goes_on && disposition == Disposition::Acknowledge {
            self.cancel_open_children(attempt, has_result).await;
        }
        disposition
    }

    async fn write_end(&self, attempt: &Attempt, end: End) -> Disposition {
        match end {
            End::Tool(AttemptEnd::Completed { result, kind }) => self.complete(attempt, result, kind).await,
            End::Tool(AttemptEnd::Failed { message, detail }) => self.fail(attempt, message, detail).await,
            End::Tool(AttemptEnd::Crashed { reason }) => self.retry(attempt, reason).await,
            End::Tool(AttemptEnd::NoSuchTool) => self.leave_to_others(attempt.task()).await,
            End::Tool(AttemptEnd::NoMemory) => self.wait_for_memory(attempt.task()).await,
            End::Tool(AttemptEnd::Suspended(Suspended(Reason::Suspend { suspension, signals }))) => {
                self.suspend(attempt, suspension, &signals).await
            }
            End::Tool(AttemptEnd::Suspended(Suspended(Reason::Retry(reason)))) => self.retry(attempt, reason).await,
            End::Tool(AttemptEnd::Suspended(Suspended(Reason::Fail(kind, message)))) => {
                self.finish(attempt, failed(kind, &message, None)).await
            }
            End::ParentEnded => self.end_for_good(attempt.task(), TaskEvent::Cancel).await,
            End::PastDeadline => self.end_for_good(attempt.task(), TaskEvent::TimeOut).await,
            End::Overran => self.retry(attempt, overrun(attempt)).await,
            End::Stopped => self.suspend(attempt, Suspension::Yield, &[]).await,
            End::Lost(why) => self.refused(&attempt.task().key(), why, self.settings.lease_ms),
        }
    }

    /// Handles an attempt that could not even start.
    pub(crate) async fn cannot_start(&self, task: &Task, error: LoadError) -> Disposition {
        match error {
            LoadError::Missing => {
                self.fail_as_corrupt(task, "parts of the call's arguments are missing; call the tool again").await
            }
            LoadError::Unreadable(error) => {
                tracing::error!(
                    task_id = %task.id, attempt = task.attempt, error = &error as &dyn std::error::Error,
                    "what an attempt needs is damaged, and the task fails"
                );
                self.fail_as_corrupt(task, "what is stored of the call or its steps cannot be read").await
            }
            // Nothing was run and nothing is wrong with the task: release it.
            LoadError::Unavailable(error) => {
                tracing::warn!(
                    task_id = %task.id, attempt = task.attempt, error = &error as &dyn std::error::Error,
                    "what an attempt needs could not be read"
                );
                self.give_back_unrun(task, self.settings.retry_ms).await
            }
        }
    }

    async fn fail_as_corrupt(&self, task: &Task, message: &str) -> Disposition {
        self.write_finish(task, failed(FailureKind::Corrupt, message, None), (None, None)).await
    }

    /// Leaves a task to a worker that has its tool. That does not count as a failure. The task times out if no
    /// worker with the tool comes.
    async fn leave_to_others(&self, task: &Task) -> Disposition {
        let after_ms = self.settings.lease_ms;
        tracing::warn!(
            task_id = %task.id, attempt = task.attempt, tool = task.tool, after_ms,
            "this worker does not have the tool: the task is left for a worker that has it"
        );
        self.give_back_unrun(task, after_ms).await
    }

    /// Gives back a task for whose arguments this worker has no memory, so that the worker can do other work meanwhile.
    async fn wait_for_memory(&self, task: &Task) -> Disposition {
        tracing::info!(task_id = %task.id, attempt = task.attempt, bytes = task.request.bytes(),
            "there is no memory for the arguments of an attempt; the task waits");
        self.give_back_unrun(task, self.memory_wait_ms()).await
    }

    /// A random time until there may be memory again.
    pub(crate) fn memory_wait_ms(&self) -> u64 {
        self.ports.ids.delay_ms(MEMORY_WAIT_MS)
    }

    /// Gives back a claimed task of which nothing was run. It continues in another attempt after this time.
    pub(crate) async fn give_back_unrun(&self, task: &Task, after_ms: u64) -> Disposition {
        let event =
            TaskEvent::Suspend { attempt: task.attempt, suspension: Suspension::Yield, progress: None, labels: None };
        self.release(task, &event, Some(after_ms), &[]).await.unwrap_or_else(|refused| refused)
    }

    /// Writes an end that any worker may write, not only the one that holds the task.
    pub(crate) async fn end_for_good(&self, task: &Task, event: TaskEvent) -> Disposition {
        match self.apply_with_retry(&task.key(), &event).await {
            Ok(_) => Disposition::Acknowledge,
            Err(error) => self.not_applied(&task.key(), error, self.settings.retry_ms),
        }
    }

    /// Sends a new message instead of the delivered one, which would carry its count of deliveries on. If that fails,
    /// the delivered message stays.
    pub(crate) async fn replace_message(&self, task: &Task, delay_ms: u64) -> Disposition {
        match self.send(task, delay_ms).await {
            Ok(()) => Disposition::Acknowledge,
            Err(_logged) => Disposition::RetryAfter { after_ms: delay_ms },
        }
    }

    /// Sends the delivered message once more, so that its delivery does not count. If that fails, the delivered one
    /// stays.
    pub(crate) async fn send_later(&self, message: &Message, delay_ms: u64) -> Disposition {
        match self.queue().send(message, delay_ms).await {
            Ok(()) => Disposition::Acknowledge,
            Err(error) => {
                let (task_id, error) = (message.task.id, &error as &dyn std::error::Error);
                tracing::warn!(%task_id, error, "the message was not sent; the delivered one stays");
                Disposition::RetryAfter { after_ms: delay_ms }
            }
        }
    }

    /// Decides what to do with the message when a write was not applied: the only place that does. `again_ms` is when
    /// the message is delivered again if work may be left.
    pub(crate) fn not_applied(&self, key: &TaskKey, error: ApplyError, again_ms: u64) -> Disposition {
        match error {
            ApplyError::NotFound => Disposition::Acknowledge,
            ApplyError::Refused { why, .. } => self.refused(key, why, again_ms),
            ApplyError::Store(error) => self.not_written(key, &error, again_ms),
        }
    }

    /// The record changed without this worker.
    fn refused(&self, key: &TaskKey, why: Refusal, again_ms: u64) -> Disposition {
        tracing::info!(task_id = %key.id, %why, "the task refused a write of this delivery");
        if why.is_permanent() {
            Disposition::Acknowledge
        } else {
            // Another worker has the task, perhaps because of this same message: it must not be deleted.
            Disposition::RetryAfter { after_ms: again_ms }
        }
    }

    /// The store failed. The next delivery finds what is recorded.
    fn not_written(&self, key: &TaskKey, error: &StoreError, again_ms: u64) -> Disposition {
        let error = error as &dyn std::error::Error;
        tracing::error!(task_id = %key.id, error, "a write of this delivery failed");
        Disposition::RetryAfter { after_ms: again_ms }
    }

    async fn complete(&self, attempt: &Attempt, result: String, kind: ResultKind) -> Disposition {
        let task = attempt.task();
        if result.len() > limits::RESULT_BYTES_MAX {
            return self.finish(attempt, too_large("result", result.len())).await;
        }
        match self.store_outcome(task, result).await {
            Ok(result) => self.finish(attempt, Outcome::Completed { result, kind }).await,
            Err(error) => self.not_written(&task.key(), &error, self.settings.lease_ms),
        }
    }

    async fn fail(&self, attempt: &Attempt, message: String, detail: String) -> Disposition {
        let task = attempt.task();
        if detail.len() > limits::RESULT_BYTES_MAX {
            return self.finish(attempt, too_large("error", detail.len())).await;
        }
        match self.store_outcome(task, detail).await {
            Ok(detail) => self.finish(attempt, failed(FailureKind::Tool, &message, Some(detail))).await,
            Err(error) => self.not_written(&task.key(), &error, self.settings.lease_ms),
        }
    }

    async fn store_outcome(&self, task: &Task, text: String) -> Result<Payload, StoreError> {
        let name = PartsName::Outcome { attempt: task.attempt };
        self.store_payload(&task.key(), name, text, limits::INLINE_BYTES_MAX).await
    }

    /// Ends the task, with the progress and the labels that are not recorded yet.
    async fn finish(&self, attempt: &Attempt, outcome: Outcome) -> Disposition {
        let NewUpdates { progress, labels, .. } = attempt.shared().pending.take();
        self.write_finish(attempt.task(), outcome, (progress, labels)).await
    }

    async fn write_finish(
        &self,
        task: &Task,
        outcome: Outcome,
        (progress, labels): (Option<Progress>, Option<Labels>),
    ) -> Disposition {
        let finish = TaskEvent::Finish { attempt: task.attempt, outcome, progress, labels };
        match self.apply_end(&task.key(), &finish).await {
            Ok(ended) => {
                let status = ended.status().as_str();
                tracing::info!(task_id = %task.id, attempt = task.attempt, status, "the task ended");
                Disposition::Acknowledge
            }
            Err(error) => self.not_applied(&task.key(), error, self.settings.lease_ms),
        }
    }

    async fn suspend(&self, attempt: &Attempt, suspension: Suspension, signals: &[String]) -> Disposition {
        let task = attempt.task();
        let suspension = until_deadline(suspension, task);
        let suspension = if task.parent.is_some() {
            at_the_latest(suspension, self.now().plus_ms(limits::CHILD_POLL_MS_MAX))
        } else {
            suspension
        };
        if let Suspension::Input { asks, .. } = &suspension {
            let bytes = asks.iter().map(|ask| ask.key.len() + ask.request.len()).sum::<usize>();
            if asks.len() > limits::ASKS_MAX || bytes > limits::ASKS_BYTES_MAX {
                return self.finish(attempt, too_many_asks(asks.len(), bytes)).await;
            }
        }
        let resume_in_ms = match &suspension {
            // The answer sends a message too.
            Suspension::Input { until, .. } => Some(until.unwrap_or(task.deadline()).since_ms(self.now())),
            Suspension::Timer(until) => Some(until.since_ms(self.now())),
            Suspension::Yield => Some(0),
        };
        let NewUpdates { progress, labels, .. } = attempt.shared().pending.take();
        let event = TaskEvent::Suspend { attempt: task.attempt, suspension, progress, labels };
        match self.release(task, &event, resume_in_ms, signals).await {
            Ok(disposition) => disposition,
            Err(disposition) => {
                // Whoever ended the task while its first attempt ran leaves the children to the attempt.
                if disposition == Disposition::Acknowledge {
                    self.cancel_open_children(attempt, false).await;
                }
                disposition
            }
        }
    }

    async fn retry(&self, attempt: &Attempt, reason: String) -> Disposition {
        let task = attempt.task();
        let NewUpdates { progress, labels, advance } = attempt.shared().pending.take();
        // An attempt that got further than the ones before it resets the count of failures; that must be on record
        // first, and so must its last progress and its labels.
        let failures = if attempt.shared().pending.has_advanced() { 0 } else { task.failures };
        if progress.is_some() || labels.is_some() || (advance == Advance::Recorded && task.failures > 0) {
            let lease_until = self.now().plus_ms(self.settings.lease_ms);
            let heartbeat = TaskEvent::Heartbeat { attempt: task.attempt, lease_until, progress, labels, advance };
            // If the store fails here, the write that follows is tried anyway, and decides.
            if let Err(error @ ApplyError::Refused { .. }) = self.apply_with_retry(&task.key(), &heartbeat).await {
                return self.not_applied(&task.key(), error, self.settings.lease_ms);
            }
        }
        let reason = limits::cut(&reason, limits::MESSAGE_BYTES_MAX);
        tracing::warn!(task_id = %task.id, attempt = task.attempt, reason, "an attempt failed");
        let delay_ms = self.until_deadline_ms(task, self.settings.retry_delay_ms(failures));
        let not_before = self.now().plus_ms(delay_ms);
        let retry = TaskEvent::Retry { attempt: task.attempt, not_before, reason: reason.clone() };
        match self.apply_with_retry(&task.key(), &retry).await {
            Ok(task) => self.replace_message(&task, delay_ms).await,
            Err(ApplyError::Refused { current, why: Refusal::RetriesExhausted }) => {
                let message = format!(
                    "no retries are left after {} failures in a row: {reason}",
                    current.failures.saturating_add(1)
                );
                let failed = failed(FailureKind::RetriesExhausted, &message, None);
                self.write_finish(&current, failed, (None, None)).await
            }
            Err(error) => self.not_applied(&task.key(), error, self.settings.lease_ms),
        }
    }

    /// Writes `event`, after which no worker holds the task. Sends the message for the next attempt if there is a time
    /// for it. That time is soon if one of these signals is there.
    async fn release(
        &self,
        task: &Task,
        event: &TaskEvent,
        resume_in_ms: Option<u64>,
        signals: &[String],
    ) -> Result<Disposition, Disposition> {
        let released = match self.apply_with_retry(&task.key(), event).await {
            Ok(released) => released,
            Err(error) => return Err(self.not_applied(&task.key(), error, self.settings.lease_ms)),
        };
        let (task, delay_ms) = match self.wake_if_there(&released, signals).await {
            Some((woken, at)) => (woken, Some(at.since_ms(self.now()))),
            // All questions were answered while the attempt ran.
            None if asks(event) && released.state == State::Queued => (released, Some(0)),
            None => (released, resume_in_ms),
        };
        Ok(match delay_ms {
            Some(delay_ms) => self.replace_message(&task, delay_ms).await,
            None => Disposition::Acknowledge,
        })
    }
}

fn overrun(attempt: &Attempt) -> String {
    let ms = attempt.task().attempts.since.map_or(0, |since| attempt.ends_at().since_ms(since));
    format!(
        "the tool did not reach a step boundary within the {ms} ms of its attempt. Split it into shorter steps, or \
         allow longer attempts (`TaskPolicy::attempt_at_most`, and on AWS the worker's timeout)"
    )
}

const fn asks(event: &TaskEvent) -> bool {
    matches!(event, TaskEvent::Suspend { suspension: Suspension::Input { .. }, .. })
}

/// The same suspension, which lasts at most until the task's deadline. Its message then finds the task past the
/// deadline, and ends it even without polls.
fn until_deadline(suspension: Suspension, task: &Task) -> Suspension {
    match suspension {
        question @ Suspension::Input { until: None, .. } => question,
        timed => at_the_latest(timed, task.deadline()),
    }
}

fn at_the_latest(suspension: Suspension, at: Timestamp) -> Suspension {
    match suspension {
        Suspension::Input { asks, until } => {
            Suspension::Input { asks, until: Some(until.map_or(at, |until| until.min(at))) }
        }
        Suspension::Timer(until) => Suspension::Timer(until.min(at)),
        Suspension::Yield => Suspension::Yield,
    }
}

fn failed(kind: FailureKind, message: &str, detail: Option<Payload>) -> Outcome {
    Outcome::Failed(Failure { kind, message: limits::cut(message, limits::MESSAGE_BYTES_MAX), detail })
}

fn too_large(what: &str, bytes: usize) -> Outcome {
    let max = limits::RESULT_BYTES_MAX;
    failed(FailureKind::TooLarge, &format!("the tool's {what} has {bytes} bytes; at most {max} can be stored"), None)
}

fn too_many_asks(count: usize, bytes: usize) -> Outcome {
    let (count_max, bytes_max) = (limits::ASKS_MAX, limits::ASKS_BYTES_MAX);
    let message = format!(
        "the tool asks {count} questions of {bytes} bytes at once; at most {count_max} of {bytes_max} bytes are allowed"
    );
    failed(FailureKind::TooLarge, &message, None)
}
