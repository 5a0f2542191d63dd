//! Ports that fail on demand, before the call or after it, as a network does.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use longhaul_core::ports::{
    ApplyError, CreateError, Created, Delivery, Left, Message, NewTask, Page, QueueError, Recorded, StoreError,
    TaskStore, WorkQueue,
};
use longhaul_core::{Entry, MailboxId, OwnerId, PartsName, Task, TaskEvent, TaskFilter, TaskId, TaskKey, Timestamp};
use tokio::sync::Notify;

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It fails, and was not applied.
    Before,
    /// It was applied, and its answer is lost.
    After,
    /// The process that calls dies before it is applied: nobody waits for the answer, which never comes.
    DiesBefore,
    /// The process that calls dies after it was applied.
    DiesAfter,
    /// It was applied, and its answer does not come for as long as anybody waits for it.
    HangsAfter,
}

/// A call to a store, as a script sees it.
#[derive(Clone, Copy, Debug)]
pub enum StoreCall<'a> {
    /// [`TaskStore::create`]
    Create(&'a NewTask),
    /// [`TaskStore::get`]
    Get(&'a TaskKey),
    /// [`TaskStore::apply`]
    Apply(&'a TaskKey, &'a TaskEvent),
    /// [`TaskStore::list`] and [`TaskStore::list_filtered`]
    List(&'a OwnerId),
    /// [`TaskStore::record`]
    Record(&'a TaskKey, &'a Entry),
    /// [`TaskStore::journal`]
    Journal(&'a TaskKey),
    /// [`TaskStore::put_parts`]
    PutParts(&'a TaskKey, &'a PartsName),
    /// [`TaskStore::parts`]
    Parts(&'a TaskKey, &'a PartsName),
    /// [`TaskStore::leave`]
    Leave(&'a OwnerId, &'a MailboxId),
    /// [`TaskStore::collect`]
    Collect(&'a OwnerId, &'a MailboxId),
}

/// A call to a queue, as a script sees it.
#[derive(Clone, Copy, Debug)]
pub enum QueueCall<'a> {
    /// [`WorkQueue::send`]
    Send(&'a Message),
    /// [`WorkQueue::receive`]
    Receive,
    /// [`WorkQueue::extend`]
    Extend(&'a str),
    /// [`WorkQueue::delete`]
    Delete(&'a str),
    /// [`WorkQueue::receive_dead`]
    ReceiveDead,
}

/// The cause of every error that a script requested.
#[derive(Debug, thiserror::Error)]
#[error("injected: the call failed {0:?} it was applied")]
struct Scripted(Fault);

type StoreScript = Box<dyn FnMut(StoreCall<'_>) -> Fault + Send>;
type QueueScript = Box<dyn FnMut(QueueCall<'_>) -> Fault + Send>;

/// A store that asks a script what happens to each call.
pub struct FaultyStore {
    inner: Arc<dyn TaskStore>,
    script: Mutex<StoreScript>,
    open: AtomicUsize,
    deaths: Arc<Notify>,
}

/// A call that has not been answered yet.
struct OpenCall<'a>(&'a AtomicUsize);

impl<'a> OpenCall<'a> {
    fn begin(open: &'a AtomicUsize) -> Self {
        open.fetch_add(1, Ordering::SeqCst);
        Self(open)
    }
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl FaultyStore {
    /// `inner`, with the faults that `script` returns, call by call.
    pub fn new(inner: Arc<dyn TaskStore>, script: impl FnMut(StoreCall<'_>) -> Fault + Send + 'static) -> Self {
        Self { inner, script: Mutex::new(Box::new(script)), open: AtomicUsize::new(0), deaths: Arc::default() }
    }

    /// Is notified when a process dies: whoever runs it has to drop it then.
    #[must_use]
    pub fn deaths(&self) -> Arc<Notify> {
        Arc::clone(&self.deaths)
    }

    /// Whether no call waits for its answer.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.open.load(Ordering::SeqCst) == 0
    }

    /// Uses another script from now on.
    pub fn follow(&self, script: impl FnMut(StoreCall<'_>) -> Fault + Send + 'static) {
        *self.script.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(script);
    }

    async fn dies<T>(&self) -> T {
        self.deaths.notify_one();
        std::future::pending().await
    }

    async fn run<T, E: From<StoreError>>(
        &self,
        call: StoreCall<'_>,
        real: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        let _open = OpenCall::begin(&self.open);
        let fault = self.script.lock().unwrap_or_else(PoisonError::into_inner)(call);
        let unavailable = || E::from(StoreError::Unavailable(Scripted(fault).into()));
        match fault {
            Fault::None => real.await,
            Fault::Before => Err(unavailable()),
            Fault::After => {
                // Only its answer is lost.
                drop(real.await);
                Err(unavailable())
            }
            Fault::DiesBefore => self.dies().await,
            Fault::DiesAfter => {
                drop(real.await);
                self.dies().await
            }
            Fault::HangsAfter => {
                drop(real.await);
                std::future::pending().await
            }
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl TaskStore for FaultyStore {
    async fn create(&self, new: NewTask, now: Timestamp) -> Result<Created, CreateError> {
        let seen = new.clone();
        self.run(StoreCall::Create(&seen), self.inner.create(new, now)).await
    }

    async fn get(&self, key: &TaskKey, now: Timestamp) -> Result<Option<Task>, StoreError> {
        self.run(StoreCall::Get(key), self.inner.get(key, now)).await
    }

    async fn apply(&self, key: &TaskKey, event: &TaskEvent, now: Timestamp) -> Result<Task, ApplyError> {
        self.run(StoreCall::Apply(key, event), self.inner.apply(key, event, now)).await
    }

    async fn list(
        &self,
        owner: &OwnerId,
        before: Option<TaskId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        self.run(StoreCall::List(owner), self.inner.list(owner, before, limit, now)).await
    }

    async fn list_filtered(
        &self,
        owner: &OwnerId,
        filter: &TaskFilter,
        before: Option<TaskId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        self.run(StoreCall::List(owner), self.inner.list_filtered(owner, filter, before, limit, now)).await
    }

    async fn record(&self, key: &TaskKey, entry: &Entry) -> Result<Recorded, StoreError> {
        self.run(StoreCall::Record(key, entry), self.inner.record(key, entry)).await
    }

    async fn journal(&self, key: &TaskKey) -> Result<Vec<Entry>, StoreError> {
        self.run(StoreCall::Journal(key), self.inner.journal(key)).await
    }

    async fn put_parts(&self, key: &TaskKey, name: &PartsName, parts: &[&str]) -> Result<(), StoreError> {
        self.run(StoreCall::PutParts(key, name), self.inner.put_parts(key, name, parts)).await
    }

    async fn parts(&self, key: &TaskKey, name: &PartsName, count: u32) -> Result<Option<String>, StoreError> {
        self.run(StoreCall::Parts(key, name), self.inner.parts(key, name, count)).await
    }

    async fn leave(
        &self,
        owner: &OwnerId,
        mailbox: &MailboxId,
        text: &str,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<Left, StoreError> {
        self.run(StoreCall::Leave(owner, mailbox), self.inner.leave(owner, mailbox, text, expires_at, now)).await
    }

    async fn collect(
        &self,
        owner: &OwnerId,
        mailbox: &MailboxId,
        now: Timestamp,
    ) -> Result<Option<String>, StoreError> {
        self.run(StoreCall::Collect(owner, mailbox), self.inner.collect(owner, mailbox, now)).await
    }
}

/// A queue that asks a script what happens to each call.
pub struct FaultyQueue {
    inner: Arc<dyn WorkQueue>,
    script: Mutex<QueueScript>,
}

impl FaultyQueue {
    /// `inner`, with the faults that `script` returns, call by call.
    pub fn new(inner: Arc<dyn WorkQueue>, script: impl FnMut(QueueCall<'_>) -> Fault + Send + 'static) -> Self {
        Self { inner, script: Mutex::new(Box::new(script)) }
    }

    /// Uses another script from now on.
    pub fn follow(&self, script: impl FnMut(QueueCall<'_>) -> Fault + Send + 'static) {
        *self.script.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(script);
    }

    async fn run<T>(
        &self,
        call: QueueCall<'_>,
        real: impl Future<Output = Result<T, QueueError>> + Send,
    ) -> Result<T, QueueError> {
        let fault = self.script.lock().unwrap_or_else(PoisonError::into_inner)(call);
        match fault {
            Fault::None => real.await,
            Fault::Before => Err(QueueError(Scripted(fault).into())),
            Fault::After => {
                // Only its answer is lost.
                drop(real.await);
                Err(QueueError(Scripted(fault).into()))
            }
            Fault::DiesBefore => std::future::pending().await,
            Fault::DiesAfter | Fault::HangsAfter => {
                drop(real.await);
                std::future::pending().await
            }
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl WorkQueue for FaultyQueue {
    async fn send(&self, message: &Message, delay_ms: u64) -> Result<(), QueueError> {
        self.run(QueueCall::Send(message), self.inner.send(message, delay_ms)).await
    }

    async fn receive(&self, max: usize, visibility_ms: u64, wait_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        self.run(QueueCall::Receive, self.inner.receive(max, visibility_ms, wait_ms)).await
    }

    async fn extend(&self, receipt: &str, visibility_ms: u64) -> Result<(), QueueError> {
        self.run(QueueCall::Extend(receipt), self.inner.extend(receipt, visibility_ms)).await
    }

    async fn delete(&self, receipt: &str) -> Result<(), QueueError> {
        self.run(QueueCall::Delete(receipt), self.inner.delete(receipt)).await
    }

    async fn receive_dead(&self, max: usize, visibility_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        self.run(QueueCall::ReceiveDead, self.inner.receive_dead(max, visibility_ms)).await
    }
}
