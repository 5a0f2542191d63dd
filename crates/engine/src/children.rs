//! Tasks that tools make by calling other tools: how a parent learns of an end, and a child that its parent was ended.
//!
//! Whoever ends a child records how as a signal of the parent, which is woken by that. If that one dies in between, the
//! parent polls the child's record itself when nothing has woken it for a minute or more.
//!
//! Whoever ends a parent in another way than by a result cancels the children that its journal names. If that one dies
//! in between, or cannot see the journal, each child polls its parent at the beginning of each of its attempts; and
//! it does not sleep for longer than a quarter of an hour at a time.

use std::collections::BTreeSet;
use std::future::Future;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use longhaul_core::ports::StoreError;
use longhaul_core::{
    Entry, EntryKind, FailureKind, Parent, Payload, State, Status, Task, TaskEvent, TaskId, TaskKey, Timestamp, limits,
};
use serde::{Deserialize, Serialize};

use crate::suspension::Wait;
use crate::{AcceptError, Attempt, Call, Disposition, Engine, LoadError, PollError, SignalError};

/// How a child ended, as its parent's journal has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ChildEnd {
    /// With this result, as JSON text.
    Completed(String),
    /// With an error.
    Failed {
        /// In words.
        message: String,
        /// The error that its tool returned, as JSON text.
        detail: Option<String>,
    },
    /// Somebody cancelled it.
    Cancelled,
    /// Its result is larger than a step may be.
    TooLarge {
        /// How large.
        bytes: usize,
    },
    /// It expired or was forgotten before its parent saw its end.
    Gone,
}

/// Why a child was not made.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Too many tasks are above it.
    #[error("tools call each other at most {depth_max} deep, and this call would be one deeper")]
    TooDeep {
        /// The limit.
        depth_max: u8,
    },
    /// Its call was not accepted.
    #[error(transparent)]
    NotAccepted(#[from] AcceptError),
}

/// What the parent's journal says of a child, as the value of a step.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Called {
    child: TaskId,
    /// When it was made.
    at: Timestamp,
}

/// The task that a tool called, if this is the value of the step in which it did; for showing, since a tool may record
/// a value that looks like one.
#[must_use]
pub fn child_of(step: &serde_json::Value) -> Option<TaskId> {
    Called::deserialize(step).ok().map(|called| called.child)
}

impl Engine {
    async fn make_child(&self, parent: &Task, id: TaskId, mut call: Call) -> Result<Called, CallError> {
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
        let has_earlier_attempts = !ended.attempts.past.is_empty();
        if has_earlier_attempts && ended.status() != Status::Completed {
            self.cancel_children(ended).await;
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
                Err(LoadError::Missing) => return Ok(ChildEnd::Gone),
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

    /// Polls whether a child of `parent` has ended although nobody said so, and says so then. What cannot be read is
    /// read at the next poll.
    async fn poll_at_child(&self, parent: &TaskKey, child: TaskId) {
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
                Ok(journal) => {
                    let at_a_time = limits::CHILDREN_CANCELLED_AT_A_TIME;
                    let children = futures::stream::iter(unfinished(&journal));
                    children.for_each_concurrent(at_a_time, |child| self.cancel_child(ended, child)).await;
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(task_id = %ended.id, error, "children, if there are any, poll their parent \
                        themselves");
                }
            }
        };
        cancelling.boxed()
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
        let parent = claimed.parent?;
        let key = TaskKey::new(claimed.owner, parent.id);
        // What cannot be read is read at the next attempt.
        let found = self.with_retry(|| self.store().get(&key, self.now())).await.ok()??;
        let goes_on = !found.has_ended() || found.status() == Status::Completed;
        if goes_on {
            return None;
        }
        tracing::info!(task_id = %claimed.id, parent = %parent.id, "the parent was ended, and so is its child");
        Some(self.end_for_good(claimed, TaskEvent::Cancel).await)
    }
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
        Payload::Inline(text) => serde_json::from_str::<Called>(text).ok(),
        Payload::Parts { .. } => None,
    });
    called.map(|called| called.child).filter(|child| !ended.contains(child.to_string().as_str())).collect()
}

impl ChildEnd {
    pub(crate) fn read(text: &str) -> Result<Self, (FailureKind, String)> {
        serde_json::from_str(text)
            .map_err(|error| (FailureKind::Corrupt, format!("the end of a child cannot be read: {error}")))
    }
}

/// Why a child was not made.
enum Unmade<E> {
    /// There is room for it when another child has ended.
    NoRoomYet,
    /// There is none, or something else is wrong.
    Refused(E),
}

impl Attempt {
    /// Makes the task `id` of the call that `prepare` returns, once, and returns how it ended. Nothing runs while it
    /// has not: its end starts the next attempt. The call takes two entries of the journal: the step `name`, and the
    /// end.
    ///
    /// If the owner may have no more unfinished tasks, it is made when another call of this task has ended.
    ///
    /// # Errors
    /// Those of `prepare`, and [`CallError`]. They are not recorded.
    pub async fn call<E, F, Fut>(&self, name: &str, id: TaskId, prepare: F) -> Result<ChildEnd, E>
    where
        E: From<CallError>,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Call, E>>,
    {
        let text = match self.step(name, async || self.make_child(id, prepare).await).await {
            Ok(text) => text,
            Err(Unmade::Refused(error)) => return Err(error),
            Err(Unmade::NoRoomYet) => return self.wait_for_room().await,
        };
        let called: Called = match serde_json::from_str(&text) {
            Ok(called) => called,
            Err(error) => {
                let message = format!("step `{name}` is on record, and is not the call that the tool expects: {error}");
                return self.fail(FailureKind::Corrupt, message).await;
            }
        };
        self.note_open(called.child);
        Ok(self.child_end(called).await)
    }

    async fn make_child<E, F, Fut>(&self, id: TaskId, prepare: F) -> Result<String, Unmade<E>>
    where
        E: From<CallError>,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Call, E>>,
    {
        let call = prepare().await.map_err(Unmade::Refused)?;
        let children = &self.shared().children;
        let making = children.making.read().await;
        if children.awaited().is_some() {
            return Err(Unmade::NoRoomYet);
        }
        match self.shared().engine.make_child(self.task(), id, call).await {
            Ok(called) => {
                self.note_open(id);
                // An id and a number can always be written as JSON.
                Ok(serde_json::to_string(&called).unwrap_or_default())
            }
            Err(error @ CallError::NotAccepted(AcceptError::TooManyOpen { .. })) => {
                drop(making);
                let _decided = children.making.write().await;
                children.lock().is_full = true;
                Err(children.awaited().map_or_else(|| Unmade::Refused(error.into()), |_| Unmade::NoRoomYet))
            }
            Err(error) => Err(Unmade::Refused(error.into())),
        }
    }

    /// Notes a child whose end this attempt does not know.
    fn note_open(&self, child: TaskId) {
        if !self.lock_journal().contains_key(&(EntryKind::Signal, child.to_string())) {
            self.shared().children.lock().open.insert(child);
        }
    }

    /// Ends the attempt, until a child ends.
    async fn wait_for_room<T>(&self) -> T {
        let now = self.now();
        let _waiting = self.shared().children.awaited().map(|child| {
            let poll_at = now.plus_ms(limits::SIGNAL_POLL_MS_FIRST);
            self.shared().suspend.wait(Wait::Signal { name: child.to_string(), poll_at })
        });
        std::future::pending().await
    }

    /// Makes the task `id` of the call that `prepare` returns, once, and does not wait for it: it is no child, and goes
    /// on whatever becomes of this task. The call takes one entry of the journal: the step `name`.
    ///
    /// # Errors
    /// Those of `prepare`, and [`CallError::NotAccepted`]. They are not recorded.
    pub async fn begin<E, F, Fut>(&self, name: &str, id: TaskId, prepare: F) -> Result<(), E>
    where
        E: From<CallError>,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Call, E>>,
    {
        let make = async || {
            let call = prepare().await?;
            self.shared().engine.accept_as(id, call).await.map_err(CallError::from)?;
            // An id can always be written as JSON.
            Ok::<_, E>(serde_json::to_string(&id).unwrap_or_default())
        };
        self.step(name, make).await.map(drop)
    }

    async fn child_end(&self, called: Called) -> ChildEnd {
        let name = called.child.to_string();
        if self.was_quiet() && !self.lock_journal().contains_key(&(EntryKind::Signal, name.clone())) {
            let _polling = self.shared().suspend.step_running();
            self.shared().engine.poll_at_child(&self.task().key(), called.child).await;
        }
        // Without a moment at which it stops to wait there is always one.
        let text = self.signal(&name, called.at, None).await.unwrap_or_default();
        match ChildEnd::read(&text) {
            Ok(end) => end,
            Err((kind, message)) => self.fail(kind, message).await,
        }
    }

    /// Whether nobody has woken the task since its last attempt, as if whoever should have done so had died.
    fn was_quiet(&self) -> bool {
        let attempts = &self.task().attempts;
        let (Some(last), Some(since)) = (attempts.past.last(), attempts.since) else { return false };
        since.since_ms(last.to) >= limits::SIGNAL_POLL_MS_FIRST
    }
}
