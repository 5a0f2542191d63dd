//! The queue of messages that say "work on this task".

use std::error::Error;

use async_trait::async_trait;

use crate::{Task, TaskKey, TraceParent};

/// A queue that could not answer.
#[derive(Debug, thiserror::Error)]
#[error("the queue is not available")]
pub struct QueueError(#[source] pub Box<dyn Error + Send + Sync>);

/// "Work on this task." Carries the key, and nothing else that is in the record but the trace and the
/// attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Which task.
    pub task: TaskKey,
    /// The trace that the call belongs to.
    pub trace: Option<TraceParent>,
    /// The task's highest attempt when it was sent, if that is known. The first delivery of a message may come after a
    /// later attempt. Then another message started that attempt, and this one may be deleted.
    pub attempt: Option<u32>,
}

impl Message {
    /// "Work on this task", as it is recorded.
    #[must_use]
    pub fn about(task: &Task) -> Self {
        Self { task: task.key(), trace: task.trace, attempt: Some(task.attempt) }
    }

    /// "A permit is free": for a task that waits for one, and has another message that comes later.
    #[must_use]
    pub const fn extra(task: TaskKey) -> Self {
        Self { task, trace: None, attempt: Some(u32::MAX) }
    }

    /// Whether the task has another message.
    #[must_use]
    pub fn is_extra(&self) -> bool {
        self.attempt == Some(u32::MAX)
    }
}

/// One delivery of a message. A message may be delivered several times, and a task may have several messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The sent message.
    pub message: Message,
    /// Identifies this delivery to the queue.
    pub receipt: String,
    /// How often the message was delivered, this delivery included.
    pub receives: u32,
    /// Its purpose.
    pub purpose: Purpose,
}

/// The purpose of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Purpose {
    /// The engine sent it: "work on this task".
    #[default]
    Work,
    /// Another system sent it, where others may send to a queue: "the awaited event may have happened".
    Wake,
}

/// A queue that delivers every message at least once.
#[async_trait]
pub trait WorkQueue: Send + Sync {
    /// Sends a message that becomes visible after `delay_ms`. Once it returns, the message will be delivered. An
    /// adapter whose longest delay is shorter uses that: the engine sends a message that comes early again.
    ///
    /// # Errors
    /// [`QueueError`]; the message may have been sent.
    async fn send(&self, message: &Message, delay_ms: u64) -> Result<(), QueueError>;

    /// Up to `max` visible messages, each hidden for `visibility_ms`; waits up to `wait_ms` for the first one. A
    /// message that was delivered too often goes to the dead letters instead.
    ///
    /// Which of the visible messages it delivers is the queue's decision. It should let the owners take turns, so that
    /// many messages of one owner do not keep those of another waiting.
    ///
    /// It need not be durable when it returns. If the queue itself dies right after, the message may be visible again,
    /// and this delivery may not count.
    async fn receive(&self, max: usize, visibility_ms: u64, wait_ms: u64) -> Result<Vec<Delivery>, QueueError>;

    /// Hides the delivery's message for `visibility_ms` from now on; 0 makes it visible at once. Does nothing if the
    /// receipt is no longer the latest of its message, or the message is gone. It need not be durable when it returns:
    /// if the queue itself dies right after, the message may be visible at another time.
    async fn extend(&self, receipt: &str, visibility_ms: u64) -> Result<(), QueueError>;

    /// Deletes the delivery's message. Once it returns, the message is not delivered again, unless the queue itself
    /// dies right after: it need not be durable when it returns. Does nothing if the receipt is no longer the latest of
    /// its message, or the message is gone.
    async fn delete(&self, receipt: &str) -> Result<(), QueueError>;

    /// Up to `max` dead letters, each hidden for `visibility_ms`; [`delete`](Self::delete) takes their receipts too.
    async fn receive_dead(&self, max: usize, visibility_ms: u64) -> Result<Vec<Delivery>, QueueError>;
}
