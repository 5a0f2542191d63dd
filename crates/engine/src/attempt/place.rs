//! A place in the journal of a task, and how far each branch of a race has come.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::task::Waker;
use std::thread::ThreadId;

use longhaul_core::{EntryKind, Timestamp};

/// How the name of a timer begins that says when a tool began to poll.
pub(crate) const SINCE: &str = "since ";

/// The key of an entry.
pub(super) type Key = (EntryKind, String);

/// How far the tool has come.
#[derive(Default)]
pub(super) struct Place {
    /// All entries so far.
    pub(super) visited: HashSet<Key>,
    cursor: Cursor,
    /// The branches of races that each thread is polling now, the innermost last. Work that the tool spawned on
    /// another thread belongs to none of them.
    branches: HashMap<ThreadId, Vec<Branch>>,
}

/// The latest entry that the tool, or a branch of a race, has come to.
#[derive(Clone, Default)]
pub(super) struct Cursor {
    /// Its kind and name; empty before the first one.
    pub(super) entry: String,
    /// The latest time of the entries so far.
    pub(super) at: Option<Timestamp>,
    /// How many numbers were drawn since.
    pub(super) draws: u64,
}

/// How far a branch of a race has come.
#[derive(Default)]
pub(super) struct Branch {
    /// Distinguishes its sleeps and draws from those of the other branches, which run in any order.
    pub(super) scope: String,
    pub(super) cursor: Cursor,
    /// The entries that it has asked for.
    pub(super) begun: BTreeSet<Key>,
    /// The entries whose values it has.
    pub(super) seen: BTreeSet<Key>,
    /// How many recorded values it is loading.
    pub(super) reading: u32,
    /// Whether it begins no work.
    pub(super) holds: bool,
    /// Limits a branch that lost to the entries that it had seen.
    pub(super) shown: Option<Arc<Shown>>,
    /// Its parts that wait until it may continue.
    pub(super) held: Vec<Waker>,
}

/// The part of the journal that the branches of a race had seen when they lost.
pub(super) struct Shown {
    pub(super) entries: BTreeSet<Key>,
    pub(super) until: Timestamp,
}

impl Branch {
    /// The branch with this number, in a race to which the tool comes at `at`.
    pub(super) fn of(race: &str, number: usize, at: Option<Timestamp>) -> Self {
        let scope = format!("{race}.{number}");
        Self { cursor: Cursor { entry: format!("branch#{scope}"), at, draws: 0 }, scope, ..Self::default() }
    }
}

impl Place {
    /// Notes that the tool has come to this entry.
    pub(super) fn visit(&mut self, kind: EntryKind, name: &str) {
        self.visited.insert((kind, name.to_owned()));
        for branch in self.polled_mut() {
            branch.seen.insert((kind, name.to_owned()));
        }
    }

    /// Notes that the tool asks for this entry.
    pub(super) fn begin(&mut self, kind: EntryKind, name: &str) {
        for branch in self.polled_mut() {
            branch.begun.insert((kind, name.to_owned()));
        }
    }

    /// How far the branch that is polled now has come, or the tool outside of races.
    pub(super) fn cursor(&mut self) -> &mut Cursor {
        let polled = self.branches.get_mut(&std::thread::current().id());
        polled.and_then(|branches| branches.last_mut()).map_or(&mut self.cursor, |branch| &mut branch.cursor)
    }

    /// The scope of the branch that is polled now.
    pub(super) fn scope(&self) -> Option<&str> {
        self.polled().last().map(|branch| branch.scope.as_str())
    }

    /// The scopes of all branches that are polled now.
    pub(super) fn scopes(&self) -> Vec<String> {
        self.polled().iter().map(|branch| branch.scope.clone()).collect()
    }

    /// The branches that this thread is polling, the innermost last.
    fn polled(&self) -> &[Branch] {
        self.branches.get(&std::thread::current().id()).map_or(&[], Vec::as_slice)
    }

    pub(super) fn polled_mut(&mut self) -> &mut [Branch] {
        self.branches.get_mut(&std::thread::current().id()).map_or(&mut [], Vec::as_mut_slice)
    }

    /// This thread polls the branch, until [`Self::leave`].
    pub(super) fn enter(&mut self, branch: Branch) {
        self.branches.entry(std::thread::current().id()).or_default().push(branch);
    }

    pub(super) fn leave(&mut self) -> Branch {
        let thread = std::thread::current().id();
        let Some(branches) = self.branches.get_mut(&thread) else { return Branch::default() };
        let branch = branches.pop().unwrap_or_default();
        if branches.is_empty() {
            self.branches.remove(&thread);
        }
        branch
    }

    /// Limits the branch that is polled now, if it has lost.
    pub(super) fn shown(&self) -> Option<&Shown> {
        self.polled().iter().rev().find_map(|branch| branch.shown.as_deref())
    }

    pub(super) fn shows(&self, kind: EntryKind, name: &str) -> bool {
        self.shown().is_none_or(|shown| shown.entries.contains(&(kind, name.to_owned())))
    }

    /// Whether the branch that is polled now may begin no work.
    pub(super) fn holds(&self) -> bool {
        self.polled().iter().any(|branch| branch.holds)
    }

    /// Notes a part of a branch that waits until the branch may continue. The outermost one that holds decides.
    pub(super) fn hold(&mut self, waker: &Waker) {
        if let Some(branch) = self.polled_mut().iter_mut().find(|branch| branch.holds)
            && !branch.held.iter().any(|held| held.will_wake(waker))
        {
            branch.held.push(waker.clone());
        }
    }
}
