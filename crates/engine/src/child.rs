//! A task that a tool makes by calling another tool: what the journal of its parent says of it.

use longhaul_core::{FailureKind, TaskId, Timestamp, strict_json};
use serde::{Deserialize, Serialize};

use crate::AcceptError;

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
    /// It was cancelled.
    Cancelled,
    /// Its result is larger than a step may be.
    TooLarge {
        /// How large.
        bytes: usize,
    },
    /// It expired or was forgotten before its parent saw its end.
    Gone,
}

impl ChildEnd {
    pub(crate) fn read(text: &str) -> Result<Self, (FailureKind, String)> {
        strict_json::from_str(text)
            .map_err(|error| (FailureKind::Corrupt, format!("the end of a child cannot be read: {error}")))
    }
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

/// A child in the parent's journal, as the value of a step.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Called {
    pub(crate) child: TaskId,
    /// When it was made.
    pub(crate) at: Timestamp,
}

/// The task that a tool called, if this is the value of the step of that call. It is for display only: a tool may
/// record a value that looks like one.
#[must_use]
pub fn child_of(step: &serde_json::Value) -> Option<TaskId> {
    Called::deserialize(step).ok().map(|called| called.child)
}

/// The value of the step in which a child was made. An id and a number can always be written as JSON.
pub(crate) fn step_of(called: Called) -> String {
    serde_json::to_string(&called).unwrap_or_default()
}
