//! The notes of the lying store of an instance for the lying queue of the same instance.

use std::sync::{Mutex, MutexGuard, PoisonError};

use longhaul_core::ports::{StoreError, TaskStore};
use longhaul_core::{Task, TaskKey, Timestamp};

/// Which part of the product an instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instance {
    /// It answers clients.
    Api,
    /// It runs tools, or polls dead letters.
    Worker,
}

/// The task about whose message the queue is to lie next.
#[derive(Default)]
pub(super) struct Memo(Mutex<Option<TaskKey>>);

impl Memo {
    pub(super) fn set(&self, key: &TaskKey) {
        *self.lock() = Some(*key);
    }

    pub(super) fn holds(&self, key: &TaskKey) -> bool {
        *self.lock() == Some(*key)
    }

    pub(super) fn clear(&self) {
        *self.lock() = None;
    }

    /// The task, once.
    pub(super) fn take(&self) -> Option<TaskKey> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<TaskKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the task has ended. It may have expired.
pub(super) async fn has_ended(store: &dyn TaskStore, key: &TaskKey) -> Result<bool, StoreError> {
    Ok(store.get(key, Timestamp::from_ms(0)).await?.as_ref().is_some_and(Task::has_ended))
}
