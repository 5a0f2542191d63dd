//! A task store in memory, for a server that may forget everything when it ends.
//!
//! One lock around all tables makes every method atomic. A store on a database does each in one transaction, or in one
//! conditional write.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use longhaul_core::ports::{
    ApplyError, CreateError, Created, Left, NewEntry, NewTask, Page, Recorded, StoreError, TaskStore,
};
use longhaul_core::{
    Entry, MailboxId, OwnerId, PartsName, Payload, Refusal, Task, TaskEvent, TaskId, TaskKey, Timestamp, limits,
};

#[derive(Default)]
pub(crate) struct MemoryStore(Mutex<Tables>);

#[derive(Default)]
struct Tables {
    tasks: BTreeMap<TaskKey, Task>,
    /// The hash of the request that came with an idempotency key, and the task that it made.
    keys: HashMap<(OwnerId, [u8; 32]), ([u8; 32], TaskId)>,
    /// When the window of an owner's new tasks began, and how many are in it.
    windows: HashMap<OwnerId, (Timestamp, u32)>,
    journals: HashMap<TaskKey, Vec<Entry>>,
    parts: HashMap<(TaskKey, PartsName), Vec<String>>,
    /// A text, and when it expires.
    mailboxes: BTreeMap<(OwnerId, MailboxId), (String, Timestamp)>,
}

impl MemoryStore {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    /// A record past its time to live counts as absent.
    fn task(&self, key: &TaskKey, now: Timestamp) -> Option<&Task> {
        self.tasks.get(key).filter(|task| !task.has_expired(now))
    }

    /// A text past its time counts as absent.
    fn mailbox(&self, owner: &OwnerId, mailbox: &MailboxId, now: Timestamp) -> Option<String> {
        let held = self.mailboxes.get(&(*owner, *mailbox));
        held.filter(|(_, expires_at)| *expires_at > now).map(|(text, _)| text.clone())
    }

    fn unfinished(&self, owner: &OwnerId, now: Timestamp) -> usize {
        let tasks = self.tasks.values().filter(|task| task.owner == *owner);
        tasks.filter(|task| !task.has_ended() && !task.has_expired(now)).count()
    }
}

#[async_trait]
impl TaskStore for MemoryStore {
    async fn create(&self, new: NewTask, now: Timestamp) -> Result<Created, CreateError> {
        let mut tables = self.lock();
        let key = new.task.key();
        if let Some(idempotency) = new.idempotency
            && let Some((request, id)) = tables.keys.get(&(key.owner, idempotency.key))
            && let Some(task) = tables.task(&TaskKey::new(key.owner, *id), now)
        {
            let same_request = *request == idempotency.request;
            return if same_request { Ok(Created::Existing(task.clone())) } else { Err(CreateError::KeyReused) };
        }
        if let Some(task) = tables.task(&key, now) {
            return Ok(Created::Existing(task.clone()));
        }
        if tables.unfinished(&key.owner, now) >= usize::try_from(new.open_max).unwrap_or(usize::MAX) {
            return Err(CreateError::TooManyOpen { open_max: new.open_max });
        }
        let stored = tables.tasks.values().filter(|task| task.owner == key.owner).map(Task::stored_bytes);
        if stored.fold(new.task.stored_bytes(), u64::saturating_add) > new.stored_max {
            return Err(CreateError::TooMuchStored { stored_max: new.stored_max });
        }
        let window = tables.windows.entry(key.owner).or_insert((now, 0));
        if limits::minute_left_ms(window.0, now) == 0 {
            *window = (now, 0);
        }
        if let Some(new_max) = new.new_max.filter(|new_max| window.1 >= *new_max) {
            return Err(CreateError::TooManyNew { new_max, retry_ms: limits::minute_left_ms(window.0, now) });
        }
        window.1 += 1;
        if let Some(idempotency) = new.idempotency {
            tables.keys.insert((key.owner, idempotency.key), (idempotency.request, key.id));
        }
        if !new.request_parts.is_empty() {
            tables.parts.insert((key, PartsName::Request), new.request_parts.to_vec());
        }
        for NewEntry { entry, parts } in &*new.journal {
            if let Payload::Parts { name, .. } = &entry.value {
                tables.parts.insert((key, name.clone()), parts.clone());
            }
            tables.journals.entry(key).or_default().push(entry.clone());
        }
        tables.tasks.insert(key, new.task.clone());
        Ok(Created::New(new.task))
    }

    async fn get(&self, key: &TaskKey, now: Timestamp) -> Result<Option<Task>, StoreError> {
        Ok(self.lock().task(key, now).cloned())
    }

    async fn apply(&self, key: &TaskKey, event: &TaskEvent, now: Timestamp) -> Result<Task, ApplyError> {
        let mut tables = self.lock();
        let current = tables.task(key, now).ok_or(ApplyError::NotFound)?;
        match current.apply(event, now) {
            Ok(next) => {
                tables.tasks.insert(*key, next.clone());
                Ok(next)
            }
            Err(Refusal::Expired) => Err(ApplyError::NotFound),
            Err(why) => Err(ApplyError::Refused { current: Box::new(current.clone()), why }),
        }
    }

    async fn list(
        &self,
        owner: &OwnerId,
        before: Option<TaskId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        let tables = self.lock();
        let older = |task: &&Task| before.is_none_or(|before| task.id < before);
        // The order of ids is the order of creation.
        let newest_first = tables.tasks.values().rev().filter(|task| task.owner == *owner && !task.has_expired(now));
        let mut tasks: Vec<Task> = newest_first.filter(older).take(limit + 1).cloned().collect();
        let more = tasks.len() > limit;
        tasks.truncate(limit);
        let next = tasks.last().filter(|_| more).map(|task| task.id);
        Ok(Page { tasks, next })
    }

    async fn record(&self, key: &TaskKey, entry: &Entry) -> Result<Recorded, StoreError> {
        let mut tables = self.lock();
        let journal = tables.journals.entry(*key).or_default();
        if let Some(earlier) = journal.iter().find(|earlier| earlier.kind == entry.kind && earlier.name == entry.name) {
            return Ok(Recorded::Earlier(earlier.clone()));
        }
        journal.push(entry.clone());
        Ok(Recorded::First)
    }

    async fn journal(&self, key: &TaskKey) -> Result<Vec<Entry>, StoreError> {
        Ok(self.lock().journals.get(key).cloned().unwrap_or_default())
    }

    async fn put_parts(&self, key: &TaskKey, name: &PartsName, parts: &[&str]) -> Result<(), StoreError> {
        let parts = parts.iter().map(|part| (*part).to_owned()).collect();
        self.lock().parts.insert((*key, name.clone()), parts);
        Ok(())
    }

    async fn parts(&self, key: &TaskKey, name: &PartsName, count: u32) -> Result<Option<String>, StoreError> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let tables = self.lock();
        let parts = tables.parts.get(&(*key, name.clone()));
        Ok(parts.and_then(|parts| parts.get(..count)).map(|parts| parts.concat()))
    }

    async fn leave(
        &self,
        owner: &OwnerId,
        mailbox: &MailboxId,
        text: &str,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<Left, StoreError> {
        let mut tables = self.lock();
        if let Some(earlier) = tables.mailbox(owner, mailbox, now) {
            return Ok(Left::Earlier(earlier));
        }
        tables.mailboxes.insert((*owner, *mailbox), (text.to_owned(), expires_at));
        Ok(Left::First)
    }

    async fn collect(
        &self,
        owner: &OwnerId,
        mailbox: &MailboxId,
        now: Timestamp,
    ) -> Result<Option<String>, StoreError> {
        Ok(self.lock().mailbox(owner, mailbox, now))
    }
}
