//! The records of the load: the domain's own transitions on a map, quick for a million of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use longhaul_core::ports::{
    ApplyError, CreateError, Created, IdempotencyKey, NewTask, Recorded, StoreError, TaskStore,
};
use longhaul_core::{Entry, OwnerId, Refusal, State, Task, TaskEvent, TaskKey, Timestamp};
use longhaul_testkit::{FakeStore, StoreLayer};

use super::super::kernel::Kernel;
use super::ports::{held, travel};

/// All records.
#[derive(Default)]
pub(super) struct Records {
    tasks: HashMap<TaskKey, Row>,
    keys: HashMap<(OwnerId, [u8; 32]), TaskKey>,
    open: HashMap<OwnerId, u32>,
    unfinished: usize,
    /// Entries that were recorded.
    pub(super) entries: u64,
}

/// A task.
pub(super) struct Row {
    pub(super) task: Task,
    /// How often it ended.
    pub(super) ends: u32,
}

impl Records {
    pub(super) const fn all_ended(&self) -> bool {
        self.unfinished == 0
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.tasks.values()
    }

    fn create(&mut self, new: NewTask) -> Result<Created, CreateError> {
        let key = new.task.key();
        if let Some(idempotency) = new.idempotency
            && let Some(row) = self.keys.get(&(key.owner, idempotency.key)).and_then(|key| self.tasks.get(key))
        {
            return Ok(Created::Existing(row.task.clone()));
        }
        if let Some(row) = self.tasks.get(&key) {
            return Ok(Created::Existing(row.task.clone()));
        }
        let open = self.open.entry(key.owner).or_default();
        if *open >= new.open_max {
            return Err(CreateError::TooManyOpen { open_max: new.open_max });
        }
        *open += 1;
        self.unfinished += 1;
        self.keys.extend(new.idempotency.map(|IdempotencyKey { key: name, .. }| ((key.owner, name), key)));
        self.tasks.insert(key, Row { task: new.task.clone(), ends: 0 });
        Ok(Created::New(new.task))
    }

    fn apply(&mut self, key: &TaskKey, event: &TaskEvent, now: Timestamp) -> Result<Task, ApplyError> {
        let Some(row) = self.tasks.get_mut(key) else { return Err(ApplyError::NotFound) };
        let next = match row.task.apply(event, now) {
            Ok(next) => next,
            Err(Refusal::Expired) => return Err(ApplyError::NotFound),
            Err(why) => return Err(ApplyError::Refused { current: Box::new(row.task.clone()), why }),
        };
        if next.has_ended() && !row.task.has_ended() {
            row.ends += 1;
            self.unfinished -= 1;
            self.open.entry(key.owner).and_modify(|open| *open -= 1);
        }
        row.task = next.clone();
        Ok(next)
    }
}

/// The result of a completed task, which is inside its record.
pub(super) const fn result_of(task: &Task) -> Option<&longhaul_core::Payload> {
    match &task.record().state {
        State::Completed { result, .. } => Some(result),
        _ => None,
    }
}

pub(super) struct LoadStore {
    pub(super) records: Arc<Mutex<Records>>,
    pub(super) kernel: Arc<Kernel>,
    /// Lists, parts and mailboxes, which no load uses.
    pub(super) rest: FakeStore,
}

#[async_trait]
impl StoreLayer for LoadStore {
    fn inner(&self) -> &dyn TaskStore {
        &self.rest
    }

    async fn create(&self, new: NewTask, _now: Timestamp) -> Result<Created, CreateError> {
        travel(&self.kernel).await;
        held(&self.records).create(new)
    }

    async fn get(&self, key: &TaskKey, _now: Timestamp) -> Result<Option<Task>, StoreError> {
        travel(&self.kernel).await;
        Ok(held(&self.records).tasks.get(key).map(|row| row.task.clone()))
    }

    async fn apply(&self, key: &TaskKey, event: &TaskEvent, now: Timestamp) -> Result<Task, ApplyError> {
        travel(&self.kernel).await;
        held(&self.records).apply(key, event, now)
    }

    async fn record(&self, _key: &TaskKey, _entry: &Entry) -> Result<Recorded, StoreError> {
        travel(&self.kernel).await;
        held(&self.records).entries += 1;
        Ok(Recorded::First)
    }

    async fn journal(&self, _key: &TaskKey) -> Result<Vec<Entry>, StoreError> {
        travel(&self.kernel).await;
        Ok(Vec::new())
    }
}
