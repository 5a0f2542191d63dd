//! Ports that fail on demand, before the call or after it, as a network does.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use longhaul_core::ports::{Delivery, Message, QueueError, StoreError, TaskStore, WorkQueue};
use tokio::sync::Notify;

use crate::layer::{Layered, StoreCall, StoreLayer};

/// The fault of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It fails, and was not applied.
    Before,
    /// It was applied, and its answer is lost.
    After,
    /// The process that calls dies before it is applied. The answer never comes, and no caller waits for it.
    DiesBefore,
    /// The process that calls dies after it was applied.
    DiesAfter,
    /// It was applied, and its answer does not come while a caller waits for it.
    HangsAfter,
    /// It was applied, and others may run before its answer comes.
    YieldsAfter,
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

impl Fault {
    /// How a call ends whose real end is `real`; `dies` learns of the death of its process.
    async fn befall<T, E>(
        self,
        real: impl Future<Output = Result<T, E>>,
        dies: impl FnOnce(),
        error: impl FnOnce(Scripted) -> E,
    ) -> Result<T, E> {
        let answer = match self {
            Self::Before => return Err(error(Scripted(self))),
            Self::DiesBefore => None,
            Self::None | Self::After | Self::DiesAfter | Self::HangsAfter | Self::YieldsAfter => Some(real.await),
        };
        match (self, answer) {
            (Self::None, Some(answer)) => return answer,
            (Self::YieldsAfter, Some(answer)) => {
                tokio::task::yield_now().await;
                return answer;
            }
            // Only its answer is lost.
            (Self::After, _) => return Err(error(Scripted(self))),
            (Self::HangsAfter, _) => {}
            _ => dies(),
        }
        std::future::pending().await
    }
}

type StoreScript = Box<dyn FnMut(StoreCall<'_>) -> Fault + Send>;
type QueueScript = Box<dyn FnMut(QueueCall<'_>) -> Fault + Send>;

/// A store that asks a script what happens to each call.
pub type FaultyStore = Layered<Scripting>;

/// The layer of a [`FaultyStore`].
pub struct Scripting {
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

impl Layered<Scripting> {
    /// `inner`, with the faults that `script` returns, call by call.
    pub fn new(inner: Arc<dyn TaskStore>, script: impl FnMut(StoreCall<'_>) -> Fault + Send + 'static) -> Self {
        let script: Mutex<StoreScript> = Mutex::new(Box::new(script));
        Self(Scripting { inner, script, open: AtomicUsize::new(0), deaths: Arc::default() })
    }

    /// Is notified when a process dies. The code that runs the process has to drop it then.
    #[must_use]
    pub fn deaths(&self) -> Arc<Notify> {
        Arc::clone(&self.0.deaths)
    }

    /// Whether no call waits for its answer.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.0.open.load(Ordering::SeqCst) == 0
    }

    /// Uses another script from now on.
    pub fn follow(&self, script: impl FnMut(StoreCall<'_>) -> Fault + Send + 'static) {
        *self.0.script.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(script);
    }
}

#[async_trait]
impl StoreLayer for Scripting {
    fn inner(&self) -> &dyn TaskStore {
        &*self.inner
    }

    async fn around<T: Send, E: From<StoreError> + Send>(
        &self,
        call: StoreCall<'_>,
        real: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        let _open = OpenCall::begin(&self.open);
        let fault = self.script.lock().unwrap_or_else(PoisonError::into_inner)(call);
        let unavailable = |why: Scripted| E::from(StoreError::Unavailable(why.into()));
        fault.befall(real, || self.deaths.notify_one(), unavailable).await
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
        fault.befall(real, || {}, |why| QueueError(why.into())).await
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
