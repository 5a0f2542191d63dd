//! Which requests to clients have no waiter any more in this process.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhaul_core::TaskId;

/// The requests of plain calls whose answers this process no longer awaits: the latest of them.
#[derive(Default)]
pub(crate) struct ClosedRequests(Mutex<VecDeque<(TaskId, u32)>>);

const CLOSED_MAX: usize = 4_096;

impl ClosedRequests {
    /// Whether this process has stopped to wait for the answer to this request.
    pub(crate) fn have(&self, request: (TaskId, u32)) -> bool {
        self.requests().contains(&request)
    }

    pub(crate) fn note(&self, request: (TaskId, u32)) {
        let mut requests = self.requests();
        if requests.len() == CLOSED_MAX {
            requests.pop_front();
        }
        requests.push_back(request);
    }

    fn requests(&self) -> MutexGuard<'_, VecDeque<(TaskId, u32)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
