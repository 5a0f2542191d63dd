//! How often a step that fails is tried.

use std::time::Duration;

use longhaul_core::limits;

/// The first pause of the default policy, in milliseconds.
const FIRST_MS: u64 = 500;

/// The longest pause of the default policy, in milliseconds.
const LONGEST_MS: u64 = 5_000;

/// The tries of the default policy.
const TRIES: u32 = 3;

/// How often the work of a step is tried while it fails, and how long the pauses are. A random part of up to a half is
/// taken from each pause, so that many callers do not come back at the same time.
///
/// The default is three tries within two seconds.
///
/// ```
/// # use longhaul_engine as longhaul;
/// use std::time::Duration;
/// use longhaul::Retry;
///
/// const SECOND: Duration = Duration::from_secs(1);
/// assert_eq!(Retry::fixed(SECOND), Retry::exponential(SECOND, SECOND));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    first_ms: u64,
    longest_ms: u64,
    tries: u32,
    within_ms: Option<u64>,
}

/// How a try of a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// With a value, as JSON text.
    Value(String),
    /// With an error, as JSON text, that another try may not meet.
    Failed(String),
    /// With an error, as JSON text, that every try would meet.
    FailedForGood(String),
}

impl Default for Retry {
    fn default() -> Self {
        Self { first_ms: FIRST_MS, longest_ms: LONGEST_MS, tries: TRIES, within_ms: None }
    }
}

impl Retry {
    /// One try: the first error is final.
    #[must_use]
    pub fn never() -> Self {
        Self::default().tries(1)
    }

    /// The same pause between two tries, up to 1,000 tries.
    #[must_use]
    pub fn fixed(pause: Duration) -> Self {
        Self::exponential(pause, pause)
    }

    /// The first pause, and then each twice as long as the one before, but at most `longest`; up to 1,000 tries.
    #[must_use]
    pub fn exponential(first: Duration, longest: Duration) -> Self {
        let first_ms = ms(first);
        Self { first_ms, longest_ms: ms(longest).max(first_ms), tries: limits::TRIES_MAX, within_ms: None }
    }

    /// At most this many tries, of which the first is one: 1 to 1,000.
    #[must_use]
    pub fn tries(self, tries: u32) -> Self {
        Self { tries: tries.clamp(1, limits::TRIES_MAX), ..self }
    }

    /// No try begins later than this after the first one began.
    #[must_use]
    pub fn for_at_most(self, time: Duration) -> Self {
        Self { within_ms: Some(ms(time)), ..self }
    }

    /// Whether the try of this number is the last one.
    pub(crate) const fn ends_with(self, failed: u32) -> bool {
        failed >= self.tries
    }

    /// How long to wait after the try of this number has failed, without the random part; `None` if it was the last.
    /// The first try began `since_first_ms` milliseconds ago.
    #[doc(hidden)]
    #[must_use]
    pub fn pause_ms(self, failed: u32, since_first_ms: u64) -> Option<u64> {
        if self.ends_with(failed) {
            return None;
        }
        let factor = 1_u64.checked_shl(failed.saturating_sub(1)).unwrap_or(u64::MAX);
        let pause_ms = self.first_ms.saturating_mul(factor).min(self.longest_ms);
        let is_in_time = self.within_ms.is_none_or(|within_ms| since_first_ms.saturating_add(pause_ms) <= within_ms);
        is_in_time.then_some(pause_ms)
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn pauses(retry: Retry) -> Vec<u64> {
        (1..=limits::TRIES_MAX).map_while(|failed| retry.pause_ms(failed, 0)).collect()
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        assert_eq!(pauses(Retry::exponential(SECOND, 5 * SECOND).tries(6)), [1_000, 2_000, 4_000, 5_000, 5_000]);
        assert_eq!(pauses(Retry::fixed(SECOND).tries(3)), [1_000, 1_000]);
        assert_eq!(pauses(Retry::default()), [500, 1_000]);
        assert_eq!(pauses(Retry::never()), [0_u64; 0]);
    }

    #[test]
    fn there_is_always_a_last_try() {
        let longest = Retry::exponential(Duration::MAX, Duration::ZERO).tries(u32::MAX);
        assert_eq!(pauses(longest).len(), 999);
        assert_eq!(longest.pause_ms(999, u64::MAX), Some(u64::MAX));
        assert_eq!(pauses(Retry::fixed(SECOND).tries(0)), [0_u64; 0]);
    }

    #[test]
    fn no_try_begins_after_the_time_for_all_of_them() {
        let retry = Retry::fixed(SECOND).for_at_most(10 * SECOND);
        assert_eq!(retry.pause_ms(1, 9_000), Some(1_000));
        assert_eq!(retry.pause_ms(1, 9_001), None);
    }
}
