//! The requests of plain calls whose answers this process awaits.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhaul_core::TaskId;

/// A request of a plain call: the call, and the request's number.
pub(crate) type Request = (TaskId, u32);

/// The requests whose answers this process awaits now.
#[derive(Default)]
pub(crate) struct OpenRequests(Mutex<HashSet<Request>>);

impl OpenRequests {
    /// Whether this process awaits the answer to this request.
    pub(crate) fn have(&self, request: Request) -> bool {
        self.requests().contains(&request)
    }

    pub(crate) fn open(&self, request: Request) {
        self.requests().insert(request);
    }

    pub(crate) fn close(&self, request: Request) {
        self.requests().remove(&request);
    }

    fn requests(&self) -> MutexGuard<'_, HashSet<Request>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
