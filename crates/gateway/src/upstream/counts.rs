//! The processes of one server, counted for the metrics.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul::Processes;

/// The processes of one server. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(Arc<Mutex<Totals>>);

#[derive(Debug, Default)]
struct Totals {
    starting: u64,
    running: u64,
    restarts: u64,
    /// Failed processes that no start has replaced yet.
    failed: u64,
}

impl Counts {
    /// The counts now, as those of this server.
    pub(super) fn of(&self, server: &str) -> Processes {
        let &Totals { starting, running, restarts, .. } = &*self.lock();
        Processes { server: server.to_owned(), starting, running, restarts }
    }

    fn lock(&self) -> MutexGuard<'_, Totals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process was started.
    pub(super) fn started(&self) -> Counted {
        let mut totals = self.lock();
        totals.starting += 1;
        if totals.failed > 0 {
            totals.failed -= 1;
            totals.restarts += 1;
        }
        Counted { counts: self.clone(), has_answered: false }
    }
}

/// One process among those of its server, from its start until this is dropped.
pub(super) struct Counted {
    counts: Counts,
    has_answered: bool,
}

impl Counted {
    /// It has answered its first request.
    pub(super) fn answered(&mut self) {
        if !std::mem::replace(&mut self.has_answered, true) {
            let mut totals = self.counts.lock();
            totals.starting -= 1;
            totals.running += 1;
        }
    }

    /// It ended on its own, or the gateway ended it for a fault.
    pub(super) fn failed(&self) {
        self.counts.lock().failed += 1;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut totals = self.counts.lock();
        if self.has_answered { totals.running -= 1 } else { totals.starting -= 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_after_a_failure_is_a_restart_and_one_after_an_ordinary_end_is_not() {
        let counts = Counts::default();
        let now = |counts: &Counts| {
            let Processes { starting, running, restarts, .. } = counts.of("only");
            (starting, running, restarts)
        };
        let mut first = counts.started();
        assert_eq!(now(&counts), (1, 0, 0));
        first.answered();
        first.answered();
        assert_eq!(now(&counts), (0, 1, 0));
        drop(first);
        let second = counts.started();
        assert_eq!(now(&counts), (1, 0, 0), "the first one was not needed any more");
        second.failed();
        drop(second);
        let (_third, _fourth) = (counts.started(), counts.started());
        assert_eq!(now(&counts), (2, 0, 1), "one of them replaces the one that failed");
    }
}
