//! The engine: the ports and the settings that every use case needs.

use std::sync::Arc;

use longhaul_core::ports::{AttemptPermits, StoreError, TaskStore, WorkQueue};
use longhaul_core::{Clock, IdSource, Timestamp};

use crate::changes::Changes;
use crate::observer::Unobserved;
use crate::settings::AttemptLimit;
use crate::{Observer, Settings};

/// The ports that the engine needs.
#[derive(Clone)]
pub struct Ports {
    /// Where tasks are stored.
    pub store: Arc<dyn TaskStore>,
    /// Where work is queued.
    pub queue: Arc<dyn WorkQueue>,
    /// The current time.
    pub clock: Arc<dyn Clock>,
    /// Where randomness comes from.
    pub ids: Arc<dyn IdSource>,
}

/// The queue of a tool, if it has one of its own.
type OwnQueues = dyn Fn(&str) -> Option<Arc<dyn WorkQueue>> + Send + Sync;

/// The use cases. Cheap to clone; holds no state but who in this process waits for a change, so that any instance can
/// answer any request.
#[derive(Clone)]
pub struct Engine {
    pub(crate) ports: Ports,
    pub(crate) settings: Settings,
    pub(crate) changes: Changes,
    pub(crate) attempt_limit: Option<AttemptLimit>,
    pub(crate) permits: Option<Arc<dyn AttemptPermits>>,
    /// Where the work of tools is sent that have no queue of their own.
    shared_queue: Arc<dyn WorkQueue>,
    /// Where the work of the other tools is sent.
    own_queues: Option<Arc<OwnQueues>>,
    observer: Option<Arc<dyn Observer>>,
}

impl Engine {
    /// An engine over these ports.
    #[must_use]
    pub fn new(ports: Ports, settings: Settings) -> Self {
        let shared_queue = Arc::clone(&ports.queue);
        Self {
            ports,
            settings,
            changes: Changes::default(),
            attempt_limit: None,
            permits: None,
            shared_queue,
            own_queues: None,
            observer: None,
        }
    }

    /// The same engine, with an observer.
    #[must_use]
    pub fn observed_by(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// The same engine, which runs no more attempts of one owner than `limit` allows. All workers over a store should
    /// have the same limit.
    #[must_use]
    pub fn limited_by(mut self, limit: AttemptLimit) -> Self {
        self.attempt_limit = Some(limit);
        self
    }

    /// The same engine, which takes the permits of tools with [flow control](longhaul_core::FlowControl) from this
    /// store. All workers need the same one.
    #[must_use]
    pub fn with_permits(mut self, permits: Arc<dyn AttemptPermits>) -> Self {
        self.permits = Some(permits);
        self
    }

    /// Whether tools may have flow control.
    #[must_use]
    pub const fn has_permits(&self) -> bool {
        self.permits.is_some()
    }

    /// The same engine, which sends the work of each tool to the queue that `queue_of` returns. The work of all others
    /// goes to the queue of its ports.
    #[must_use]
    pub fn with_own_queues(
        mut self,
        queue_of: impl Fn(&str) -> Option<Arc<dyn WorkQueue>> + Send + Sync + 'static,
    ) -> Self {
        self.own_queues = Some(Arc::new(queue_of));
        self
    }

    /// The same engine for deliveries of another queue. It sends work to the same queues as before.
    #[must_use]
    pub fn delivered_by(mut self, queue: Arc<dyn WorkQueue>) -> Self {
        self.ports.queue = queue;
        self
    }

    /// The operator's settings.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The ports, for callers that need the clock or randomness themselves.
    #[must_use]
    pub const fn ports(&self) -> &Ports {
        &self.ports
    }

    pub(crate) fn observer(&self) -> &dyn Observer {
        self.observer.as_deref().unwrap_or(&Unobserved)
    }

    /// Turns a failure of the store into the error of a use case, and reports it.
    pub(crate) fn unavailable<E>(&self, error: impl FnOnce(StoreError) -> E) -> impl FnOnce(StoreError) -> E {
        move |cause| {
            self.observer().unavailable();
            error(cause)
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.ports.clock.now()
    }

    pub(crate) fn store(&self) -> &dyn TaskStore {
        &*self.ports.store
    }

    /// The queue whose deliveries are run.
    pub(crate) fn queue(&self) -> &dyn WorkQueue {
        &*self.ports.queue
    }

    /// Whether the work of `tool` is sent to the queue that tools have in common.
    pub(crate) fn has_shared_queue(&self, tool: &str) -> bool {
        self.own_queues.as_ref().and_then(|queue_of| queue_of(tool)).is_none()
    }

    pub(crate) fn queue_of(&self, tool: &str) -> Arc<dyn WorkQueue> {
        let own = self.own_queues.as_ref().and_then(|queue_of| queue_of(tool));
        own.unwrap_or_else(|| Arc::clone(&self.shared_queue))
    }
}
