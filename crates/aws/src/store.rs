//! The task store on one DynamoDB table.

use std::sync::Arc;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use longhaul_core::ports::{ApplyError, CreateError, Created, Left, NewTask, Page, Recorded, StoreError, TaskStore};
use longhaul_core::{
    Clock, Entry, IdSource, MailboxId, NotedTasks, OwnerId, PartsName, Task, TaskEvent, TaskFilter, TaskId, TaskKey,
    Timestamp,
};

use crate::lifetimes::Lifetimes;
use crate::table::{Pauses, Table};

/// Whether the limit of unfinished tasks per owner is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaMode {
    /// It is not: a creation without an idempotency key is one `PutItem`, an end one `UpdateItem`.
    Off,
    /// It is. Creation and end are the same writes as without a limit. One write to the owner's count comes before the
    /// creation, and one after the end. Under a high limit, only a sample of the tasks is counted.
    Counted,
}

/// The tasks in one DynamoDB table with the keys `pk` and `sk` and the TTL attribute `ttl`.
#[derive(Clone, Debug)]
pub struct DynamoStore {
    pub(crate) table: Table,
    pub(crate) quota: QuotaMode,
    pub(crate) lifetimes: Arc<Lifetimes>,
    /// The damaged tasks that this process has met.
    pub(crate) damaged: Arc<NotedTasks>,
}

impl DynamoStore {
    /// The store over `table`, which `client` accesses. No limit of unfinished tasks is enforced.
    #[must_use]
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Self {
            table: Table::new(client, table.into()),
            quota: QuotaMode::Off,
            lifetimes: Arc::default(),
            damaged: Arc::default(),
        }
    }

    /// The same store with this quota mode. All instances over a table should use the same: a task is counted by the
    /// instance that creates it.
    #[must_use]
    pub fn with_quota(self, quota: QuotaMode) -> Self {
        Self { quota, ..self }
    }

    /// The same store with pauses between the tries of a write that conflicts with others, or that was accepted in
    /// part.
    /// `ids` makes the pauses random, and `clock` waits. Without this, the tries follow each other at once.
    #[must_use]
    pub fn with_pauses(self, clock: Arc<dyn Clock>, ids: Arc<dyn IdSource>) -> Self {
        Self { table: self.table.with_pauses(Pauses::new(clock, ids)), ..self }
    }

    /// How many tasks that have not expired at `now` this process could not read. The log names them.
    #[must_use]
    pub fn unreadable_tasks(&self, now: Timestamp) -> usize {
        self.damaged.count(now)
    }

    fn noted(&self, task: Task) -> Task {
        self.lifetimes.note(&task);
        task
    }
}

#[async_trait]
impl TaskStore for DynamoStore {
    async fn create(&self, new: NewTask, now: Timestamp) -> Result<Created, CreateError> {
        let created = self.create_task(&new, now).await?;
        Ok(match created {
            Created::New(task) => Created::New(self.noted(task)),
            Created::NewAndSent(task) => Created::NewAndSent(self.noted(task)),
            Created::Existing(task) => Created::Existing(self.noted(task)),
        })
    }

    async fn get(&self, key: &TaskKey, now: Timestamp) -> Result<Option<Task>, StoreError> {
        let stored = self.stored(key).await?.filter(|stored| !stored.task.has_expired(now));
        Ok(stored.map(|stored| self.noted(stored.task)))
    }

    async fn apply(&self, key: &TaskKey, event: &TaskEvent, now: Timestamp) -> Result<Task, ApplyError> {
        let task = self.apply_event(key, event, now).await?;
        if self.lifetimes.note_extension(&task) {
            // The retention was extended: what this store wrote before it knew has to be kept longer, too.
            self.extend_retention(&task).await?;
        }
        Ok(self.noted(task))
    }

    async fn list(
        &self,
        owner: &OwnerId,
        before: Option<TaskId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        self.page_of(owner, before, limit, now).await
    }

    async fn list_filtered(
        &self,
        owner: &OwnerId,
        filter: &TaskFilter,
        before: Option<TaskId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        self.filtered_page_of(owner, filter, before, limit, now).await
    }

    async fn record(&self, key: &TaskKey, entry: &Entry) -> Result<Recorded, StoreError> {
        self.record_entry(key, entry).await
    }

    async fn journal(&self, key: &TaskKey) -> Result<Vec<Entry>, StoreError> {
        self.entries(key).await
    }

    async fn put_parts(&self, key: &TaskKey, name: &PartsName, parts: &[&str]) -> Result<(), StoreError> {
        self.write_parts(key, name, parts).await
    }

    async fn parts(&self, key: &TaskKey, name: &PartsName, count: u32) -> Result<Option<String>, StoreError> {
        self.read_parts(key, name, count).await
    }

    async fn leave(
        &self,
        owner: &OwnerId,
        mailbox: &MailboxId,
        text: &str,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<Left, StoreError> {
        self.leave_text(owner, mailbox, text, expires_at, now).await
    }

    async fn collect(
        &self,
        owner: &OwnerId,
        mailbox: &MailboxId,
        now: Timestamp,
    ) -> Result<Option<String>, StoreError> {
        self.collect_text(owner, mailbox, now).await
    }
}
