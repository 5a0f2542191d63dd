//! What may happen to a task. Each event is one conditional write in a store.

use crate::{Ask, Failure, LeaseToken, Payload, Progress, ResultKind, Timestamp};

/// What may happen to a task.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskEvent {
    /// A worker takes the task: the attempt is raised, and every earlier attempt can no longer write.
    Claim {
        /// The worker's proof, made up for this claim.
        token: LeaseToken,
        /// Until when the worker holds the task without a heartbeat.
        lease_until: Timestamp,
    },
    /// The worker lives. Touches the lease, the progress and the count of failures, and nothing that an end needs.
    Heartbeat {
        /// Who writes.
        attempt: u32,
        /// Until when the worker holds the task now.
        lease_until: Timestamp,
        /// How far the work is, where that changed.
        progress: Option<Progress>,
        /// Whether the leg got further than the legs before it.
        advance: Advance,
    },
    /// The tool changed its variables.
    SetVariables {
        /// Who writes.
        attempt: u32,
        /// All variables, as a JSON object.
        variables: Payload,
    },
    /// A leg ended in order, and another one will go on.
    Suspend {
        /// Who writes.
        attempt: u32,
        /// What the next leg waits for.
        suspension: Suspension,
        /// How far the work is, where that changed.
        progress: Option<Progress>,
    },
    /// A leg failed in a way that is worth another try.
    Retry {
        /// Who writes.
        attempt: u32,
        /// When the next leg may start.
        not_before: Timestamp,
        /// What went wrong.
        reason: String,
    },
    /// The tool ended, and so does the task.
    Finish {
        /// Who writes.
        attempt: u32,
        /// With what.
        outcome: Outcome,
    },
    /// The client answered these input requests; the answers stand in the journal.
    Answer {
        /// Which ones.
        keys: Vec<String>,
    },
    /// The client wants no more of it.
    Cancel,
    /// A message for the task is about to be sent again, unless one was sent after `not_since`.
    Nudge {
        /// The latest earlier sending that is old enough.
        not_since: Timestamp,
    },
    /// Somebody found that the last allowed leg is dead.
    GiveUp,
    /// Somebody found that the task is past its deadline.
    TimeOut,
    /// A client wants the result to be kept this long after the end, at the least.
    Keep {
        /// How long.
        keep_ms: u64,
    },
    /// The client has the result, and nobody needs it any more.
    Forget,
}

/// Whether a leg got further than the legs before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// It recorded a step that no leg had recorded: earlier failures are forgiven.
    Recorded,
    /// Not yet.
    NotYet,
}

/// What the next leg waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Suspension {
    /// The client's answers.
    Input {
        /// To these questions; never empty.
        asks: Vec<Ask>,
        /// Or a moment, if that comes first.
        until: Option<Timestamp>,
    },
    /// A moment.
    Timer(Timestamp),
    /// Nothing: the leg ran out of time, or its worker stops.
    Yield,
}

/// How a tool ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With a result.
    Completed {
        /// The result.
        result: Payload,
        /// What it says of itself.
        kind: ResultKind,
    },
    /// With an error.
    Failed(Failure),
}
