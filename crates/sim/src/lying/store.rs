//! A task store that lies.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use longhaul_core::ports::{
    ApplyError, CreateError, Created, Left, Message, NewTask, Recorded, StoreError, TaskStore, WorkQueue,
};
use longhaul_core::{
    Entry, EntryKind, MailboxId, OwnerId, PartsName, Payload, Refusal, State, Suspension, Task, TaskEvent, TaskId,
    TaskKey, Timestamp,
};
use longhaul_testkit::StoreLayer;
use longhaul_testkit::models::PlantedFault;

use super::journal::{as_read, other_winner, says_since};
use super::memo::{Instance, Memo, has_ended};
use super::resumed::as_resumed;

/// Far away: no world lasts that long.
pub(super) const FAR_MS: u64 = 1 << 40;

pub(super) struct LyingStore {
    fault: PlantedFault,
    instance: Instance,
    inner: Arc<dyn TaskStore>,
    queue: Arc<dyn WorkQueue>,
    memo: Arc<Memo>,
    /// The task that this instance has just suspended.
    suspended: Memo,
    /// The task that no tool made, and that this instance has claimed last.
    ran: Memo,
    /// The parents that this instance has kept from learning of an end, and of whose.
    untold: Mutex<Vec<(TaskKey, String)>>,
}

impl LyingStore {
    pub(super) fn new(
        fault: PlantedFault,
        instance: Instance,
        inner: Arc<dyn TaskStore>,
        queue: Arc<dyn WorkQueue>,
        memo: Arc<Memo>,
    ) -> Self {
        Self {
            fault,
            instance,
            inner,
            queue,
            memo,
            suspended: Memo::default(),
            ran: Memo::default(),
            untold: Mutex::default(),
        }
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
                let message = Message { task: task.key(), trace: task.trace, attempt: Some(task.attempt) };
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
            (PlantedFault::CancelStopsAtParent, TaskEvent::Cancel) if self.instance == Instance::Api => {
                self.unchanged(key, now).await.ok().filter(|task| task.parent.is_some()).map(Ok)
            }
            (PlantedFault::SignalWithoutWake, TaskEvent::Wake { .. }) if self.instance == Instance::Api => {
                let current = self.unchanged(key, now).await;
                Some(
                    current.and_then(|task| {
                        Err(ApplyError::Refused { current: Box::new(task), why: Refusal::NothingToWake })
                    }),
                )
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
            | (PlantedFault::CleanupNotSent | PlantedFault::CleanupBesideTheTool, TaskEvent::Cancel) => true,
            (PlantedFault::DeadlineMessageTooLate, TaskEvent::Suspend { .. }) => {
                written.is_some_and(waits_past_deadline)
            }
            (PlantedFault::SleepForgotten, TaskEvent::Suspend { suspension: Suspension::Timer(_), .. })
            | (PlantedFault::RetryNotSent, TaskEvent::Retry { .. })
            | (PlantedFault::ResentWithoutMessage, TaskEvent::Resend { .. })
            | (PlantedFault::WakeWithoutMessage, TaskEvent::Wake { .. }) => written.is_some(),
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

    /// The event, with the progress that the faulty engine reports for its tool.
    fn with_progress(&self, mut event: TaskEvent) -> TaskEvent {
        if let (PlantedFault::ProgressCountsDown, TaskEvent::Heartbeat { progress: Some(progress), .. }) =
            (self.fault, &mut event)
        {
            progress.done = 100.0 - progress.done;
        }
        event
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

    /// The task that has ended as it is shown to the worker that may clean it.
    fn seen_after_the_end(&self, task: Task, now: Timestamp) -> Task {
        if self.fault == PlantedFault::CleanupBesideTheTool {
            return ended_long_ago(task);
        }
        let mut record = task.into_record();
        let is_completed = matches!(record.state, State::Completed { .. }) && record.expires_at > now;
        if is_completed && self.fault == PlantedFault::CompletedIsCleaned {
            record.state = State::Cancelled;
        }
        Task::restore(record)
    }

    /// Whether a worker with the mistake would not see this task, which an attempt may poll as its parent.
    fn polls_away(&self, task: &Task) -> bool {
        let is_hidden = match self.fault {
            PlantedFault::ParentNotChecked => true,
            PlantedFault::AttemptForgetsItsChildren => self.ran.holds(&task.key()),
            _ => false,
        };
        is_hidden && self.instance == Instance::Worker && is_ended_root(task)
    }

    /// Whether this instance records the end of this child for the first time.
    fn is_first(&self, parent: &TaskKey, child: &str) -> bool {
        let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
        let told = (*parent, child.to_owned());
        let is_first = !untold.contains(&told);
        if is_first {
            untold.push(told);
        }
        is_first
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
impl StoreLayer for LyingStore {
    fn inner(&self) -> &dyn TaskStore {
        &*self.inner
    }

    async fn create(&self, mut new: NewTask, now: Timestamp) -> Result<Created, CreateError> {
        match self.fault {
            PlantedFault::MessageBeforeRecord => {
                let message = Message { task: new.task.key(), trace: new.task.trace, attempt: Some(0) };
                let _lost = self.queue.send(&message, 0).await;
            }
            PlantedFault::KeyNotPassedOn => new.idempotency = None,
            _ => {}
        }
        if new.task.resumes.is_some() {
            new = as_resumed(self.fault, &*self.inner, new, now).await?;
        }
        let created = self.inner.create(new, now).await;
        if let (
            PlantedFault::LaterStartForgotten,
            Ok(Created::New(task) | Created::NewAndSent(task) | Created::Existing(task)),
        ) = (self.fault, &created)
            && task.awaited_start().is_some()
        {
            self.memo.set(&task.key());
        }
        created
    }

    async fn get(&self, key: &TaskKey, now: Timestamp) -> Result<Option<Task>, StoreError> {
        match self.inner.get(key, now).await? {
            Some(task) if self.polls_away(&task) => Ok(None),
            Some(task) if self.fault == PlantedFault::OverlapNotSeen && self.instance == Instance::Api => {
                Ok(Some(task).filter(Task::has_ended))
            }
            Some(task) if self.instance == Instance::Worker => Ok(Some(self.seen_after_the_end(task, now))),
            Some(task) if self.fault == PlantedFault::RecoveryWithoutBound && self.instance == Instance::Api => {
                Ok(Some(self.resend(task, now).await))
            }
            found => Ok(found),
        }
    }

    async fn apply(&self, key: &TaskKey, event: &TaskEvent, now: Timestamp) -> Result<Task, ApplyError> {
        self.memo.clear();
        let event = &self.with_progress(event.clone());
        if let (
            PlantedFault::PollIsRecorded,
            TaskEvent::Suspend { attempt, suspension: Suspension::Timer(until), .. },
        ) = (self.fault, event)
        {
            let value = Payload::Inline(until.as_ms().to_string());
            let entry = Entry { kind: EntryKind::Timer, name: format!("poll {attempt}"), value, recording: None };
            self.inner.record(key, &entry).await?;
        }
        if let Some(answer) = self.replacement_for(key, event, now).await {
            return answer;
        }
        let answer = self.inner.apply(key, event, now).await;
        if let (TaskEvent::Claim { .. }, Ok(task)) = (event, &answer)
            && task.parent.is_none()
        {
            self.ran.set(key);
        }
        match event {
            TaskEvent::Suspend { .. } if self.fault == PlantedFault::SuspendedWithoutCheck => self.suspended.set(key),
            _ => self.suspended.clear(),
        }
        self.note(key, event, &answer);
        self.changed(event, answer)
    }

    async fn record(&self, key: &TaskKey, entry: &Entry) -> Result<Recorded, StoreError> {
        if self.fault == PlantedFault::AnswerWithoutRecord && entry.kind == EntryKind::Answer {
            return Ok(Recorded::First);
        }
        let is_end_of_child = entry.kind == EntryKind::Signal && entry.name.parse::<TaskId>().is_ok();
        if is_end_of_child && self.fault == PlantedFault::EndNotToldToParent && self.is_first(key, &entry.name) {
            return Ok(Recorded::First);
        }
        if is_end_of_child && self.fault == PlantedFault::EndOfChildMadeUp {
            let value = Payload::Inline("\"cancelled\"".to_owned());
            return self.inner.record(key, &Entry { value, ..entry.clone() }).await;
        }
        if let Some(entry) =
            Some(entry).filter(|_| self.fault == PlantedFault::OtherBranchOnRecord).and_then(other_winner)
        {
            return self.inner.record(key, &entry).await;
        }
        match self.inner.record(key, entry).await? {
            Recorded::Earlier(_) if self.fault == PlantedFault::StepGivesItsOwnValue => Ok(Recorded::First),
            Recorded::Earlier(_) if self.fault == PlantedFault::PollIntervalRestarts && says_since(entry) => {
                Ok(Recorded::First)
            }
            recorded => Ok(recorded),
        }
    }

    async fn journal(&self, key: &TaskKey) -> Result<Vec<Entry>, StoreError> {
        if self.suspended.take() == Some(*key) {
            return Ok(Vec::new());
        }
        if self.fault == PlantedFault::ResumedRunsAgain
            && self.inner.get(key, Timestamp::from_ms(0)).await?.is_some_and(|task| task.resumes.is_some())
        {
            return Ok(Vec::new());
        }
        if self.fault == PlantedFault::UndoneWithoutRecord && has_ended(&*self.inner, key).await? {
            return Ok(Vec::new());
        }
        Ok(as_read(self.fault, self.inner.journal(key).await?))
    }

    async fn put_parts(&self, key: &TaskKey, name: &PartsName, parts: &[&str]) -> Result<(), StoreError> {
        if self.fault == PlantedFault::PartsAfterRecord && matches!(name, PartsName::Outcome { .. }) {
            return Ok(());
        }
        self.inner.put_parts(key, name, parts).await
    }

    async fn leave(
        &self,
        owner: &OwnerId,
        mailbox: &MailboxId,
        text: &str,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<Left, StoreError> {
        if self.fault == PlantedFault::TimeNotNoted && text.parse::<TaskId>().is_ok() {
            return Ok(Left::First);
        }
        self.inner.leave(owner, mailbox, text, expires_at, now).await
    }

    async fn collect(
        &self,
        owner: &OwnerId,
        mailbox: &MailboxId,
        now: Timestamp,
    ) -> Result<Option<String>, StoreError> {
        if self.fault == PlantedFault::EachTimeCountsAsHandled {
            return Ok(Some(TaskId::derived(now, &[]).to_string()));
        }
        self.inner.collect(owner, mailbox, now).await
    }
}

/// Whether this is a task that no tool made, and that has ended otherwise than by a result.
fn is_ended_root(task: &Task) -> bool {
    task.parent.is_none() && matches!(task.state, State::Cancelled | State::Failed { .. })
}

/// Whether nothing that the task itself waits for comes before its deadline.
fn waits_past_deadline(task: &Task) -> bool {
    match &task.state {
        State::Sleeping { until } | State::InputRequired { until: Some(until), .. } => *until >= task.deadline(),
        State::InputRequired { until: None, .. } => true,
        _ => false,
    }
}

/// The task as if no attempt could have run for a long time.
fn ended_long_ago(task: Task) -> Task {
    let mut record = task.into_record();
    record.ended_at = record.ended_at.map(|_| Timestamp::from_ms(0));
    record.held_until = None;
    Task::restore(record)
}
