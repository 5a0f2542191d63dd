//! The engine: the ports and the settings that every use case needs.

use std::sync::Arc;

use longhaul_core::ports::{StoreError, TaskStore, WorkQueue};
use longhaul_core::{Clock, IdSource, Timestamp};

use crate::changes::Changes;
use crate::leg_limit::LegLimit;
use crate::observer::Unobserved;
use crate::{Observer, Settings};

/// What the engine needs from outside.
#[derive(Clone)]
pub struct Ports {
    /// Where tasks are stored.
    pub store: Arc<dyn TaskStore>,
    /// Where work is queued.
    pub queue: Arc<dyn WorkQueue>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where randomness comes from.
    pub ids: Arc<dyn IdSource>,
}

/// The use cases. Cheap to clone; holds no state but who in this process waits for a change, so that any instance can
/// answer any request.
#[derive(Clone)]
pub struct Engine {
    pub(crate) ports: Ports,
    pub(crate) settings: Settings,
    pub(crate) changes: Changes,
    pub(crate) leg_limit: Option<LegLimit>,
    observer: Option<Arc<dyn Observer>>,
}

impl Engine {
    /// An engine over these ports.
    #[must_use]
    pub fn new(ports: Ports, settings: Settings) -> Self {
        Self { ports, settings, changes: Changes::default(), leg_limit: None, observer: None }
    }

    /// The same engine, with an observer of what happens.
    #[must_use]
    pub fn observed_by(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// The same engine, which runs no more legs of one owner than `limit` allows. All workers over a store should have
    /// the same limit.
    #[must_use]
    pub fn limited_by(mut self, limit: LegLimit) -> Self {
        self.leg_limit = Some(limit);
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

    pub(crate) fn queue(&self) -> &dyn WorkQueue {
        &*self.ports.queue
    }
}
