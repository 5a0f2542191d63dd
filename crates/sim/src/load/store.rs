//! The records of the load: the domain's own transitions on a map, quick for a million of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use longhaul_core::ports::{
    ApplyError, CreateError, Created, IdempotencyKey, Left, NewTask, Page, Recorded, StoreError, TaskStore,
};
use longhaul_core::{
    Entry, MailboxId, OwnerId, PartsName, Refusal, State, Task, TaskEvent, TaskFilter, TaskId, TaskKey, Timestamp,
};

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
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl TaskStore for LoadStore {
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

    async fn list(
        &self,
        _owner: &OwnerId,
        _before: Option<TaskId>,
        _limit: usize,
        _now: Timestamp,
    ) -> Result<Page, StoreError> {
        // Nobody lists here.
        Ok(Page { tasks: Vec::new(), next: None })
    }

    async fn list_filtered(
        &self,
        owner: &OwnerId,
        _filter: &TaskFilter,
        before: Option<TaskId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        self.list(owner, before, limit, now).await
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

    async fn put_parts(&self, _key: &TaskKey, _name: &PartsName, _parts: &[&str]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn parts(&self, _key: &TaskKey, _name: &PartsName, _count: u32) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    async fn leave(
        &self,
        _owner: &OwnerId,
        _mailbox: &MailboxId,
        _text: &str,
        _expires_at: Timestamp,
        _now: Timestamp,
    ) -> Result<Left, StoreError> {
        Ok(Left::First)
    }

    async fn collect(
        &self,
        _owner: &OwnerId,
        _mailbox: &MailboxId,
        _now: Timestamp,
    ) -> Result<Option<String>, StoreError> {
        Ok(None)
    }
}
