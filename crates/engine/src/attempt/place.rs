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
    /// The same, in the order in which the tool came to them.
    pub(super) path: Vec<(EntryKind, String)>,
    /// Limits a branch that lost a race, while a replay polls it; `None` for all other branches.
    pub(super) shown: Option<Shown>,
}

impl Place {
    /// Notes that the tool has come to this entry.
    pub(super) fn visit(&mut self, kind: EntryKind, name: &str) {
        if self.visited.insert((kind, name.to_owned())) {
            self.path.push((kind, name.to_owned()));
        }
    }
}

/// The part of the journal that a branch had seen when it lost a race.
pub(super) struct Shown {
    pub(super) entries: HashSet<(EntryKind, String)>,
    pub(super) until: Timestamp,
}
