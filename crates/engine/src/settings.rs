//! The settings of the engine, and the limit of running attempts per owner.

use std::sync::Arc;

use longhaul_core::ports::AttemptPermits;
use longhaul_core::{IdSource, limits};

/// Times and limits of the engine, all times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a worker holds a task without a heartbeat. After a crash the next attempt starts this much later.
    pub lease_ms: u64,
    /// How often a worker renews its lease and learns of a cancel request.
    pub heartbeat_ms: u64,
    /// How often a worker writes progress, at most. The first report after a quiet interval is written at once.
    pub progress_ms: u64,
    /// How old a message may be before a poll sends it again; doubles with each further time.
    pub resend_ms: u64,
    /// The longest time before a poll sends a message again, unless `resend_ms` is longer.
    pub resend_ms_max: u64,
    /// The longest attempt; `None` if only the task's own deadline limits it.
    pub attempt_ms_max: Option<u64>,
    /// How long before the end of an attempt no new step is started.
    pub attempt_margin_ms: u64,
    /// How long a running attempt may continue after its worker was asked to stop.
    pub stop_grace_ms: u64,
    /// The longest sleep that an attempt waits out itself instead of suspending the task.
    pub inline_sleep_ms_max: u64,
    /// Delay before the first retry of a failed attempt; doubles with each further one.
    pub retry_ms: u64,
    /// The longest delay before a retry.
    pub retry_ms_max: u64,
    /// How long one try to clean up a task may take.
    pub cleanup_ms: u64,
    /// How often a write is tried if the store does not answer.
    pub write_tries_max: u32,
    /// How often the end of an attempt is tried if the store does not answer. More often than other writes: if it is
    /// not written, the work is done again.
    pub end_tries_max: u32,
    /// The longest delay before a write is retried; doubles with each further retry.
    pub write_retry_ms: u64,
    /// How many unfinished tasks one owner may have.
    pub open_tasks_max: u32,
    /// How many bytes the arguments and results of one owner's tasks may have.
    pub stored_bytes_max: u64,
    /// How many tasks one owner may create in a minute; `None` for any number.
    pub new_tasks_max: Option<u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease_ms: 30_000,
            heartbeat_ms: 10_000,
            progress_ms: 2_000,
            resend_ms: 30_000,
            resend_ms_max: 900_000,
            attempt_ms_max: None,
            attempt_margin_ms: 5_000,
            stop_grace_ms: 2_000,
            inline_sleep_ms_max: 1_000,
            retry_ms: 1_000,
            retry_ms_max: 60_000,
            cleanup_ms: 60_000,
            write_tries_max: 4,
            end_tries_max: 8,
            write_retry_ms: 50,
            open_tasks_max: limits::OPEN_TASKS_MAX_DEFAULT,
            stored_bytes_max: limits::STORED_BYTES_MAX_DEFAULT,
            new_tasks_max: None,
        }
    }
}

impl Settings {
    /// How old a message may be before a poll sends it again, after it was sent again this often.
    #[must_use]
    pub fn resend_after_ms(&self, resends: u32) -> u64 {
        let doubled = self.resend_ms.saturating_mul(1 << resends.min(16));
        doubled.min(self.resend_ms_max).max(self.resend_ms)
    }

    /// Delay before the next attempt after `failures` consecutive attempts failed before the one that failed now.
    #[must_use]
    pub(crate) fn retry_delay_ms(&self, failures: u32) -> u64 {
        self.retry_ms.saturating_mul(1 << failures.min(16)).min(self.retry_ms_max)
    }
}

/// How many attempts one owner may run at a time.
#[derive(Clone)]
pub struct AttemptLimit {
    /// Where they are counted.
    pub permits: Arc<dyn AttemptPermits>,
    /// How many there may be.
    pub attempts_max: u32,
    /// How long an attempt may run in a worker whose end is not known.
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
}

/// A random time to wait for a task that has waited for so long already, between these two on average. This makes some
/// twenty polls in the first two minutes, and four in three minutes from the fourth one on.
pub(crate) fn next_wait_ms(waited_ms: u64, (wait_ms, wait_ms_max): (u64, u64), ids: &dyn IdSource) -> u64 {
    ids.delay_ms((waited_ms / 4).min(wait_ms_max).max(wait_ms))
}

#[cfg(test)]
mod tests {
    use super::Settings;

    #[test]
    fn the_time_before_a_resend_doubles_up_to_its_limit() {
        let settings = Settings { resend_ms: 30_000, resend_ms_max: 900_000, ..Settings::default() };
        let times = [0, 1, 2, 4, 5, 6, u32::MAX].map(|resends| settings.resend_after_ms(resends));
        assert_eq!(times, [30_000, 60_000, 120_000, 480_000, 900_000, 900_000, 900_000]);
        let rare = Settings { resend_ms: 3_600_000, ..settings };
        assert_eq!(rare.resend_after_ms(3), 3_600_000);
    }

    #[test]
    fn the_delay_before_a_retry_doubles_up_to_its_limit() {
        let settings = Settings { retry_ms: 1_000, retry_ms_max: 60_000, ..Settings::default() };
        let delays = [0, 1, 2, 5, 6, 17, u32::MAX].map(|failures| settings.retry_delay_ms(failures));
        assert_eq!(delays, [1_000, 2_000, 4_000, 32_000, 60_000, 60_000, 60_000]);
        let unlimited = Settings { retry_ms_max: u64::MAX, ..settings };
        assert_eq!(unlimited.retry_delay_ms(40), 65_536_000);
    }
}
