//! Repeated polls of which only the final value is recorded.

use std::future::Future;
use std::time::Duration;

use longhaul_core::{EntryKind, Timestamp, limits};

use super::place::SINCE;
use crate::{Attempt, IsRecorded};

/// How long to wait between two polls of something: always equally long, or longer as time goes by. A [`Duration`] is
/// an interval that stays the same. Intervals below 0.1 seconds count as 0.1 seconds.
///
/// ```
/// # use longhaul_engine as longhaul;
/// use std::time::Duration;
/// use longhaul::Every;
///
/// const MINUTE: Duration = Duration::from_secs(60);
/// assert_eq!(Every::fixed(MINUTE), Every::growing(MINUTE, MINUTE));
/// ```
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

    /// Half of the time that has passed since the first poll, but at least `first` and at most `longest`. Each pause is
    /// one and a half times as long as the one before. It depends on the time alone, so a crash does not reset it.
    #[must_use]
    pub fn growing(first: Duration, longest: Duration) -> Self {
        let first_ms = ms(first);
        Self { first_ms, longest_ms: ms(longest).max(first_ms) }
    }

    /// Whether later pauses may be longer than the first.
    #[doc(hidden)]
    #[must_use]
    pub const fn is_growing(self) -> bool {
        self.first_ms < self.longest_ms
    }

    /// How long to wait, in milliseconds, when the first poll was this many milliseconds ago.
    #[doc(hidden)]
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

impl Attempt {
    /// Polls until `poll` finds something. Records the JSON text that it found as step `name`, and returns the recorded
    /// text in this and every later attempt. A pause between two polls ends the attempt if it is long, as a long sleep
    /// does. Every attempt that comes here polls at once.
    ///
    /// Polls that find nothing are not recorded. A growing interval costs one timer, which says when it began.
    ///
    /// # Errors
    /// The errors of `poll`, which are not recorded. If the store does not answer, the attempt ends instead.
    pub async fn poll_until<E, F, Fut>(&self, name: &str, every: Every, mut poll: F) -> Result<String, E>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<Option<String>, E>>,
    {
        if let Some(text) = self.replayed(name).await {
            return Ok(text);
        }
        let since = self.polling_since(name, every).await;
        loop {
            self.yield_near_the_end().await;
            let polling = self.step_running();
            let began = self.begins();
            if let Some(text) = self.run_step(name, &polling, &mut poll).await? {
                return Ok(self.record_step(name, text, began, polling).await);
            }
            let now = self.0.engine.now();
            self.wait_until(now.plus_ms(every.pause_ms(now.since_ms(since))), polling).await;
            // To wait here is as good as to suspend the task, which sets the count of failures to 0.
            self.note_advance();
        }
    }

    /// When the first poll was, for an interval that depends on it.
    async fn polling_since(&self, name: &str, every: Every) -> Timestamp {
        let now = self.0.engine.now();
        if !every.is_growing() {
            return now;
        }
        let _recording = self.step_running();
        self.recorded_moment(&format!("{SINCE}{name}"), now).await
    }

    /// Notes that this attempt got further than the ones before it.
    pub(super) fn note_advance(&self) {
        if self.0.task.failures > 0 {
            // The count of failures is reset at once, in case this attempt dies before its next heartbeat.
            self.0.pending.note_urgent_advance();
        } else {
            self.0.pending.note_advance();
        }
    }

    /// The recorded text of step `name`, if there is one.
    pub(super) async fn replayed(&self, name: &str) -> Option<String> {
        self.check_name(EntryKind::Step, name).await;
        let text = match self.recorded(EntryKind::Step, name).await {
            Some(text) => text,
            None if self.is_replay() => self.stay_at_the_end().await,
            None => return None,
        };
        self.came_to(name, IsRecorded::Yes);
        self.name_once(EntryKind::Step, name).await;
        Some(text)
    }
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
