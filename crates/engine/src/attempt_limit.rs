//! The limit of running attempts per owner, and how long a task waits that would be one too many.

use std::sync::Arc;

use longhaul_core::IdSource;
use longhaul_core::ports::AttemptPermits;

/// How many attempts one owner may run at a time.
#[derive(Clone)]
pub struct AttemptLimit {
    /// Where they are counted.
    pub permits: Arc<dyn AttemptPermits>,
    /// How many there may be.
    pub attempts_max: u32,
    /// How long an attempt may run in a worker that is not told when it ends.
    pub attempt_ms: u64,
    /// How long a task waits at first before it looks for a permit again. The longer it has waited, the longer it
    /// waits.
    pub wait_ms: u64,
    /// The longest of these waits.
    pub wait_ms_max: u64,
}

impl AttemptLimit {
    /// At most `attempts_max` attempts, which are counted in `permits`.
    #[must_use]
    pub fn new(permits: Arc<dyn AttemptPermits>, attempts_max: u32) -> Self {
        Self { permits, attempts_max, attempt_ms: 900_000, wait_ms: 2_000, wait_ms_max: 60_000 }
    }

    /// A random time to wait for a task that has waited for so long already: some twenty polls in the first two
    /// minutes, and four in three minutes from the fourth one on.
    pub(crate) fn next_wait_ms(&self, waited_ms: u64, ids: &dyn IdSource) -> u64 {
        ids.delay_ms((waited_ms / 4).min(self.wait_ms_max).max(self.wait_ms))
    }
}
