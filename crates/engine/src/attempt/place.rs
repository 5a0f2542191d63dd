//! A place in the journal of a task.

use std::collections::HashSet;

use longhaul_core::{EntryKind, Timestamp};

/// How the name of a timer begins that says when a tool began to poll.
pub(super) const SINCE: &str = "since ";

/// The latest entry that the tool has come to.
#[derive(Default)]
pub(super) struct Place {
    /// Its kind and name; empty before the first one.
    pub(super) entry: String,
    /// The latest time of the entries so far.
    pub(super) at: Option<Timestamp>,
    /// How many numbers were drawn since.
    pub(super) draws: u64,
    /// All entries so far.
    pub(super) visited: HashSet<(EntryKind, String)>,
}
