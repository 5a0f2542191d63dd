//! Which calls of an attempt's tool wait for others to end, because their owner may have no more unfinished tasks.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhaul_core::TaskId;
use tokio::sync::RwLock;

/// What an attempt knows of the children of its task.
#[derive(Default)]
pub(super) struct Children {
    /// Held for reading while a child is made, so that whoever is refused can wait for those that are not decided.
    pub(super) making: RwLock<()>,
    known: Mutex<Known>,
}

#[derive(Default)]
pub(super) struct Known {
    /// Those whose end is not in the journal.
    pub(super) open: BTreeSet<TaskId>,
    /// Their owner may have no more tasks until one of them ends, which this attempt does not see.
    pub(super) is_full: bool,
}

impl Children {
    /// A child that has not ended, if there is no room for one more until then.
    pub(super) fn awaited(&self) -> Option<TaskId> {
        let known = self.lock();
        known.open.first().copied().filter(|_| known.is_full)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
