//! Tasks that tools make by calling other tools: how a parent learns of an end, and a child that its parent was ended.
//!
//! The process that ends a child records how as a signal of the parent, which is woken by that. If that one dies in
//! between, the parent polls the child's record itself when nothing has woken it for a minute or more.
//!
//! The process that ends a parent in another way than by a result cancels the children that its journal names. The
//! attempt that ran meanwhile cancels those that it knows. They may die in between, or be unable to read the journal.
//! So each child polls its parent at the beginning of each of its attempts, and once a minute while one runs. It does
//! not sleep for longer than a quarter of an hour at a time.

use std::collections::BTreeSet;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use longhaul_core::ports::StoreError;
use longhaul_core::{
    Entry, EntryKind, Parent, Payload, State, Status, Task, TaskEvent, TaskId, TaskKey, limits, strict_json,
};

use crate::child::Called;
use crate::{Attempt, Call, CallError, ChildEnd, Disposition, Engine, LoadError, PollError, SignalError};

impl Engine {
    /// Makes the child `id` of `parent`.
    pub(crate) async fn make_child(&self, parent: &Task, id: TaskId, mut call: Call) -> Result<Called, CallError> {
        let depth = parent.depth().saturating_add(1);
        if depth > limits::CHILD_DEPTH_MAX {
            return Err(CallError::TooDeep { depth_max: limits::CHILD_DEPTH_MAX });
        }
        let now = self.now();
        call.terms.run_ms = call.terms.run_ms.min(parent.deadline().since_ms(now).max(1));
        self.accept_below(Some(Parent { id: parent.id, depth }), id, call).await?;
        Ok(Called { child: id, at: now })
    }

    /// Tells those above and below a task that it has ended.
    pub(crate) async fn notify_parent_and_children(&self, ended: &Task) {
        if let Some(parent) = ended.parent {
            self.tell_parent(ended, parent).await;
        }
        // The first attempt of a task knows its children itself, unless it has died.
        let first_died = ended.held_until.is_some_and(|until| until <= self.now());
        let has_earlier_attempts = !ended.attempts.past.is_empty();
        if (has_earlier_attempts || first_died) && ended.status() != Status::Completed {
            self.cancel_children(ended).await;
        }
    }

    /// Cancels the children that an attempt knows, if its task has ended otherwise than by a result. The
    /// task of an attempt without a result (`has_result`) has ended so if its record is gone: a client cancelled and
    /// forgot it.
    pub(crate) async fn cancel_open_children(&self, attempt: &Attempt, has_result: bool) {
        let open: Vec<TaskId> = attempt.shared().children.lock().open.iter().copied().collect();
        if open.is_empty() {
            return;
        }
        let key = attempt.task().key();
        match self.with_retry(|| self.store().get(&key, self.now())).await {
            Ok(Some(parent)) if was_ended(&parent) => self.cancel_each(&parent, open).await,
            Ok(None) if !has_result => self.cancel_each(attempt.task(), open).await,
            Ok(_) => {}
            Err(error) => log_not_cancelled(&key, &error),
        }
    }

    /// Boxed, because a signal wakes its task by a write, and every write may come here.
    fn tell_parent<'a>(&'a self, ended: &'a Task, parent: Parent) -> BoxFuture<'a, ()> {
        let telling = async move {
            let told = match self.child_end(ended).await {
                Ok(end) => self.record_child_end(&TaskKey::new(ended.owner, parent.id), ended.id, &end).await,
                Err(error) => Err(SignalError::Unavailable(error)),
            };
            if let Err(error) = told {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(task_id = %ended.id, parent = %parent.id, error, "the parent looks for the end itself");
            }
        };
        telling.boxed()
    }

    async fn record_child_end(&self, parent: &TaskKey, child: TaskId, end: &ChildEnd) -> Result<(), SignalError> {
        let text = signal_of(end);
        match self.record_signal(parent, &child.to_string(), &text).await {
            // A parent that has ended waits for nothing.
            Ok(_) | Err(SignalError::NotFound | SignalError::Ended) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn child_end(&self, ended: &Task) -> Result<ChildEnd, StoreError> {
        let loaded = match ended.state.outcome() {
            Some(outcome) => match self.load(&ended.key(), outcome).await {
                Ok(text) => Some(text),
                // Its parent must not wait for what will not come.
                Err(LoadError::Missing | LoadError::Unreadable(_)) => return Ok(ChildEnd::Gone),
                Err(LoadError::Unavailable(error)) => return Err(error),
            },
            None => None,
        };
        Ok(match &ended.state {
            State::Completed { .. } => ChildEnd::Completed(loaded.unwrap_or_default()),
            State::Failed { failure } => ChildEnd::Failed { message: failure.message.clone(), detail: loaded },
            State::Cancelled
            | State::Queued
            | State::Running { .. }
            | State::Sleeping { .. }
            | State::InputRequired { .. } => ChildEnd::Cancelled,
        })
    }

    /// Polls whether a child of `parent` has ended without a signal, and records the signal then. A child that cannot
    /// be read is read at the next poll.
    pub(crate) async fn poll_at_child(&self, parent: &TaskKey, child: TaskId) {
        let end = match self.poll(&TaskKey::new(parent.owner, child)).await {
            Ok(task) if !task.has_ended() => return,
            Ok(task) => self.child_end(&task).await,
            Err(PollError::NotFound) => Ok(ChildEnd::Gone),
            Err(PollError::Unavailable(error)) => Err(error),
        };
        let told = match end {
            Ok(end) => self.record_child_end(parent, child, &end).await,
            Err(error) => Err(SignalError::Unavailable(error)),
        };
        if let Err(error) = told {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(task_id = %parent.id, %child, error, "the end of a child is looked for again later");
        }
    }

    fn cancel_children<'a>(&'a self, ended: &'a Task) -> BoxFuture<'a, ()> {
        let cancelling = async move {
            let key = ended.key();
            match self.with_retry(|| self.store().journal(&key)).await {
                Ok(journal) => self.cancel_each(ended, unfinished(&journal)).await,
                Err(error) => log_not_cancelled(&key, &error),
            }
        };
        cancelling.boxed()
    }

    async fn cancel_each(&self, parent: &Task, children: Vec<TaskId>) {
        let children = futures::stream::iter(children);
        let at_a_time = limits::CHILDREN_CANCELLED_AT_A_TIME;
        children.for_each_concurrent(at_a_time, |child| self.cancel_child(parent, child)).await;
    }

    async fn cancel_child(&self, parent: &Task, child: TaskId) {
        let key = TaskKey::new(parent.owner, child);
        let found = self.with_retry(|| self.store().get(&key, self.now())).await.map_err(PollError::Unavailable);
        // A step of the tool's own may look like a call.
        let is_child = |task: &Task| task.parent.is_some_and(|of| of.id == parent.id) && !task.has_ended();
        let cancelled = match found {
            Ok(Some(task)) if is_child(&task) => self.cancel(&key).await.map(|_task| ()),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error @ PollError::Unavailable(_)) = cancelled {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(task_id = %child, error, "a child polls its parent itself");
        }
    }

    /// Cancels a claimed task whose parent has ended otherwise than by a result. Returns what to do with its message
    /// then.
    pub(crate) async fn cancel_if_parent_ended(&self, claimed: &Task) -> Option<Disposition> {
        if !self.has_parent_ended(claimed).await {
            return None;
        }
        Some(self.end_for_good(claimed, TaskEvent::Cancel).await)
    }

    /// Whether the parent of `child` has ended otherwise than by a result.
    pub(crate) async fn has_parent_ended(&self, child: &Task) -> bool {
        let Some(parent) = child.parent else { return false };
        let key = TaskKey::new(child.owner, parent.id);
        // What cannot be read is read at the next poll.
        let found = self.with_retry(|| self.store().get(&key, self.now())).await;
        let has_ended = matches!(found, Ok(Some(parent)) if was_ended(&parent));
        if has_ended {
            tracing::info!(task_id = %child.id, parent = %parent.id, "the parent was ended, and so is its child");
        }
        has_ended
    }
}

/// Whether a parent has ended otherwise than by a result.
fn was_ended(parent: &Task) -> bool {
    parent.has_ended() && parent.status() != Status::Completed
}

fn log_not_cancelled(parent: &TaskKey, error: &StoreError) {
    let error = error as &dyn std::error::Error;
    tracing::warn!(task_id = %parent.id, error, "children, if there are any, poll their parent themselves");
}

fn signal_of(end: &ChildEnd) -> String {
    let text = serde_json::to_string(end).unwrap_or_default();
    if text.len() <= limits::ENTRY_BYTES_MAX {
        return text;
    }
    serde_json::to_string(&ChildEnd::TooLarge { bytes: text.len() }).unwrap_or_default()
}

/// The children that a journal names, without those whose end it has.
fn unfinished(journal: &[Entry]) -> Vec<TaskId> {
    let signals = journal.iter().filter(|entry| entry.kind == EntryKind::Signal);
    let ended: BTreeSet<&str> = signals.map(|entry| entry.name.as_str()).collect();
    let calls = journal.iter().filter(|entry| entry.kind == EntryKind::Step);
    let called = calls.filter_map(|entry| match &entry.value {
        Payload::Inline(text) => strict_json::from_str::<Called>(text).ok(),
        Payload::Parts { .. } => None,
    });
    called.map(|called| called.child).filter(|child| !ended.contains(child.to_string().as_str())).collect()
}
