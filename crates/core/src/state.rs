//! The states of a task, and what belongs to each.

use serde::{Deserialize, Serialize};

use crate::{Lease, Payload, Timestamp};

/// Where a task is in its life. A client sees fewer states: [`Status`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Waits for a worker: a message is in the queue.
    Queued,
    /// A worker holds it.
    Running {
        /// The worker's proof.
        lease: Lease,
    },
    /// Waits for a time: a timer of the tool, or the delay before a retry.
    Sleeping {
        /// Which time.
        until: Timestamp,
    },
    /// Waits for the client's answers.
    InputRequired {
        /// The questions that are still open; never empty.
        asks: Vec<Ask>,
        /// When the tool continues without the answers, if it set a timer alongside its questions.
        until: Option<Timestamp>,
    },
    /// Ended with a result.
    Completed {
        /// The result.
        result: Payload,
        /// Whether the tool succeeded.
        kind: ResultKind,
    },
    /// Ended with an error.
    Failed {
        /// The error.
        failure: Failure,
    },
    /// Ended because the client cancelled it.
    Cancelled,
}

/// The part of a [`State`] that a client sees (Tasks extension, "Task Status").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// Waiting for a worker, running, or asleep.
    Working,
    /// Waiting for the client.
    InputRequired,
    /// Ended with a result.
    Completed,
    /// Ended with an error.
    Failed,
    /// Ended because the client cancelled it.
    Cancelled,
}

/// One question to the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// Its name, unique within the task's life.
    pub key: String,
    /// The request as JSON text, opaque here.
    pub request: String,
}

/// How far the work is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Units done.
    pub done: f64,
    /// Units in total, if known.
    pub total: Option<f64>,
    /// For people.
    pub message: Option<String>,
}

/// Whether a result reports success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultKind {
    /// The tool did what it was asked to do.
    Success,
    /// The tool answered that it could not do what it was asked to do.
    ToolError,
}

/// Why a task failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of reason.
    pub kind: FailureKind,
    /// The reason in words that a client may read; at most [`crate::limits::MESSAGE_BYTES_MAX`] bytes.
    pub message: String,
    /// The error that the tool itself returned, as JSON text, opaque here.
    pub detail: Option<Payload>,
}

/// The kinds of reasons for a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The tool returned a protocol error.
    Tool,
    /// Too many consecutive attempts died or failed.
    #[serde(rename = "tries_used_up")]
    RetriesExhausted,
    /// The task did not end within the longest run that its tool allows.
    TimedOut,
    /// The result, a step or a question exceeds its limit.
    TooLarge,
    /// The record is unusable: a part is missing, or the tool does not expect a recorded step.
    Corrupt,
    /// The tool did something that cannot be made durable: used one name for two steps, or a name that is too long.
    Misuse,
}

impl State {
    /// The text that the task ended with: its result, or the error that the tool returned.
    #[must_use]
    pub const fn outcome(&self) -> Option<&Payload> {
        match self {
            Self::Completed { result, .. } => Some(result),
            Self::Failed { failure } => failure.detail.as_ref(),
            Self::Queued
            | Self::Running { .. }
            | Self::Sleeping { .. }
            | Self::InputRequired { .. }
            | Self::Cancelled => None,
        }
    }

    /// The questions that are open; none unless the task waits for the client.
    #[must_use]
    pub const fn asks(&self) -> &[Ask] {
        match self {
            Self::InputRequired { asks, .. } => asks.as_slice(),
            Self::Queued
            | Self::Running { .. }
            | Self::Sleeping { .. }
            | Self::Completed { .. }
            | Self::Failed { .. }
            | Self::Cancelled => &[],
        }
    }

    /// The status that a client sees.
    #[must_use]
    pub const fn status(&self) -> Status {
        match self {
            Self::Queued | Self::Running { .. } | Self::Sleeping { .. } => Status::Working,
            Self::InputRequired { .. } => Status::InputRequired,
            Self::Completed { .. } => Status::Completed,
            Self::Failed { .. } => Status::Failed,
            Self::Cancelled => Status::Cancelled,
        }
    }
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Working, Self::InputRequired, Self::Completed, Self::Failed, Self::Cancelled];

    /// The status of this name on the wire.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    /// Whether a task with this status has ended.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Working | Self::InputRequired => false,
            Self::Completed | Self::Failed | Self::Cancelled => true,
        }
    }

    /// The status on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}
