//! The configuration that a gateway serves now, which can be replaced while the gateway runs.

use std::sync::{Arc, PoisonError, RwLock, Weak};

use crate::changes::Changes;
use crate::limits;
use crate::shared::Shared;
use longhaul::SystemClock;
use longhaul_core::Clock;

/// The configuration that a gateway serves now. A call keeps the one that it began with.
pub(crate) struct Live {
    current: RwLock<Arc<Shared>>,
    changes: Changes,
}

impl Live {
    pub(crate) fn new(first: Shared, changes: Changes) -> Arc<Self> {
        let live = Arc::new(Self { current: RwLock::new(Arc::new(first)), changes });
        keep_up(Arc::downgrade(&live));
        live
    }

    pub(crate) fn now(&self) -> Arc<Shared> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) const fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Serves another configuration from now on. Servers that are not in it keep no process and no connection.
    pub(crate) fn replace(&self, new: Shared) {
        let new = Arc::new(new);
        let old = {
            let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, Arc::clone(&new))
        };
        for upstream in &old.upstreams {
            if !new.upstreams.iter().any(|kept| Arc::ptr_eq(kept, upstream)) {
                upstream.close();
            }
        }
        let jobs = |shared: &Shared| shared.outside.all().map(|outside| outside.tool.clone()).collect::<Vec<_>>();
        let are_other_jobs = jobs(&old) != jobs(&new);
        self.changes.note_replaced(&old.lists.catalog(), &new.lists.catalog(), are_other_jobs);
    }
}

/// Reads lists that are due while a client waits for their changes, or a server is unavailable.
fn keep_up(live: Weak<Live>) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    runtime.spawn(async move {
        loop {
            SystemClock.sleep_ms(limits::KEEP_UP_MS).await;
            let Some(live) = live.upgrade() else { return };
            let shared = live.now();
            if live.changes.are_heard() || shared.lists.is_unwell() {
                drop(shared.lists.refresh(&shared.upstreams));
            }
        }
    });
}
