//! The models as ports, for use-case tests: every call is answered at once, and nothing runs on another thread.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use longhaul_core::ports::{
    ApplyError, AttemptPermit, AttemptPermits, CreateError, Created, Delivery, Left, Message, NewTask, Page,
    QueueError, Recorded, StoreError, Taken, TaskStore, UnfinishedTasks, WorkQueue,
};
use longhaul_core::{
    Clock, Entry, EntryKind, MailboxId, OwnerId, PartsName, Refusal, Task, TaskEvent, TaskFilter, TaskId, TaskKey,
    Timestamp,
};

use super::damage::{Damage, Damaged};
use super::permits::PermitsModel;
use super::queue::QueueModel;
use super::randomness::Randomness;
use super::store::StoreModel;

/// A store in memory.
#[derive(Default)]
pub struct FakeStore {
    model: Mutex<StoreModel>,
    /// The queue that it is one database with.
    queue: Option<Arc<FakeQueue>>,
    damaged: Damaged,
}

impl FakeStore {
    /// Damages the record of a task. A task whose record is lost does not count against the open-task quota.
    pub fn damage(&self, key: &TaskKey, damage: Damage) {
        if Damage::LOST.contains(&damage) {
            let _ended_before = self.lock().apply(key, &TaskEvent::Cancel, key.id.begins_at(), 0);
        }
        self.damaged.damage(key, damage);
    }

    /// The record as it is stored, including one that a reader cannot read.
    #[must_use]
    pub fn record_of(&self, key: &TaskKey) -> Option<Task> {
        self.lock().peek(key).map(|task| Task::clone(task))
    }

    /// Damages an entry of a task's journal.
    pub fn damage_entry(&self, key: &TaskKey, kind: EntryKind, name: &str) {
        self.damaged.damage_entry(key, kind, name);
    }

    /// An empty store that writes the message of a new task to `queue`, with its record.
    #[must_use]
    pub fn one_with(queue: Arc<FakeQueue>) -> Self {
        Self { queue: Some(queue), ..Self::default() }
    }

    fn lock(&self) -> MutexGuard<'_, StoreModel> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The verbs whose answer is the model's.
macro_rules! as_the_model {
    ($($verb:ident($($name:ident: $type:ty),*) -> $answer:ty;)+) => {
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl TaskStore for FakeStore {
            async fn create(&self, new: NewTask, now: Timestamp) -> Result<Created, CreateError> {
                let send_in_ms = new.send_in_ms;
                let created = self.lock().create(new, now)?;
                match (created, &self.queue, send_in_ms) {
                    (Created::New(task), Some(queue), Some(send_in_ms)) => {
                        queue.put(&Message::about(&task), send_in_ms);
                        Ok(Created::NewAndSent(task))
                    }
                    (Created::Existing(task), _, _) => Ok(Created::Existing(self.damaged.read(task)?)),
                    (created, _, _) => Ok(created),
                }
            }

            async fn get(&self, key: &TaskKey, now: Timestamp) -> Result<Option<Task>, StoreError> {
                let found = self.lock().get(key, now, false, 0);
                found.map(|task| self.damaged.read(task)).transpose()
            }

            async fn apply(&self, key: &TaskKey, event: &TaskEvent, now: Timestamp) -> Result<Task, ApplyError> {
                let found = self.lock().get(key, now, false, 0).ok_or(ApplyError::NotFound)?;
                match self.damaged.of(key) {
                    None => self.lock().apply(key, event, now, 0).0,
                    Some(_) => {
                        let current = Box::new(self.damaged.read(found)?);
                        Err(ApplyError::Refused { current, why: Refusal::Ended })
                    }
                }
            }

            async fn list(
                &self,
                owner: &OwnerId,
                before: Option<TaskId>,
                limit: usize,
                now: Timestamp,
            ) -> Result<Page, StoreError> {
                let all = self.lock().list(owner, before, usize::MAX, now);
                Ok(self.damaged.page(all, limit, |_task| true))
            }

            async fn list_filtered(
                &self,
                owner: &OwnerId,
                filter: &TaskFilter,
                before: Option<TaskId>,
                limit: usize,
                now: Timestamp,
            ) -> Result<Page, StoreError> {
                let all = self.lock().list(owner, before, usize::MAX, now);
                Ok(self.damaged.page(all, limit, |task| filter.takes(task)))
            }

            async fn list_of_all_owners(
                &self,
                filter: &TaskFilter,
                before: Option<TaskId>,
                limit: usize,
                now: Timestamp,
            ) -> Result<Option<Page>, StoreError> {
                let all = self.lock().list_of_all_owners(before, now);
                Ok(Some(self.damaged.page(all, limit, |task| filter.takes(task))))
            }

            async fn record(&self, key: &TaskKey, entry: &Entry) -> Result<Recorded, StoreError> {
                self.damaged.check_entry(key, Some((entry.kind, &entry.name)))?;
                Ok(self.lock().record(key, entry))
            }

            async fn journal(&self, key: &TaskKey) -> Result<Vec<Entry>, StoreError> {
                self.damaged.check_entry(key, None)?;
                Ok(self.lock().journal(key))
            }

            $(
                async fn $verb(&self, $($name: $type),*) -> Result<$answer, StoreError> {
                    Ok(self.lock().$verb($($name),*))
                }
            )+
        }
    };
}

as_the_model! {
    put_parts(key: &TaskKey, name: &PartsName, parts: &[&str]) -> ();
    parts(key: &TaskKey, name: &PartsName, count: u32) -> Option<String>;
    leave(owner: &OwnerId, mailbox: &MailboxId, text: &str, expires_at: Timestamp, now: Timestamp) -> Left;
    collect(owner: &OwnerId, mailbox: &MailboxId, now: Timestamp) -> Option<String>;
}

/// A queue in memory that uses the given clock. It does not wait: a receiver gets what is visible now.
pub struct FakeQueue {
    held: Mutex<(QueueModel, Randomness)>,
    clock: Arc<dyn Clock>,
}

impl FakeQueue {
    /// An empty queue, whose messages become dead letters after `receives_max` deliveries.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, receives_max: u32) -> Self {
        Self { held: Mutex::new((QueueModel::new(receives_max, None), Randomness::stream(0, 0))), clock }
    }

    /// Keeps one of the messages of a task that become visible at the same time. It is for tests that deliver every
    /// message twice, whose copies would otherwise double each time.
    pub fn merge_copies(&self) {
        self.lock().0.merge_copies();
    }

    /// When the next message can be delivered; `None` if there is none that is not dead.
    #[must_use]
    pub fn next_at(&self) -> Option<Timestamp> {
        self.lock().0.next_at_ms().map(Timestamp::from_ms)
    }

    fn now_ms(&self) -> u64 {
        self.clock.now().as_ms()
    }

    fn put(&self, message: &Message, delay_ms: u64) {
        let visible_at_ms = self.now_ms().saturating_add(delay_ms);
        self.lock().0.send(message, visible_at_ms);
    }

    fn lock(&self) -> MutexGuard<'_, (QueueModel, Randomness)> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl WorkQueue for FakeQueue {
    async fn send(&self, message: &Message, delay_ms: u64) -> Result<(), QueueError> {
        self.put(message, delay_ms);
        Ok(())
    }

    async fn receive(&self, max: usize, visibility_ms: u64, _wait_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        let now_ms = self.now_ms();
        let mut held = self.lock();
        let (queue, dice) = &mut *held;
        Ok((0..max).map_while(|_| queue.receive(now_ms, visibility_ms, false, dice)).collect())
    }

    async fn extend(&self, receipt: &str, visibility_ms: u64) -> Result<(), QueueError> {
        let visible_at_ms = self.now_ms().saturating_add(visibility_ms);
        self.lock().0.extend(receipt, visible_at_ms);
        Ok(())
    }

    async fn delete(&self, receipt: &str) -> Result<(), QueueError> {
        self.lock().0.delete(receipt);
        Ok(())
    }

    async fn receive_dead(&self, max: usize, visibility_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        let now_ms = self.now_ms();
        let mut held = self.lock();
        Ok((0..max).map_while(|_| held.0.receive_dead(now_ms, visibility_ms)).collect())
    }
}

/// The unfinished tasks of a store in memory that have no message in a queue in memory.
pub struct FakeUnfinished {
    store: Arc<FakeStore>,
    queue: Arc<FakeQueue>,
}

impl FakeUnfinished {
    /// The tasks of `store` without a message in `queue`.
    #[must_use]
    pub const fn of(store: Arc<FakeStore>, queue: Arc<FakeQueue>) -> Self {
        Self { store, queue }
    }
}

#[async_trait]
impl UnfinishedTasks for FakeUnfinished {
    async fn unfinished(&self, after: Option<TaskKey>, max: usize, now: Timestamp) -> Result<Vec<Task>, StoreError> {
        let held = self.queue.lock();
        Ok(self.store.lock().unfinished(after, max, now, |key| held.0.has_message(key)))
    }
}

/// Permits of running attempts in memory.
#[derive(Default)]
pub struct FakePermits(Mutex<PermitsModel>);

impl FakePermits {
    fn lock(&self) -> MutexGuard<'_, PermitsModel> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl AttemptPermits for FakePermits {
    async fn take(&self, permit: &AttemptPermit, attempts_max: u32, now: Timestamp) -> Result<Taken, StoreError> {
        Ok(self.lock().take(permit, None, attempts_max, now))
    }

    async fn take_over(
        &self,
        permit: &AttemptPermit,
        held: &AttemptPermit,
        attempts_max: u32,
        now: Timestamp,
    ) -> Result<Taken, StoreError> {
        Ok(self.lock().take(permit, Some(held), attempts_max, now))
    }

    async fn give_back(&self, permit: &AttemptPermit, now: Timestamp) -> Result<Option<TaskKey>, StoreError> {
        Ok(self.lock().give_back(permit, now))
    }
}
