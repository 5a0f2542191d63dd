//! The real clock, and randomness from the operating system.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use longhaul_core::{Clock, IdSource, Timestamp};

/// The clock of this machine, as a [`Clock`](longhaul_core::Clock).
///
/// ```
/// use longhaul::SystemClock;
/// use longhaul_core::Clock;
///
/// assert!(SystemClock.now().as_ms() > 1_700_000_000_000);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is where the time comes from")]
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_ms(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
    }

    #[expect(clippy::disallowed_methods, reason = "this is where the time comes from")]
    async fn sleep_ms(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

/// Ids and tokens from the randomness of the operating system, as an [`IdSource`](longhaul_core::IdSource).
///
/// ```
/// use longhaul::OsIds;
/// use longhaul_core::IdSource;
///
/// let (mut one, mut other) = ([0; 32], [0; 32]);
/// OsIds.fill(&mut one);
/// OsIds.fill(&mut other);
/// assert_ne!(one, other);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct OsIds;

impl IdSource for OsIds {
    /// # Panics
    /// If the operating system provides no randomness: ids that are generated without it could be guessed.
    #[expect(clippy::expect_used, reason = "there is no safe way to continue")]
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system gives random bytes");
    }
}
