//! The ports: where tasks and messages are stored. Each verb is atomic, and its documentation says what is true once it
//! returns. After [`StoreError::Unavailable`] it is unknown whether the write was applied, or will be.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    Entry, MailboxId, Notification, OwnerId, PartsName, Task, TaskEvent, TaskFilter, TaskId, TaskKey, Timestamp, limits,
};

mod error;
mod permits;
mod queue;

pub use error::{ApplyError, CreateError, StoreError};
pub use permits::{AttemptPermit, AttemptPermits, Taken};
pub use queue::{Delivery, Message, Purpose, QueueError, WorkQueue};

/// How a retry of the same call is recognised as the same task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    /// Hash of the key as the caller sent it.
    pub key: [u8; 32],
    /// Hash of the request that it was sent with.
    pub request: [u8; 32],
}

/// A task to be created.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTask {
    /// The task.
    pub task: Task,
    /// The parts of its request, if its record names parts; otherwise empty.
    pub request_parts: Arc<[String]>,
    /// The journal with which it begins.
    pub journal: Arc<[NewEntry]>,
    /// The key that recognises a retry of the same call.
    pub idempotency: Option<IdempotencyKey>,
    /// How many unfinished tasks the owner may have, this one included.
    pub open_max: u32,
    /// How many bytes the arguments and results of the owner's tasks may have, the arguments of this one included. Only
    /// creations are refused: an end never is. Expired tasks may count until they are deleted.
    pub stored_max: u64,
    /// How many tasks the owner may create in a minute, this one included; `None` for any number. A window of the count
    /// lasts at least a minute. The last minute of one and the first of the next may have twice as many. A refused
    /// creation does not count, and neither does a retry. A window ends on its own, even if its count is wrong: see
    /// [`minute_left_ms`](crate::limits::minute_left_ms).
    pub new_max: Option<u32>,
    /// The time in milliseconds after which a first [message](Message::about) is to be visible in the engine's queue
    /// for this task. A store that is one with that queue may send it in the same write. `None` if the store is not to
    /// send one.
    pub send_in_ms: Option<u64>,
}

/// An entry of the journal with which a new task begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    /// The entry.
    pub entry: Entry,
    /// The parts of its value, if that names parts; otherwise empty.
    pub parts: Vec<String>,
}

/// The result of a creation.
#[derive(Clone, Debug, PartialEq)]
pub enum Created {
    /// The task is recorded.
    New(Task),
    /// The task is recorded, and its message is in the queue.
    NewAndSent(Task),
    /// The same call was accepted before; this is its task in its present state.
    Existing(Task),
}

/// One page of an owner's tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Newest first.
    pub tasks: Vec<Task>,
    /// Where the next page starts; `None` if this is the last page.
    pub next: Option<TaskId>,
}

impl Page {
    /// The page with the first `limit` of these tasks, which are in order. If there are no more of them, the next page
    /// begins at `rest`.
    #[must_use]
    pub fn of(mut tasks: Vec<Task>, limit: usize, rest: Option<TaskId>) -> Self {
        let more = tasks.len() > limit;
        tasks.truncate(limit);
        let next = if more { tasks.last().map(|oldest| oldest.id) } else { rest };
        Self { tasks, next }
    }
}

/// The result of recording a journal entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The entry is recorded.
    First,
    /// Another entry of the same kind and name was recorded before, and stays.
    Earlier(Entry),
}

/// The result of leaving a text in a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// The text is in the mailbox.
    First,
    /// This text was left earlier, and stays.
    Earlier(String),
}

/// Where tasks are stored.
#[async_trait]
pub trait TaskStore: Send + Sync {
    /// Writes a new task, with the parts of its request, its journal and its idempotency key if it has any, all or
    /// nothing. A creation that is refused, or that finds an earlier task, leaves neither parts nor entries. Only a
    /// writer that dies before the record is written may leave them, and they are deleted later.
    ///
    /// Once it returns `New` or `NewAndSent`, [`get`](Self::get) finds the task. `NewAndSent` says that the same write
    /// sent the message of [`NewTask::send_in_ms`], as [`WorkQueue::send`] would have sent it: all or nothing with the
    /// record. Only a store that is one with the queue returns it. After `New`, the creator of
    /// the task sends the message. `Existing` answers a retry, and sends nothing: the same key with the same request,
    /// or the same task id. Keys and tasks past their time to live count as absent.
    async fn create(&self, new: NewTask, now: Timestamp) -> Result<Created, CreateError>;

    /// The task as the latest finished write left it; `None` if there is none, or if it is past its time to live. If
    /// its record cannot be read, returns [`Task::unreadable`]. Such a task takes no event but those of tasks that have
    /// ended, which a store may refuse, too.
    ///
    /// # Errors
    /// [`StoreError::NewerVersion`] if a newer version wrote the record, which is then left as it is.
    async fn get(&self, key: &TaskKey, now: Timestamp) -> Result<Option<Task>, StoreError>;

    /// Does what [`Task::apply`] does, in one conditional write. A returned task is the recorded one.
    ///
    /// A write whose caller did not wait for the answer, or got [`StoreError::Unavailable`], may be applied late, after
    /// other writes. A heartbeat is never applied after one of the same attempt with a later `now`: it would undo newer
    /// progress and shorten the lease.
    async fn apply(&self, key: &TaskKey, event: &TaskEvent, now: Timestamp) -> Result<Task, ApplyError>;

    /// The tasks of `owner` older than `before`, newest first, at most `limit`. Expired tasks, and those that a newer
    /// version wrote, are skipped and do not shorten the page. [`Task::unreadable`] stands for each task whose
    /// record cannot be read.
    async fn list(
        &self,
        owner: &OwnerId,
        before: Option<TaskId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Page, StoreError>;

    /// The tasks of [`list`](Self::list) that `filter` takes. A store may stop once it has read
    /// [`CHOSEN_FROM_MAX`](limits::CHOSEN_FROM_MAX) tasks. The page may then be short or empty, and `next` says where
    /// to continue. A task that the filter takes, and that does not change meanwhile, is on exactly one of the
    /// consecutive pages. A task whose record cannot be read is on the pages of failed tasks once any other verb has
    /// come across it.
    ///
    /// This default works for every store; a store that needs fewer reads has its own.
    async fn list_filtered(
        &self,
        owner: &OwnerId,
        filter: &TaskFilter,
        mut before: Option<TaskId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        let (mut tasks, mut read) = (Vec::new(), 0_usize);
        loop {
            let page = self.list(owner, before, limits::PAGE_MAX, now).await?;
            read = read.saturating_add(page.tasks.len());
            tasks.extend(page.tasks.into_iter().filter(|task| filter.takes(task)));
            before = page.next;
            if tasks.len() > limit || before.is_none() || read >= limits::CHOSEN_FROM_MAX {
                return Ok(Page::of(tasks, limit, before));
            }
        }
    }

    /// The tasks of all owners that `filter` takes, older than `before`, newest first, at most `limit`, as
    /// [`list_filtered`](Self::list_filtered) has those of one owner. `None` if the store does not have
    /// this list. Only operators see it.
    async fn list_of_all_owners(
        &self,
        _filter: &TaskFilter,
        _before: Option<TaskId>,
        _limit: usize,
        _now: Timestamp,
    ) -> Result<Option<Page>, StoreError> {
        Ok(None)
    }

    /// Records a journal entry unless there is one of its kind and name. Once it returns, the entry that it returns,
    /// or its own, is the one that every later reader finds.
    ///
    /// Not fenced by the attempt: the first record wins, from any attempt, and is valid for all.
    async fn record(&self, key: &TaskKey, entry: &Entry) -> Result<Recorded, StoreError>;

    /// All journal entries of a task, in no particular order.
    async fn journal(&self, key: &TaskKey) -> Result<Vec<Entry>, StoreError>;

    /// Writes `parts` under `name`, replacing what a writer of the same name left before. Nothing points to them
    /// until a record names them.
    async fn put_parts(&self, key: &TaskKey, name: &PartsName, parts: &[&str]) -> Result<(), StoreError>;

    /// The first `count` parts under `name`, joined; `None` if one is missing.
    async fn parts(&self, key: &TaskKey, name: &PartsName, count: u32) -> Result<Option<String>, StoreError>;

    /// Leaves `text`, of at most [`ENTRY_BYTES_MAX`](crate::limits::ENTRY_BYTES_MAX) bytes, in one of the owner's
    /// mailboxes until `expires_at`, unless there is a text in it. Once it returns, its own text, or the one that it
    /// returns, is the one that [`collect`](Self::collect) finds until that text expires.
    ///
    /// A mailbox belongs to no task and needs none. Expired data counts as absent, and is deleted later.
    ///
    /// # Errors
    /// [`StoreError`]; a retry after a lost answer gets its own text as an earlier one.
    async fn leave(
        &self,
        owner: &OwnerId,
        mailbox: &MailboxId,
        text: &str,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<Left, StoreError>;

    /// The text in one of the owner's mailboxes, which stays in it; `None` if none was left or it has expired.
    /// Sees every text whose `leave` has returned.
    async fn collect(&self, owner: &OwnerId, mailbox: &MailboxId, now: Timestamp)
    -> Result<Option<String>, StoreError>;
}

/// Notifications that are not passed on yet. They are optional. If the store has them and they are enabled, some events
/// store a notification in the same atomic write. These events end a task, or make it wait for its client. Such a store
/// does not count [webhook deliveries](Task::is_webhook_delivery) among what is limited for their owners.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Up to `max` notifications, those first that were left first; waits up to `wait_ms` for the first one. Returns
    /// every notification of a recorded event, until it is [removed](Self::remove). One that cannot be read is set
    /// aside, and keeps no other one waiting.
    async fn notifications(&self, max: usize, wait_ms: u64) -> Result<Vec<Notification>, StoreError>;

    /// Removes notifications. Once it returns, they are not returned again. One that is not there counts as removed.
    ///
    /// # Errors
    /// [`StoreError`]; they may be removed.
    async fn remove(&self, notifications: &[Notification]) -> Result<(), StoreError>;
}

/// The unfinished tasks of all owners. They are optional. With a store that has them, the server can recover tasks that
/// are not polled.
#[async_trait]
pub trait UnfinishedTasks: Send + Sync {
    /// Up to `max` unfinished tasks after `after`, in the order of their keys, without those past their time to live. A
    /// task that stays unfinished is on one of the pages that follow each other. A store that is a queue, too, leaves
    /// out those that have a message, unless they are past their deadline and expire within
    /// [`limits::EXPIRES_SOON_MS`]: no worker may take that message in time. A task whose record this version cannot
    /// read is left out.
    async fn unfinished(&self, after: Option<TaskKey>, max: usize, now: Timestamp) -> Result<Vec<Task>, StoreError>;
}
