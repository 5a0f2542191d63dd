//! The events of a task.

use crate::{
    Ask, AttemptOutcome, CleanupEnd, Failure, Labels, Lease, LeaseToken, Payload, Progress, Refusal, ResultKind, State,
    Timestamp,
};

/// An event of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskEvent {
    /// A worker takes the task: the attempt is raised, and every earlier attempt can no longer write.
    Claim {
        /// The worker's proof, generated for this claim.
        token: LeaseToken,
        /// Until when the worker holds the task without a heartbeat.
        lease_until: Timestamp,
        /// Whether the worker has the permits that a task with [flow control](crate::FlowControl) needs.
        admission: Admission,
    },
    /// The worker is alive. Changes the lease, the progress and the count of failures, and nothing that the write of
    /// an end depends on.
    Heartbeat {
        /// The writer.
        attempt: u32,
        /// Until when the worker holds the task now.
        lease_until: Timestamp,
        /// How far the work is, if that changed.
        progress: Option<Progress>,
        /// All labels of the task, if they changed.
        labels: Option<Labels>,
        /// Whether the attempt got further than the attempts before it.
        advance: Advance,
    },
    /// The tool changed its variables.
    SetVariables {
        /// The writer.
        attempt: u32,
        /// All variables, as a JSON object.
        variables: Payload,
    },
    /// An attempt ended normally, and another one will continue the work.
    Suspend {
        /// The writer.
        attempt: u32,
        /// The next attempt waits for this.
        suspension: Suspension,
        /// How far the work is, if that changed.
        progress: Option<Progress>,
        /// All labels of the task, if they changed.
        labels: Option<Labels>,
    },
    /// An attempt failed in a way that justifies a retry.
    Retry {
        /// The writer.
        attempt: u32,
        /// When the next attempt may start.
        not_before: Timestamp,
        /// The failure.
        reason: String,
    },
    /// The tool ended, and the task ends with it.
    Finish {
        /// The writer.
        attempt: u32,
        /// How the tool ended.
        outcome: Outcome,
        /// How far the work was, if that changed.
        progress: Option<Progress>,
        /// All labels of the task, if they changed.
        labels: Option<Labels>,
    },
    /// The client answered these input requests; the answers are in the journal.
    Answer {
        /// Which ones.
        keys: Vec<String>,
    },
    /// The awaited signal or answer may have arrived: the next attempt may start early. The recorder of a signal is not
    /// the tool, and does not know whether anything waits for it.
    Wake {
        /// When the next attempt may start.
        at: Timestamp,
    },
    /// The client cancelled the task.
    Cancel,
    /// A message for the task is about to be sent again, unless one was sent after `not_since`. The record counts these
    /// until the task is claimed, so that each further one can wait longer.
    Resend {
        /// The latest earlier sending that is old enough.
        not_since: Timestamp,
    },
    /// A dead attempt was found, and no retry is left.
    RetriesExhausted,
    /// The task was found past its deadline.
    TimeOut,
    /// A client wants the result to be retained for at least this long after the end.
    ExtendRetention {
        /// For how long.
        retention_ms: u64,
    },
    /// The client has the result and no longer needs the task.
    Forget,
    /// A worker begins the cleanup of a task that its tool did not end. The last try that may fail is followed by
    /// giving up, which this event then is.
    BeginCleanup {
        /// The worker's proof, and until when no other worker begins.
        lease: Lease,
    },
    /// A worker has tried to clean up.
    EndCleanup {
        /// The proof of who began.
        token: LeaseToken,
        /// How it ended.
        end: CleanupEnd,
    },
}

impl TaskEvent {
    /// Whether the task has ended once this event was applied.
    #[must_use]
    pub const fn ends_task(&self) -> bool {
        match self {
            Self::Finish { .. } | Self::Cancel | Self::RetriesExhausted | Self::TimeOut => true,
            Self::Claim { .. }
            | Self::Heartbeat { .. }
            | Self::SetVariables { .. }
            | Self::Suspend { .. }
            | Self::Retry { .. }
            | Self::Answer { .. }
            | Self::Wake { .. }
            | Self::Resend { .. }
            | Self::ExtendRetention { .. }
            | Self::Forget
            | Self::BeginCleanup { .. }
            | Self::EndCleanup { .. } => false,
        }
    }
}

/// Whether a worker may run the task of a tool with flow control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It has no permits: it may run a task that needs none.
    Free,
    /// It has those of the task.
    Permitted,
}

/// Whether an attempt got further than the attempts before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// It recorded a step that no attempt had recorded before: the count of failures starts again at 0.
    Recorded,
    /// It has not, so far.
    NotYet,
}

/// The next attempt waits for this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Suspension {
    /// The client's answers.
    Input {
        /// To these questions; never empty.
        asks: Vec<Ask>,
        /// Or for this time, if it comes first.
        until: Option<Timestamp>,
    },
    /// A time.
    Timer(Timestamp),
    /// Nothing: the attempt ran out of time, or its worker is stopping.
    Yield,
}

impl Suspension {
    /// The state of a task that is suspended like this.
    ///
    /// # Errors
    /// [`Refusal::NothingAsked`] for a suspension for input without questions.
    pub fn state(&self) -> Result<State, Refusal> {
        match self {
            Self::Input { asks, .. } if asks.is_empty() => Err(Refusal::NothingAsked),
            Self::Input { asks, until } => Ok(State::InputRequired { asks: asks.clone(), until: *until }),
            Self::Timer(until) => Ok(State::Sleeping { until: *until }),
            Self::Yield => Ok(State::Queued),
        }
    }

    /// How an attempt ended that was suspended like this.
    #[must_use]
    pub const fn attempt_outcome(&self) -> AttemptOutcome {
        match self {
            Self::Input { .. } => AttemptOutcome::Input,
            Self::Timer(_) => AttemptOutcome::Timer,
            Self::Yield => AttemptOutcome::Yield,
        }
    }
}

/// How a tool ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With a result.
    Completed {
        /// The result.
        result: Payload,
        /// Whether the tool succeeded.
        kind: ResultKind,
    },
    /// With an error.
    Failed(Failure),
}

impl Outcome {
    /// The state of a task that ended like this.
    #[must_use]
    pub fn state(&self) -> State {
        match self {
            Self::Completed { result, kind } => State::Completed { result: result.clone(), kind: *kind },
            Self::Failed(failure) => State::Failed { failure: failure.clone() },
        }
    }
}
