//! How long a tool waits between two polls.

use std::time::Duration;

use longhaul_core::limits;

/// How long to wait between two polls of something: always equally long, or longer as time goes by. A [`Duration`] is
/// an interval that stays the same. Intervals below 0.1 seconds count as 0.1 seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Every {
    first_ms: u64,
    longest_ms: u64,
}

impl Every {
    /// Always this long.
    #[must_use]
    pub fn fixed(interval: Duration) -> Self {
        Self::growing(interval, interval)
    }

    /// Half of the time that has passed since the first poll, but at least `first` and at most `longest`: each pause is
    /// one and a half times as long as the one before. It depends on the time alone, so that a crash does not begin it
    /// again.
    #[must_use]
    pub fn growing(first: Duration, longest: Duration) -> Self {
        let first_ms = ms(first);
        Self { first_ms, longest_ms: ms(longest).max(first_ms) }
    }

    /// Whether later pauses may be longer than the first.
    pub(crate) const fn is_growing(self) -> bool {
        self.first_ms < self.longest_ms
    }

    /// How long to wait, in milliseconds, when the first poll was this many milliseconds ago.
    #[must_use]
    pub fn pause_ms(self, since_first_ms: u64) -> u64 {
        (since_first_ms / 2).clamp(self.first_ms, self.longest_ms)
    }
}

impl From<Duration> for Every {
    fn from(interval: Duration) -> Self {
        Self::fixed(interval)
    }
}

fn ms(interval: Duration) -> u64 {
    u64::try_from(interval.as_millis()).unwrap_or(u64::MAX).max(limits::POLL_EVERY_MS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_growing_pause_is_half_of_the_time_that_has_passed_within_its_limits() {
        let every = Every::growing(SECOND, 60 * SECOND);
        let pauses = [0, 1_000, 2_000, 3_000, 60_000, 120_000, u64::MAX].map(|ms| every.pause_ms(ms));
        assert_eq!(pauses, [1_000, 1_000, 1_000, 1_500, 30_000, 60_000, 60_000]);
        assert!(every.is_growing());
    }

    #[test]
    fn a_duration_is_an_interval_that_stays_the_same() {
        let every = Every::from(60 * SECOND);
        assert_eq!([0, 3_600_000].map(|ms| every.pause_ms(ms)), [60_000, 60_000]);
        assert!(!every.is_growing());
    }

    #[test]
    fn there_is_always_a_pause_and_it_never_shrinks() {
        assert_eq!(Every::fixed(Duration::ZERO).pause_ms(0), 100);
        assert_eq!(Every::growing(60 * SECOND, SECOND), Every::fixed(60 * SECOND));
        assert_eq!(Every::fixed(Duration::MAX).pause_ms(0), u64::MAX);
    }
}
