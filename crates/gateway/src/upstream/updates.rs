//! Subscriptions of clients to the resources of a server. They use one connection in addition to those of calls, while
//! at least one client is subscribed.

use std::collections::BTreeMap;
use std::sync::Arc;

use rmcp::ErrorData;
use tokio::sync::{Semaphore, broadcast, watch};

use crate::limits;

/// The subscribers to the resources of one server.
pub(super) struct Updates {
    pub(super) wanted: watch::Sender<Wanted>,
    pub(super) told: broadcast::Sender<Change>,
    /// For the one connection.
    pub(super) permits: Arc<Semaphore>,
}

#[derive(Default)]
pub(super) struct Wanted {
    /// How many subscribers want each resource.
    pub(super) uris: BTreeMap<String, usize>,
    /// Whether a task keeps the server subscribed.
    pub(super) is_kept: bool,
}

/// A change that subscribers receive.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A resource has changed, or may have.
    Updated(Arc<str>),
    /// The server does not report changes of it.
    Refused(Arc<str>, ErrorData),
}

impl Default for Updates {
    fn default() -> Self {
        Self {
            wanted: watch::Sender::default(),
            told: broadcast::Sender::new(limits::UPDATES_WAITING_MAX),
            permits: Arc::new(Semaphore::new(1)),
        }
    }
}

impl Updates {
    pub(super) fn tell(&self, uri: &str) {
        // There may be no subscriber left.
        drop(self.told.send(Change::Updated(uri.into())));
    }

    pub(super) fn refuse(&self, uri: &str, error: &ErrorData) {
        drop(self.told.send(Change::Refused(uri.into(), error.clone())));
    }

    /// Notifies the subscribers of a resource whether the server has `accepted` it.
    pub(super) fn begin(&self, uri: &String, accepted: &[String]) {
        if accepted.contains(uri) {
            self.tell(uri);
        } else {
            self.refuse(uri, &ErrorData::invalid_params(format!("`{uri}` cannot be subscribed to"), None));
        }
    }

    /// Whether no subscriber is left. If so, nothing keeps the server subscribed from now on.
    pub(super) fn is_over(&self) -> bool {
        let mut is_over = false;
        self.wanted.send_if_modified(|wanted| {
            is_over = wanted.uris.is_empty();
            wanted.is_kept = !is_over;
            false
        });
        is_over
    }
}
