//! The notifications of a task: that it ended, that it waits for its client, or that its cleanup is given up.

use serde::{Deserialize, Serialize};

use crate::{Cleanup, FailureKind, State, Status, Task, TaskId, TaskKey, Timestamp, TraceParent};

/// The message for a task whose cleanup is given up.
pub const CLEANUP_GIVEN_UP: &str = "what the task left could not be cleaned up; the server's log says why";

/// A notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotificationKind {
    /// The task ended with a result.
    Completed,
    /// It ended with an error.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// It waits for its client's answers.
    InputRequired,
    /// It has ended, not with success, and a part of its resources could not be cleaned up.
    CleanupGivenUp,
}

impl NotificationKind {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Completed, Self::Failed, Self::Cancelled, Self::InputRequired, Self::CleanupGivenUp];

    /// Its name: that of the task's status, where it is about that.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => Status::Completed.as_str(),
            Self::Failed => Status::Failed.as_str(),
            Self::Cancelled => Status::Cancelled.as_str(),
            Self::InputRequired => Status::InputRequired.as_str(),
            Self::CleanupGivenUp => "cleanup_given_up",
        }
    }

    /// The notification of a task that has reached this status.
    const fn of(status: Status) -> Option<Self> {
        match status {
            Status::Working => None,
            Status::InputRequired => Some(Self::InputRequired),
            Status::Completed => Some(Self::Completed),
            Status::Failed => Some(Self::Failed),
            Status::Cancelled => Some(Self::Cancelled),
        }
    }
}

/// That a task has ended, waits for its client, or could not be cleaned up. It has no arguments, no messages of the
/// tool, and no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// Which task.
    pub task: TaskKey,
    /// The kind of event.
    pub what: NotificationKind,
    /// The attempt that the task had: a task may wait for its client several times, each time in another attempt.
    pub attempt: u32,
    /// When.
    pub at: Timestamp,
    /// Which tool was called.
    pub tool: String,
    /// Why the task failed, where that is not in the words of its tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The trace that the call belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "TraceParent::or_none")]
    pub trace: Option<TraceParent>,
}

impl Notification {
    /// The notification of a task that changes from `before` to `after`. Nothing of [webhook
    /// deliveries](crate::WEBHOOK_DELIVERY_TOOL).
    #[must_use]
    pub fn between(before: &Task, after: &Task) -> Option<Self> {
        if before.status() != after.status() {
            return Self::of(after);
        }
        let is_given_up = before.cleanup != Cleanup::GivenUp && after.cleanup == Cleanup::GivenUp;
        let notification = if is_given_up { Self::of(after) } else { None };
        notification.map(|notification| Self {
            what: NotificationKind::CleanupGivenUp,
            message: Some(CLEANUP_GIVEN_UP.to_owned()),
            ..notification
        })
    }

    /// The notification of a task that has just reached its status.
    #[must_use]
    pub fn of(task: &Task) -> Option<Self> {
        if task.is_webhook_delivery() {
            return None;
        }
        Some(Self {
            task: task.key(),
            what: NotificationKind::of(task.status())?,
            attempt: task.attempt,
            at: task.ended_at.unwrap_or(task.updated_at),
            tool: task.tool.clone(),
            message: message(task),
            trace: task.trace,
        })
    }

    /// The same for the same notification, and for no other.
    #[must_use]
    pub fn id(&self) -> String {
        let Self { task: TaskKey { id, .. }, what, attempt, .. } = self;
        match what {
            NotificationKind::Completed
            | NotificationKind::Failed
            | NotificationKind::Cancelled
            | NotificationKind::CleanupGivenUp => format!("evt_{id}_{}", what.as_str()),
            NotificationKind::InputRequired => format!("evt_{id}_{}_{attempt}", what.as_str()),
        }
    }

    /// The id of the task that delivers this to `endpoint`. It is always the same. Only a caller who knows the id of
    /// the published task can guess it.
    #[must_use]
    pub fn webhook_delivery_id(&self, endpoint: &str) -> TaskId {
        let event = self.id();
        let words = [self.task.owner.as_bytes(), event.as_bytes(), endpoint.as_bytes()];
        TaskId::derived(self.at, &words)
    }
}

/// Errors of tools may quote what they were called with: they stay with the task.
fn message(task: &Task) -> Option<String> {
    match &task.state {
        State::Failed { failure } if failure.kind != FailureKind::Tool => Some(match failure.kind {
            // It ends with the words of the tool's last attempt.
            FailureKind::RetriesExhausted => "no retries are left".to_owned(),
            FailureKind::Tool
            | FailureKind::TimedOut
            | FailureKind::TooLarge
            | FailureKind::Corrupt
            | FailureKind::Misuse => failure.message.clone(),
        }),
        State::Failed { .. }
        | State::Queued
        | State::Running { .. }
        | State::Sleeping { .. }
        | State::InputRequired { .. }
        | State::Completed { .. }
        | State::Cancelled => None,
    }
}
