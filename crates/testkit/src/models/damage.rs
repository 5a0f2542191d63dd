//! Records that cannot be read, in a store in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhaul_core::ports::{Page, StoreError};
use longhaul_core::{EntryKind, Task, TaskKey};

/// The fault of a stored record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// A part of it is missing.
    CutShort,
    /// It has a state that no version knows.
    UnknownState,
    /// A field is of another type.
    WrongType,
    /// It is not a text where it should be one.
    NotText,
    /// Nothing: a newer version wrote it in a format of its own.
    NewerVersion,
}

impl Damage {
    /// Every damage with which a record is lost.
    pub const LOST: [Self; 4] = [Self::CutShort, Self::UnknownState, Self::WrongType, Self::NotText];
}

#[derive(Debug, thiserror::Error)]
#[error("planted: {0:?}")]
struct Planted(Damage);

/// The damaged records and entries.
#[derive(Default)]
pub(super) struct Damaged(Mutex<Known>);

#[derive(Default)]
struct Known {
    tasks: BTreeMap<TaskKey, Damage>,
    entries: BTreeSet<(TaskKey, EntryKind, String)>,
}

impl Damaged {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn damage(&self, key: &TaskKey, damage: Damage) {
        self.lock().tasks.insert(*key, damage);
    }

    pub(super) fn damage_entry(&self, key: &TaskKey, kind: EntryKind, name: &str) {
        self.lock().entries.insert((*key, kind, name.to_owned()));
    }

    /// The task as a store returns it.
    pub(super) fn read(&self, task: Task) -> Result<Task, StoreError> {
        match self.of(&task.key()) {
            None => Ok(task),
            Some(damage @ Damage::NewerVersion) => Err(StoreError::NewerVersion(Planted(damage).into())),
            Some(_) => Ok(Task::unreadable(&task.key(), Some(task.tool.clone()), Some(task.expires_at))),
        }
    }

    pub(super) fn of(&self, key: &TaskKey) -> Option<Damage> {
        self.lock().tasks.get(key).copied()
    }

    /// These tasks as a list has them.
    pub(super) fn page(&self, tasks: Page, limit: usize, is_wanted: impl Fn(&Task) -> bool) -> Page {
        let tasks = tasks.tasks.into_iter().filter_map(|task| self.read(task).ok()).filter(is_wanted);
        Page::of(tasks.collect(), limit, None)
    }

    /// Refuses an entry of a journal that cannot be read; without a name, all of the journal.
    pub(super) fn check_entry(&self, key: &TaskKey, named: Option<(EntryKind, &str)>) -> Result<(), StoreError> {
        let is_meant = |(of, kind, name): &(TaskKey, EntryKind, String)| {
            of == key && named.is_none_or(|named| named == (*kind, name.as_str()))
        };
        if self.lock().entries.iter().any(is_meant) {
            return Err(StoreError::Corrupt(Planted(Damage::CutShort).into()));
        }
        Ok(())
    }
}
