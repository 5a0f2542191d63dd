//! How an attempt can end.

use longhaul_core::{Ask, ResultKind};

use crate::suspension::Suspended;

/// How an attempt ended.
#[derive(Debug)]
pub enum AttemptEnd {
    /// The tool returned a result.
    Completed {
        /// The result as JSON text.
        result: String,
        /// Whether the tool succeeded.
        kind: ResultKind,
    },
    /// The tool returned an error that a retry would not fix.
    Failed {
        /// The error in words.
        message: String,
        /// The error as JSON text.
        detail: String,
    },
    /// The tool panicked, or failed in another way that is worth a retry.
    Crashed {
        /// What is known about it.
        reason: String,
    },
    /// This worker does not have the tool: nothing was run, and another worker may have it.
    NoSuchTool,
    /// The tool waits: what [`Attempt::drive`](crate::Attempt::drive) or
    /// [`Attempt::ask_round`](crate::Attempt::ask_round) returned.
    Suspended(Suspended),
}

/// Questions that a tool asked by returning them, and the state that it wants back with the answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// The questions.
    pub asks: Vec<Ask>,
    /// The state that the tool wants back, opaque here.
    pub carry: String,
}
