//! Cleanup: the author's code that runs when a task has ended without success.

use serde::{Deserialize, Serialize};

use crate::{Lease, Timestamp};

/// How far the cleanup of a task is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cleanup {
    /// The tool has none, or an older version accepted the call.
    #[default]
    None,
    /// The tool has one. It is due once the task has ended otherwise than with success.
    Armed {
        /// How often it has begun.
        tries: u32,
        /// The attempt that began it last, and until when no other worker does.
        lease: Option<Lease>,
    },
    /// It is done.
    Done,
    /// It failed, or its worker died, too often.
    GivenUp,
}

/// How a try to clean up ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanupEnd {
    /// It is done.
    Done,
    /// Parts of it have failed for good. All others are done.
    GivenUp,
    /// It failed, and may be tried again from then on.
    Failed {
        /// When.
        again_at: Timestamp,
    },
    /// It is put off, and does not count as a try: the worker does not have the tool, or the resource cannot be reached
    /// now.
    Postponed {
        /// When the next worker may begin.
        again_at: Timestamp,
    },
}

impl Cleanup {
    /// That of a new task whose tool has one.
    pub const ARMED: Self = Self::Armed { tries: 0, lease: None };

    /// Whether the tool has one that is neither done nor given up.
    #[must_use]
    pub const fn is_armed(self) -> bool {
        matches!(self, Self::Armed { .. })
    }
}
