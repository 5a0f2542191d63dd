//! Timestamps, and the clock that they come from.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// A time in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The time `ms` milliseconds after the epoch.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn as_ms(self) -> u64 {
        self.0
    }

    /// The time `ms` milliseconds later; saturates instead of overflowing.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// The time `ms` milliseconds earlier; never before the epoch.
    #[must_use]
    pub const fn minus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(ms))
    }

    /// Milliseconds from `earlier` to this time; 0 if `earlier` is in fact later, since clocks may differ.
    #[must_use]
    pub const fn since_ms(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

/// Where time comes from. The real clock is in the outermost crates; tests and the simulator have their own.
#[async_trait]
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// Returns once `ms` milliseconds have passed on this clock.
    async fn sleep_ms(&self, ms: u64);
}

#[cfg(test)]
mod tests {
    use super::Timestamp;

    #[test]
    fn moments_are_counted_in_milliseconds_and_never_overflow() {
        let moment = Timestamp::from_ms(1_000);
        assert_eq!(moment.plus_ms(5).as_ms(), 1_005);
        assert_eq!(moment.minus_ms(5).as_ms(), 995);
        assert_eq!(moment.minus_ms(1_001).as_ms(), 0);
        assert_eq!(moment.plus_ms(u64::MAX).as_ms(), u64::MAX);
        assert_eq!(moment.since_ms(Timestamp::from_ms(400)), 600);
        assert_eq!(moment.since_ms(Timestamp::from_ms(1_400)), 0);
        assert_eq!(moment.to_string(), "1000 ms");
    }
}
