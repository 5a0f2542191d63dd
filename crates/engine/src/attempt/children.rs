//! An attempt's knowledge of the children of its task.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhaul_core::TaskId;
use tokio::sync::RwLock;

/// An attempt's knowledge of the children of its task.
#[derive(Default)]
pub(crate) struct Children {
    /// Held for reading while a child is made, so that the process that is refused can wait for those that are not
    /// decided.
    pub(crate) making: RwLock<()>,
    known: Mutex<Known>,
}

#[derive(Default)]
pub(crate) struct Known {
    /// The children whose end is not in the journal.
    pub(crate) open: BTreeSet<TaskId>,
    /// Their owner may have no more tasks until one of them ends, which this attempt does not see.
    pub(crate) is_full: bool,
}

impl Children {
    /// A child that has not ended, if the owner's limit allows no more tasks until it ends.
    pub(crate) fn awaited(&self) -> Option<TaskId> {
        let known = self.lock();
        known.open.first().copied().filter(|_| known.is_full)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
