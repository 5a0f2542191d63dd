//! A task: one durable tool call.

use serde::{Deserialize, Serialize};

use crate::planted::{Fault, planted};
use crate::{LeaseToken, OwnerId, Payload, TaskId, TaskKey, Terms, Timestamp};

/// One durable tool call, as it is on record. Read as you like; only [`Task::apply`] makes the next one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Task(TaskRecord);

/// Everything that is kept of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// Who may see the task.
    pub owner: OwnerId,
    /// Its name.
    pub id: TaskId,
    /// Which tool was called.
    pub tool: String,
    /// Where the task is in its life.
    pub state: State,
    /// The highest claim so far; 0 before the first. Only this attempt may write.
    pub attempt: u32,
    /// Legs that died or failed since a leg last recorded a step or suspended in order.
    pub failures: u32,
    /// What went wrong in the last of them.
    pub last_failure: Option<String>,
    /// What was agreed on.
    pub terms: Terms,
    /// When the call was accepted.
    pub created_at: Timestamp,
    /// When the record last changed in a way that a client can see.
    pub updated_at: Timestamp,
    /// When a message for the task was last sent.
    pub sent_at: Timestamp,
    /// When the first attempt began.
    pub started_at: Option<Timestamp>,
    /// When the task ended.
    pub ended_at: Option<Timestamp>,
    /// From when on the task is "not found".
    pub expires_at: Timestamp,
    /// How far the work is.
    pub progress: Option<Progress>,
    /// The call itself.
    pub request: Payload,
    /// The trace that the call belongs to, in the form of a W3C `traceparent`.
    pub trace: Option<String>,
    /// The tool's variables.
    pub variables: Option<Payload>,
}

/// Where a task is in its life. More states than a client sees: [`Status`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Waits for a worker: a message is out.
    Queued,
    /// A worker holds it.
    Running {
        /// The worker's proof.
        lease: Lease,
    },
    /// Waits for a moment: a timer of the tool, or the delay before another try.
    Sleeping {
        /// Which moment.
        until: Timestamp,
    },
    /// Waits for the client's answers.
    InputRequired {
        /// What is still open; never empty.
        asks: Vec<Ask>,
        /// From when on the tool goes on without the answers, where it set a timer beside its questions.
        until: Option<Timestamp>,
    },
    /// Ended with a result.
    Completed {
        /// The result.
        result: Payload,
        /// What the result says of itself.
        kind: ResultKind,
    },
    /// Ended with an error.
    Failed {
        /// The error.
        failure: Failure,
    },
    /// Ended because the client wished so.
    Cancelled,
}

/// What a client sees of a [`State`] (Tasks extension, "Task Status").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Waiting for a worker, running, or asleep.
    Working,
    /// Waiting for the client.
    InputRequired,
    /// Ended with a result.
    Completed,
    /// Ended with an error.
    Failed,
    /// Ended by the client.
    Cancelled,
}

/// The proof that an attempt holds a task until a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// From this moment on others may claim the task.
    pub until: Timestamp,
    /// Made up by the holder.
    pub token: LeaseToken,
}

/// One question to the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// Its name, unique over the task's life.
    pub key: String,
    /// The request as JSON text, opaque here.
    pub request: String,
}

/// How far the work is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Units done.
    pub done: f64,
    /// Units in all, where known.
    pub total: Option<f64>,
    /// For people.
    pub message: Option<String>,
}

/// What a result says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultKind {
    /// The tool did what it was asked to do.
    Success,
    /// The tool answered, and its answer is that it could not.
    ToolError,
}

/// Why a task failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of reason.
    pub kind: FailureKind,
    /// The reason in words that a client may read, at most [`crate::limits::MESSAGE_BYTES_MAX`] bytes.
    pub message: String,
    /// The error that the tool itself gave, as JSON text, opaque here.
    pub detail: Option<Payload>,
}

/// The kinds of reasons for a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The tool answered with a protocol error.
    Tool,
    /// Legs died or failed too often in a row.
    TriesUsedUp,
    /// The task did not end within its longest run.
    TimedOut,
    /// The result, a step or a question is over its limit.
    TooLarge,
    /// The record cannot be worked with: a part is missing, or a recorded step is not what the tool expects.
    Corrupt,
    /// The tool did what cannot be made durable: one name for two steps, a name that is too long.
    Misuse,
}

impl Task {
    /// The task of a record that an adapter read back, or of a call that was just accepted.
    #[must_use]
    pub const fn restore(record: TaskRecord) -> Self {
        Self(record)
    }

    /// What is on record.
    #[must_use]
    pub const fn record(&self) -> &TaskRecord {
        &self.0
    }

    /// What is on record, to be written down.
    #[must_use]
    pub fn into_record(self) -> TaskRecord {
        self.0
    }

    /// Where the task is kept.
    #[must_use]
    pub const fn key(&self) -> TaskKey {
        TaskKey::new(self.0.owner, self.0.id)
    }

    /// What a client sees of the state.
    #[must_use]
    pub const fn status(&self) -> Status {
        self.0.state.status()
    }

    /// Whether nothing can change the task any more.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.0.state.status().is_terminal()
    }

    /// When work on the task is stopped.
    #[must_use]
    pub const fn deadline(&self) -> Timestamp {
        self.0.created_at.plus_ms(self.0.terms.run_ms)
    }

    /// Whether the task is "not found" at `now`.
    #[must_use]
    pub fn has_expired(&self, now: Timestamp) -> bool {
        now >= self.0.expires_at && !planted(Fault::ExpiryIgnored)
    }

    /// Time from creation to expiry: what was agreed on, or more where the task ended late.
    #[must_use]
    pub const fn ttl_ms(&self) -> u64 {
        self.0.expires_at.since_ms(self.0.created_at)
    }

    /// How long a client should wait before it asks again.
    #[must_use]
    pub fn poll_interval_ms(&self, now: Timestamp) -> u64 {
        self.0.terms.poll_interval_ms(now.since_ms(self.0.created_at))
    }

    /// Whether one more leg that dies or fails would be one too many.
    #[must_use]
    pub const fn is_on_last_try(&self) -> bool {
        self.0.failures.saturating_add(1) >= self.0.terms.tries_max
    }
}

impl std::ops::Deref for Task {
    type Target = TaskRecord;

    fn deref(&self) -> &TaskRecord {
        &self.0
    }
}

impl State {
    /// What a client sees.
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
    /// Whether nothing follows.
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
