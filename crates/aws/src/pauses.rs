//! Pauses between tries, random and longer each time.

use std::fmt;
use std::sync::Arc;

use longhaul_core::{Clock, IdSource};

/// The longest pause after the first try; each further one may be twice as long.
const FIRST_MS: u64 = 40;

/// The longest pause.
const MAX_MS: u64 = 1_000;

/// Where pauses get their time and their randomness from.
#[derive(Clone, Default)]
pub(crate) struct Pauses(Option<(Arc<dyn Clock>, Arc<dyn IdSource>)>);

impl Pauses {
    pub(crate) fn new(clock: Arc<dyn Clock>, ids: Arc<dyn IdSource>) -> Self {
        Self(Some((clock, ids)))
    }

    /// Waits after the failed try with this number, counted from 0.
    pub(crate) async fn after(&self, failed: u32) {
        let longest = FIRST_MS.saturating_mul(1 << failed.min(16)).min(MAX_MS);
        self.up_to(longest).await;
    }

    /// Waits between half of `ms` and all of it.
    pub(crate) async fn up_to(&self, ms: u64) {
        if let Some((clock, ids)) = &self.0
            && ms > 0
        {
            clock.sleep_ms(ids.delay_ms(ms)).await;
        }
    }
}

impl fmt::Debug for Pauses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pauses").field(&self.0.is_some()).finish()
    }
}
