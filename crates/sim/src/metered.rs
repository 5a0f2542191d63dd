//! A store whose calls use the units of DynamoDB's partitions, and are refused when there are none left.
//!
//! It then does the same as the real adapter and its client: they try again a few times, with pauses, and give up with
//! [`StoreError::Unavailable`]. A refused call has done nothing. The calls that follow the write of an end are left out
//! if they are refused. No caller gets an error then, as in the real adapter.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ports::{ApplyError, CreateError, Created, NewTask, Recorded, StoreError, TaskStore};
use longhaul_core::{Clock, Entry, IdSource, OwnerId, Payload, Task, TaskEvent, TaskKey, Timestamp};
use longhaul_testkit::{Layered, StoreCall, StoreLayer};

use super::partitions::{Known, Partitions, Throughput, Usage};
use super::units::{self, Call, PartitionKey, Units};

/// Tries of a call, and the longest pause after the first: those of the real adapter's client.
const TRIES: (u32, u64) = (4, 50);

/// The same for a transaction, which the adapter itself tries again.
const TRANSACTION_TRIES: (u32, u64) = (8, 40);

/// The longest pause between two tries.
const PAUSE_MS_MAX: u64 = 1_000;

/// A call that was refused because of its rate, each time.
#[derive(Debug, thiserror::Error)]
#[error("the units of {what} are used up")]
pub(crate) struct Throttled {
    what: &'static str,
}

/// Receives each refused call, and how long the caller waits at most before it tries again.
pub(crate) type HearOfRefusal = dyn Fn(&'static str, u64) + Send + Sync;

/// A layer over a store: the partitions that its calls use.
pub struct MeteredStore {
    store: Arc<dyn TaskStore>,
    partitions: Arc<Partitions>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    refused: Arc<HearOfRefusal>,
}

impl MeteredStore {
    /// `store` with partitions of its own, of this throughput; `None` to count only. `clock` waits between tries, and
    /// `ids` make that random.
    #[must_use]
    pub fn new(
        store: Arc<dyn TaskStore>,
        throughput: Option<Throughput>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdSource>,
    ) -> Layered<Self> {
        Layered(Self::over(store, Arc::new(Partitions::with(throughput)), clock, ids))
    }

    /// `store` over these partitions.
    pub(crate) fn over(
        store: Arc<dyn TaskStore>,
        partitions: Arc<Partitions>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdSource>,
    ) -> Self {
        Self { store, partitions, clock, ids, refused: Arc::new(|_what, _ms| {}) }
    }

    /// The same, whose refusals `refused` learns of.
    pub(crate) fn telling(self, refused: Arc<HearOfRefusal>) -> Self {
        Self { refused, ..self }
    }

    /// The use so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.partitions.usage()
    }

    /// The names of the calls since the last time, for a few of them.
    #[must_use]
    pub fn take_names(&self) -> Vec<&'static str> {
        self.partitions.take_names()
    }

    /// How many bytes the item of a task has, names included, as DynamoDB counts them.
    #[must_use]
    pub fn item_bytes(task: &Task) -> u64 {
        units::item_bytes(task)
    }

    fn now_ms(&self) -> u64 {
        self.clock.now().as_ms()
    }

    /// Makes a call, again if it is refused.
    async fn make(&self, call: &Call) -> Result<(), StoreError> {
        let (tries, first_ms) = if call.is_transaction() { TRANSACTION_TRIES } else { TRIES };
        let mut failed = 0;
        loop {
            let Err(what) = self.partitions.make(call, self.now_ms()) else { return Ok(()) };
            failed += 1;
            let longest_ms = (first_ms << failed).min(PAUSE_MS_MAX);
            (self.refused)(what, longest_ms);
            if failed >= tries {
                return Err(StoreError::Unavailable(Box::new(Throttled { what })));
            }
            self.clock.sleep_ms(1 + self.ids.up_to(longest_ms)).await;
        }
    }

    async fn make_all(&self, calls: &[Call]) -> Result<(), StoreError> {
        for call in calls {
            self.make(call).await?;
        }
        Ok(())
    }

    /// Changes an owner's count, if that can be done.
    async fn change_count(&self, owner: OwnerId) {
        if self.make(&units::count_update(owner)).await.is_err() {
            self.partitions.note_uncounted();
        }
    }

    /// The known state of the task. A task that was never seen counts as one that does not exist.
    async fn update(&self, key: &TaskKey, event: &TaskEvent, now: Timestamp) -> Result<Known, StoreError> {
        let known = self.partitions.known(key);
        let bytes = known.task.as_ref().map_or(1, units::item_bytes);
        if let Some(task) = &known.task {
            self.make_all(&units::polls(task, event, now)).await?;
        }
        self.make(&units::task_update(key, bytes)).await?;
        Ok(known)
    }

    /// Notes how large a task has become, and counts its end.
    async fn updated(&self, known: &Known, after: &Task) {
        let key = after.key();
        let before = known.task.as_ref().map_or(1, units::item_bytes);
        let (paid, due) = (units::write_units(before), units::write_units(units::item_bytes(after)));
        if due > paid {
            let more = Units { key: PartitionKey::of(&key), read: 0, write: due - paid };
            self.partitions.used_more(more, self.now_ms());
        }
        let ends = after.has_ended() && known.task.as_ref().is_none_or(|before| !before.has_ended());
        self.partitions.note(&key, |known| known.task = Some(after.clone()));
        let in_parts = matches!(after.state.outcome(), Some(Payload::Parts { .. }));
        if ends && !after.is_webhook_delivery() && (known.slots > 0 || in_parts) {
            // The end is recorded. The count is corrected later.
            self.change_count(key.owner).await;
        }
    }
}

#[async_trait]
impl StoreLayer for MeteredStore {
    fn inner(&self) -> &dyn TaskStore {
        &*self.store
    }

    async fn around<T: Send, E: From<StoreError> + Send>(
        &self,
        call: StoreCall<'_>,
        real: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        let calls = match call {
            StoreCall::Get(key) => {
                let bytes = self.partitions.known(key).task.as_ref().map_or(1, units::item_bytes);
                vec![units::task_read(key, bytes)]
            }
            StoreCall::List(owner) => units::list(*owner),
            StoreCall::Journal(key) => vec![units::journal_read(key, self.partitions.known(key).journal)],
            StoreCall::PutParts(key, _, parts) => vec![units::parts_written(key, parts.iter().map(|part| part.len()))],
            StoreCall::Parts(key, _, count) => vec![units::parts_read(key, count)],
            StoreCall::Leave(owner, mailbox, text) => vec![units::left(*owner, *mailbox, text.len())],
            StoreCall::Collect(owner, mailbox) => vec![units::collected(*owner, *mailbox)],
            // The units of these calls depend on their answers.
            StoreCall::Create(_) | StoreCall::Apply(..) | StoreCall::Record(..) => Vec::new(),
        };
        self.make_all(&calls).await?;
        real.await
    }

    async fn create(&self, new: NewTask, now: Timestamp) -> Result<Created, CreateError> {
        let calls = units::creation(&new);
        self.make_all(&calls).await?;
        let (key, slots, is_counted) = (new.task.key(), units::slots(&new.task, new.open_max), units::is_counted(&new));
        let created = self.store.create(new, now).await;
        match &created {
            Ok(Created::New(task) | Created::NewAndSent(task)) => self.partitions.note(&key, |known| {
                *known = Known { task: Some(task.clone()), slots, journal: 0 };
            }),
            Ok(Created::Existing(task)) => {
                self.make(&units::task_read(&task.key(), units::item_bytes(task))).await?;
                if is_counted {
                    self.change_count(key.owner).await;
                }
            }
            Err(
                CreateError::TooManyOpen { .. } | CreateError::TooMuchStored { .. } | CreateError::TooManyNew { .. },
            ) => {
                // Only the count was read. Then the adapter checks whether this is a retry.
                calls.iter().skip(1).rev().for_each(|call| self.partitions.unmake(call));
                self.make(&units::task_read(&key, 1)).await?;
            }
            Err(CreateError::KeyReused | CreateError::Store(_)) => {}
        }
        created
    }

    async fn apply(&self, key: &TaskKey, event: &TaskEvent, now: Timestamp) -> Result<Task, ApplyError> {
        let known = self.update(key, event, now).await?;
        let applied = self.store.apply(key, event, now).await;
        match &applied {
            Ok(task) => self.updated(&known, task).await,
            Err(ApplyError::Refused { current, .. }) => {
                self.partitions.note(key, |known| known.task = Some(Task::clone(current)));
            }
            Err(ApplyError::NotFound | ApplyError::Store(_)) => {}
        }
        applied
    }

    async fn record(&self, key: &TaskKey, entry: &Entry) -> Result<Recorded, StoreError> {
        let (call, bytes) = units::entry_written(key, entry);
        self.make(&call).await?;
        let recorded = self.store.record(key, entry).await?;
        if recorded == Recorded::First {
            self.partitions.note(key, |known| known.journal += bytes);
        }
        Ok(recorded)
    }
}
