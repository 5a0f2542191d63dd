//! A task store that lies.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ports::{
    ApplyError, CreateError, Created, Left, Message, NewTask, Page, Recorded, StoreError, TaskStore, WorkQueue,
};
use longhaul_core::{
    Entry, EntryKind, MailboxId, OwnerId, PartsName, Payload, Refusal, State, Suspension, Task, TaskEvent, TaskId,
    TaskKey, Timestamp,
};

use super::super::planted::PlantedFault;
use super::memo::{Instance, Memo};

/// Far away: no world lasts that long.
const FAR_MS: u64 = 1 << 40;

pub(super) struct LyingStore {
    fault: PlantedFault,
    instance: Instance,
    inner: Arc<dyn TaskStore>,
    queue: Arc<dyn WorkQueue>,
    memo: Arc<Memo>,
}

impl LyingStore {
    pub(super) const fn new(
        fault: PlantedFault,
        instance: Instance,
        inner: Arc<dyn TaskStore>,
        queue: Arc<dyn WorkQueue>,
        memo: Arc<Memo>,
    ) -> Self {
        Self { fault, instance, inner, queue, memo }
    }

    /// Reports a write as done, and writes nothing.
    async fn unchanged(&self, key: &TaskKey, now: Timestamp) -> Result<Task, ApplyError> {
        self.inner.get(key, now).await?.ok_or(ApplyError::NotFound)
    }

    /// The resend that a poll without a bound adds to every read of a task.
    async fn resend(&self, task: Task, now: Timestamp) -> Task {
        let event = TaskEvent::Resend { not_since: now.plus_ms(1) };
        match self.inner.apply(&task.key(), &event, now).await {
            Ok(task) => {
                let message = Message { task: task.key(), trace: task.trace };
                let _lost = self.queue.send(&message, 0).await;
                task
            }
            Err(_) => task,
        }
    }

    /// The answer to a write that the faulty engine does not do; `None` if it does this one.
    async fn replacement_for(
        &self,
        key: &TaskKey,
        event: &TaskEvent,
        now: Timestamp,
    ) -> Option<Result<Task, ApplyError>> {
        match (self.fault, event) {
            (PlantedFault::LeaseNotRenewed, TaskEvent::Heartbeat { .. }) => {
                let unchanged = self.unchanged(key, now).await;
                self.memo.set(key);
                Some(unchanged)
            }
            (PlantedFault::VariablesNotWritten, TaskEvent::SetVariables { .. }) => Some(self.unchanged(key, now).await),
            (PlantedFault::CancelNotWritten, TaskEvent::Cancel) => {
                let current = self.unchanged(key, now).await;
                Some(current.map(|task| task.apply(event, now).unwrap_or(task)))
            }
            (
                PlantedFault::RecoveryNever,
                TaskEvent::Resend { .. } | TaskEvent::RetriesExhausted | TaskEvent::TimeOut,
            ) if self.instance == Instance::Api => {
                let current = self.unchanged(key, now).await;
                Some(current.and_then(|task| {
                    let why = Refusal::SentAlready { at: task.sent_at };
                    Err(ApplyError::Refused { current: Box::new(task), why })
                }))
            }
            _ => None,
        }
    }

    /// Leaves a memo for the queue if the message that follows this answer should be dropped.
    fn note(&self, key: &TaskKey, event: &TaskEvent, answer: &Result<Task, ApplyError>) {
        let written = match answer {
            Ok(task) => Some(task),
            Err(ApplyError::Refused { current, .. }) if current.already_applied(event) => Some(&**current),
            Err(_) => None,
        };
        let refused = match answer {
            Err(ApplyError::Refused { current, why }) if written.is_none() => Some((&**current, *why)),
            _ => None,
        };
        let dropped = match (self.fault, event) {
            (PlantedFault::AnswerWithoutMessage, TaskEvent::Answer { .. })
            | (PlantedFault::CleaningNotSent | PlantedFault::CleaningBesideTheTool, TaskEvent::Cancel) => true,
            (PlantedFault::SleepForgotten, TaskEvent::Suspend { suspension: Suspension::Timer(_), .. })
            | (PlantedFault::RetryNotSent, TaskEvent::Retry { .. }) => written.is_some(),
            (PlantedFault::LeasedMessageDropped, TaskEvent::Claim { .. }) => {
                matches!(refused, Some((_, Refusal::Leased { .. })))
            }
            (PlantedFault::EarlyMessageDropped, TaskEvent::Claim { .. }) => match refused {
                Some((_, Refusal::NotDue { .. })) => true,
                Some((task, Refusal::WaitsForInput)) => {
                    matches!(task.state, State::InputRequired { until: Some(_), .. })
                }
                _ => false,
            },
            _ => false,
        };
        if dropped {
            self.memo.set(key);
        }
    }

    /// The answer that the faulty engine believes it got.
    fn changed(&self, event: &TaskEvent, answer: Result<Task, ApplyError>) -> Result<Task, ApplyError> {
        match (self.fault, event, answer) {
            (
                PlantedFault::CancelIgnored,
                TaskEvent::Heartbeat { .. },
                Err(ApplyError::Refused { current, why: Refusal::Ended }),
            ) => Ok(*current),
            (
                PlantedFault::ArgumentsLost | PlantedFault::DeadlineIgnored,
                TaskEvent::Claim { .. },
                Err(ApplyError::Refused { current, .. }),
            ) if current.already_applied(event) => Ok(self.claimed(*current)),
            (_, TaskEvent::Claim { .. }, Ok(task)) => Ok(self.claimed(task)),
            (_, _, answer) => answer,
        }
    }

    /// The task that is over as it is shown to the worker that may clean it.
    fn seen_after_the_end(&self, task: Task, now: Timestamp) -> Task {
        if self.fault == PlantedFault::CleaningBesideTheTool {
            return ended_long_ago(task);
        }
        let mut record = task.into_record();
        match (self.fault, &record.state) {
            (PlantedFault::CompletedIsCleaned, State::Completed { .. }) if record.expires_at > now => {
                record.state = State::Cancelled;
            }
            _ => {}
        }
        Task::restore(record)
    }

    /// The task as it is shown to the worker that claimed it.
    fn claimed(&self, task: Task) -> Task {
        let mut record = task.into_record();
        match self.fault {
            PlantedFault::ArgumentsLost if record.attempt > 1 => record.request = Payload::Inline("{}".to_owned()),
            PlantedFault::DeadlineIgnored => record.terms.run_ms = FAR_MS,
            _ => {}
        }
        Task::restore(record)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl TaskStore for LyingStore {
    async fn create(&self, mut new: NewTask, now: Timestamp) -> Result<Created, CreateError> {
        match self.fault {
            PlantedFault::MessageBeforeRecord => {
                let message = Message { task: new.task.key(), trace: new.task.trace };
                let _lost = self.queue.send(&message, 0).await;
            }
            PlantedFault::KeyNotPassedOn => new.idempotency = None,
            _ => {}
        }
        self.inner.create(new, now).await
    }

    async fn get(&self, key: &TaskKey, now: Timestamp) -> Result<Option<Task>, StoreError> {
        match self.inner.get(key, now).await? {
            Some(task) if self.instance == Instance::Worker => Ok(Some(self.seen_after_the_end(task, now))),
            Some(task) if self.fault == PlantedFault::RecoveryWithoutBound && self.instance == Instance::Api => {
                Ok(Some(self.resend(task, now).await))
            }
            found => Ok(found),
        }
    }

    async fn apply(&self, key: &TaskKey, event: &TaskEvent, now: Timestamp) -> Result<Task, ApplyError> {
        self.memo.clear();
        if let (
            PlantedFault::LookIsRecorded,
            TaskEvent::Suspend { attempt, suspension: Suspension::Timer(until), .. },
        ) = (self.fault, event)
        {
            let value = Payload::Inline(until.as_ms().to_string());
            let entry = Entry { kind: EntryKind::Timer, name: format!("look {attempt}"), value, recording: None };
            self.inner.record(key, &entry).await?;
        }
        if let Some(answer) = self.replacement_for(key, event, now).await {
            return answer;
        }
        let answer = self.inner.apply(key, event, now).await;
        self.note(key, event, &answer);
        self.changed(event, answer)
    }

    async fn list(
        &self,
        owner: &OwnerId,
        before: Option<TaskId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        self.inner.list(owner, before, limit, now).await
    }

    async fn record(&self, key: &TaskKey, entry: &Entry) -> Result<Recorded, StoreError> {
        if self.fault == PlantedFault::AnswerWithoutRecord && entry.kind == EntryKind::Answer {
            return Ok(Recorded::First);
        }
        match self.inner.record(key, entry).await? {
            Recorded::Earlier(_) if self.fault == PlantedFault::StepGivesItsOwnValue => Ok(Recorded::First),
            Recorded::Earlier(_) if self.fault == PlantedFault::LookIntervalRestarts && says_since(entry) => {
                Ok(Recorded::First)
            }
            recorded => Ok(recorded),
        }
    }

    async fn journal(&self, key: &TaskKey) -> Result<Vec<Entry>, StoreError> {
        let mut journal = self.inner.journal(key).await?;
        match self.fault {
            PlantedFault::StepRunAgain => journal.retain(|entry| entry.kind != EntryKind::Step),
            PlantedFault::AnswerAskedAgain => journal.retain(|entry| entry.kind != EntryKind::Answer),
            PlantedFault::LookIntervalRestarts => journal.retain(|entry| !says_since(entry)),
            PlantedFault::SleepCutShort => {
                for timer in journal.iter_mut().filter(|entry| entry.kind == EntryKind::Timer) {
                    timer.value = Payload::Inline("0".to_owned());
                }
            }
            _ => {}
        }
        Ok(journal)
    }

    async fn put_parts(&self, key: &TaskKey, name: &PartsName, parts: &[&str]) -> Result<(), StoreError> {
        if self.fault == PlantedFault::PartsAfterRecord && matches!(name, PartsName::Outcome { .. }) {
            return Ok(());
        }
        self.inner.put_parts(key, name, parts).await
    }

    async fn parts(&self, key: &TaskKey, name: &PartsName, count: u32) -> Result<Option<String>, StoreError> {
        self.inner.parts(key, name, count).await
    }
    async fn leave(
        &self,
        owner: &OwnerId,
        mailbox: &MailboxId,
        text: &str,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<Left, StoreError> {
        self.inner.leave(owner, mailbox, text, expires_at, now).await
    }

    async fn collect(
        &self,
        owner: &OwnerId,
        mailbox: &MailboxId,
        now: Timestamp,
    ) -> Result<Option<String>, StoreError> {
        self.inner.collect(owner, mailbox, now).await
    }
}

/// Whether the entry says when an interval between looks began.
fn says_since(entry: &Entry) -> bool {
    entry.kind == EntryKind::Timer && entry.name.starts_with("since ")
}

/// The task as if no leg could have run for a long time.
fn ended_long_ago(task: Task) -> Task {
    let mut record = task.into_record();
    record.ended_at = record.ended_at.map(|_| Timestamp::from_ms(0));
    record.held_until = None;
    Task::restore(record)
}
