//! Writes that are retried when the store does not answer, and that recognise their own effect. They write text of any
//! size up to its limit, inline in the record or in parts next to it.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};

use longhaul_core::ports::{ApplyError, CreateError, Message, QueueError, StoreError};
use longhaul_core::{PartsName, Payload, Task, TaskEvent, TaskKey, limits, split};

use crate::changes::Subject;
use crate::{Engine, LoadError};

impl Engine {
    /// Applies `event`, and retries if the store does not answer. A refusal by a record that already shows the event's
    /// effect is a success whose answer was lost.
    pub(crate) async fn apply_with_retry(&self, key: &TaskKey, event: &TaskEvent) -> Result<Task, ApplyError> {
        self.apply_counting(key, event, &AtomicU32::new(0)).await
    }

    /// Applies `event` once, and wakes who waits in this process for a change of the task. Every write of an event goes
    /// through here.
    pub(crate) async fn apply_once(&self, key: &TaskKey, event: &TaskEvent) -> Result<Task, ApplyError> {
        let applied = self.store().apply(key, event, self.now()).await;
        match &applied {
            Ok(ended) if event.ends_task() => self.changes.tell_end(ended),
            Ok(_) => self.changes.tell(Subject::Task(*key)),
            Err(_) => {}
        }
        applied
    }

    /// Does what [`Engine::apply_with_retry`] does for the end of an attempt, which is tried more often than other
    /// writes.
    pub(crate) async fn apply_end(&self, key: &TaskKey, event: &TaskEvent) -> Result<Task, ApplyError> {
        self.apply_up_to(self.settings.end_tries_max, key, event, &AtomicU32::new(0)).await
    }

    /// Does what [`Engine::apply_with_retry`] does, and counts the tries: all but the last may still be applied late.
    pub(crate) async fn apply_counting(
        &self,
        key: &TaskKey,
        event: &TaskEvent,
        tries: &AtomicU32,
    ) -> Result<Task, ApplyError> {
        self.apply_up_to(self.settings.write_tries_max, key, event, tries).await
    }

    async fn apply_up_to(
        &self,
        tries_max: u32,
        key: &TaskKey,
        event: &TaskEvent,
        tries: &AtomicU32,
    ) -> Result<Task, ApplyError> {
        let tried_before = tries.load(Ordering::Relaxed);
        let written = self
            .retried(tries_max, async || {
                tries.fetch_add(1, Ordering::Relaxed);
                match self.apply_once(key, event).await {
                    Err(ApplyError::Store(StoreError::Unavailable(cause))) => Err(StoreError::Unavailable(cause)),
                    other => Ok(other),
                }
            })
            .await?;
        let lost_an_answer = tries.load(Ordering::Relaxed) > tried_before.saturating_add(1);
        match written {
            Err(ApplyError::Refused { current, .. }) if lost_an_answer && current.has_ended_as(event) => {
                self.changes.tell_end(&current);
                self.follow_end(&current).await;
                Ok(*current)
            }
            Err(ApplyError::Refused { current, .. }) if current.already_applied(event) => {
                self.changes.tell(Subject::Task(*key));
                Ok(*current)
            }
            Ok(task) if event.ends_task() => {
                self.follow_end(&task).await;
                Ok(task)
            }
            other => other,
        }
    }

    /// The actions after each end that this process has written.
    async fn follow_end(&self, ended: &Task) {
        self.observer().ended(ended);
        self.notify_parent_and_children(ended).await;
    }

    /// Runs `attempt` until it returns anything but "unavailable", up to the usual limit of tries.
    pub(crate) async fn with_retry<T, F, Fut>(&self, attempt: F) -> Result<T, StoreError>
    where
        F: Fn() -> Fut,
        Fut: Future<Output = Result<T, StoreError>>,
    {
        self.retried(self.settings.write_tries_max, attempt).await
    }

    /// Runs `attempt` until it returns anything but "unavailable", up to this limit of tries. The pauses between the
    /// tries are random, so that writers that failed at the same time do not all come back at the same time.
    async fn retried<T, F, Fut>(&self, tries_max: u32, attempt: F) -> Result<T, StoreError>
    where
        F: Fn() -> Fut,
        Fut: Future<Output = Result<T, StoreError>>,
    {
        let mut delay_ms_max = self.settings.write_retry_ms;
        for _ in 1..tries_max {
            match attempt().await {
                Err(StoreError::Unavailable(cause)) => {
                    let delay_ms = self.ports.ids.delay_ms(delay_ms_max);
                    tracing::warn!(error = %cause, delay_ms, "the store did not answer; retrying");
                    self.ports.clock.sleep_ms(delay_ms).await;
                    delay_ms_max = delay_ms_max.saturating_mul(2);
                }
                other => return other,
            }
        }
        attempt().await
    }

    /// Records on the current span which task the request or delivery is about, if the span has fields for that.
    pub(crate) fn note_on_span(&self, task: &Task) {
        let span = tracing::Span::current();
        span.record("task_id", tracing::field::display(task.id));
        span.record("attempt", task.attempt);
        if let Some(trace) = &task.trace {
            span.record("trace", trace.as_str());
        }
    }

    /// Sends "work on this task". The message of an unfinished task comes at its deadline or before, and ends it then.
    /// A failure is logged and not fatal: the task is recorded, and a poll sends again.
    pub(crate) async fn send(&self, task: &Task, delay_ms: u64) -> Result<(), QueueError> {
        let delay_ms = if task.has_ended() { delay_ms } else { self.until_deadline_ms(task, delay_ms) };
        self.queue_of(&task.tool).send(&Message::about(task), delay_ms).await.inspect_err(|error| {
            tracing::warn!(task_id = %task.id, error = error as &dyn std::error::Error, "the message was not sent");
        })
    }

    /// This delay, or the time that is left until the task's deadline.
    pub(crate) fn until_deadline_ms(&self, task: &Task, delay_ms: u64) -> u64 {
        delay_ms.min(task.deadline().since_ms(self.now()))
    }

    /// Stores `text`: inline if it has at most `inline_max` bytes, otherwise in parts that are written now, before any
    /// record names them.
    pub(crate) async fn store_payload(
        &self,
        key: &TaskKey,
        name: PartsName,
        text: String,
        inline_max: usize,
    ) -> Result<Payload, StoreError> {
        let (payload, parts) = payload(name.clone(), text, inline_max);
        if !parts.is_empty() {
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            self.with_retry(|| self.store().put_parts(key, &name, &parts)).await?;
        }
        Ok(payload)
    }

    /// The text of `payload`. Costs no call if it is inline, and one call if it is in parts.
    pub async fn load(&self, key: &TaskKey, payload: &Payload) -> Result<String, LoadError> {
        match payload {
            Payload::Inline(text) => Ok(text.clone()),
            Payload::Parts { name, count, bytes } => {
                let text = self.with_retry(|| self.store().parts(key, name, *count)).await;
                let text = text.map_err(|error| self.not_loaded(error))?;
                text.filter(|text| text.len() as u64 == *bytes).ok_or(LoadError::Missing)
            }
        }
    }
}

impl Engine {
    /// Why something stored with a task could not be read.
    pub(crate) fn not_loaded(&self, error: StoreError) -> LoadError {
        match error {
            StoreError::Corrupt(_) => LoadError::Unreadable(error),
            StoreError::Unavailable(_) | StoreError::Lost(_) | StoreError::NewerVersion(_) => {
                self.unavailable(LoadError::Unavailable)(error)
            }
        }
    }
}

/// Separates the store error inside a creation error that may be worth a retry.
pub(crate) fn retriable_create<T>(created: Result<T, CreateError>) -> Result<Result<T, CreateError>, StoreError> {
    match created {
        Err(CreateError::Store(StoreError::Unavailable(cause))) => Err(StoreError::Unavailable(cause)),
        other => Ok(other),
    }
}

/// The form of `text` in a record: the text itself if it has at most `inline_max` bytes, otherwise the name of its
/// parts. The parts have to be written before the record.
pub(crate) fn payload(name: PartsName, text: String, inline_max: usize) -> (Payload, Vec<String>) {
    if text.len() <= inline_max {
        return (Payload::Inline(text), Vec::new());
    }
    let parts: Vec<String> = split(&text, limits::PART_BYTES).into_iter().map(str::to_owned).collect();
    let count = u32::try_from(parts.len()).unwrap_or(u32::MAX);
    (Payload::Parts { name, count, bytes: text.len() as u64 }, parts)
}
