//! The task store: passes each call to the database's threads.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ports::{ApplyError, CreateError, Created, Left, NewTask, Page, Recorded, StoreError, TaskStore};
use longhaul_core::{Entry, MailboxId, OwnerId, PartsName, Task, TaskEvent, TaskFilter, TaskId, TaskKey, Timestamp};

use crate::handle::Handle;
use crate::queue::deliveries;
use crate::tasks::{Application, NotCreated};
use crate::{Notifications, attachments, listing, mailboxes, outbox, tasks};

/// The tasks in a [`Database`](crate::Database).
#[derive(Clone)]
pub struct SqliteStore {
    pub(crate) shared: Arc<Handle>,
    sends: Sends,
}

/// Whether a new task's message is written with its record.
#[derive(Clone, Copy)]
pub(crate) enum Sends {
    WithTheRecord,
    Nothing,
}

impl SqliteStore {
    pub(crate) const fn new(shared: Arc<Handle>, sends: Sends) -> Self {
        Self { shared, sends }
    }
}

#[async_trait]
impl TaskStore for SqliteStore {
    async fn create(&self, new: NewTask, now: Timestamp) -> Result<Created, CreateError> {
        let (open_max, stored_max) = (new.open_max, new.stored_max);
        let send_in_ms = match self.sends {
            Sends::WithTheRecord => new.send_in_ms,
            Sends::Nothing => None,
        };
        let (clock, deliveries) = (Arc::clone(&self.shared.clock), Arc::clone(&self.shared.deliveries));
        let unreadable = Arc::clone(&self.shared.unreadable);
        let creation = self.shared.write_task(move |connection| {
            let created = tasks::create(connection, &unreadable, &new, now)?;
            match (created, send_in_ms) {
                (Ok(Created::New(task)), Some(send_in_ms)) => {
                    let now = clock.now();
                    deliveries::send_first(connection, &deliveries, &task, (now, now.plus_ms(send_in_ms)))?;
                    Ok(Ok(Created::NewAndSent(task)))
                }
                (created, _) => Ok(created),
            }
        });
        match creation.await.map_err(StoreError::from)? {
            Ok(created) => {
                if matches!(created, Created::NewAndSent(_)) {
                    self.shared.messages.notify_waiters();
                }
                Ok(created)
            }
            Err(NotCreated::KeyReused) => Err(CreateError::KeyReused),
            Err(NotCreated::TooManyOpen) => Err(CreateError::TooManyOpen { open_max }),
            Err(NotCreated::TooManyNew { new_max, retry_ms }) => Err(CreateError::TooManyNew { new_max, retry_ms }),
            Err(NotCreated::TooMuchStored) => Err(CreateError::TooMuchStored { stored_max }),
        }
    }

    async fn get(&self, key: &TaskKey, now: Timestamp) -> Result<Option<Task>, StoreError> {
        let (key, unreadable) = (*key, Arc::clone(&self.shared.unreadable));
        Ok(self.shared.read(move |connection| tasks::read_unexpired(connection, &unreadable, &key, now)).await?)
    }

    async fn apply(&self, key: &TaskKey, event: &TaskEvent, now: Timestamp) -> Result<Task, ApplyError> {
        let (key, event) = (*key, event.clone());
        let (notifications, unreadable) = (self.shared.settings.notifications, Arc::clone(&self.shared.unreadable));
        let application = self.shared.write_task(move |connection| {
            let application = tasks::apply(connection, &unreadable, &key, &event, now)?;
            let is_left = match (&application, notifications) {
                (Application::Done { before: Some(before), after }, Notifications::Left) => {
                    outbox::leave(connection, before, after)?
                }
                _ => false,
            };
            Ok((application, is_left))
        });
        let (application, is_left) = application.await.map_err(StoreError::from)?;
        if is_left {
            self.shared.notifications.notify_waiters();
        }
        match application {
            Application::Done { after, .. } => Ok(*after),
            Application::Refused { current, why } => Err(ApplyError::Refused { current, why }),
            Application::NotFound => Err(ApplyError::NotFound),
        }
    }

    async fn list(
        &self,
        owner: &OwnerId,
        before: Option<TaskId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        let (owner, unreadable) = (*owner, Arc::clone(&self.shared.unreadable));
        let read = move |connection: &_| listing::page(connection, &unreadable, &owner, before, limit, now);
        Ok(self.shared.read(read).await?)
    }

    async fn list_filtered(
        &self,
        owner: &OwnerId,
        filter: &TaskFilter,
        before: Option<TaskId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        let (owner, filter, unreadable) = (*owner, filter.clone(), Arc::clone(&self.shared.unreadable));
        let read =
            move |connection: &_| listing::filtered_page(connection, &unreadable, &owner, &filter, before, limit, now);
        Ok(self.shared.read(read).await?)
    }

    async fn list_of_all_owners(
        &self,
        filter: &TaskFilter,
        before: Option<TaskId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Option<Page>, StoreError> {
        let (filter, unreadable) = (filter.clone(), Arc::clone(&self.shared.unreadable));
        let read =
            move |connection: &_| listing::page_of_all_owners(connection, &unreadable, &filter, before, limit, now);
        Ok(Some(self.shared.read(read).await?))
    }

    async fn record(&self, key: &TaskKey, entry: &Entry) -> Result<Recorded, StoreError> {
        let (key, entry, now) = (*key, entry.clone(), self.shared.clock.now());
        Ok(self.shared.writer.call(move |connection| attachments::record(connection, &key, &entry, now)).await?)
    }

    async fn journal(&self, key: &TaskKey) -> Result<Vec<Entry>, StoreError> {
        let key = *key;
        Ok(self.shared.read(move |connection| attachments::journal(connection, &key)).await?)
    }

    async fn put_parts(&self, key: &TaskKey, name: &PartsName, parts: &[&str]) -> Result<(), StoreError> {
        let (key, name, now) = (*key, name.clone(), self.shared.clock.now());
        let parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
        Ok(self
            .shared
            .writer
            .call(move |connection| attachments::put_parts(connection, &key, &name, &parts, now))
            .await?)
    }

    async fn parts(&self, key: &TaskKey, name: &PartsName, count: u32) -> Result<Option<String>, StoreError> {
        let (key, name) = (*key, name.clone());
        Ok(self.shared.read(move |connection| attachments::parts(connection, &key, &name, count)).await?)
    }

    async fn leave(
        &self,
        owner: &OwnerId,
        mailbox: &MailboxId,
        text: &str,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<Left, StoreError> {
        let (owner, mailbox, text) = (*owner, *mailbox, text.to_owned());
        let leave = move |connection: &_| mailboxes::leave(connection, &owner, &mailbox, &text, expires_at, now);
        Ok(self.shared.writer.call(leave).await?)
    }

    async fn collect(
        &self,
        owner: &OwnerId,
        mailbox: &MailboxId,
        now: Timestamp,
    ) -> Result<Option<String>, StoreError> {
        let (owner, mailbox) = (*owner, *mailbox);
        Ok(self.shared.read(move |connection| mailboxes::collect(connection, &owner, &mailbox, now)).await?)
    }
}
