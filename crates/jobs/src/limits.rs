//! What an outside job may cost, and how long requests about it may take.

use std::time::Duration;

/// The first and the longest pause between two polls, unless somebody says otherwise. Between them each pause is half
/// of the time that has passed, so that short jobs end soon and long ones cost little.
pub(crate) const POLL_FIRST: Duration = Duration::from_secs(1);
pub(crate) const POLL_LONGEST: Duration = Duration::from_secs(15 * 60);

/// How long to wait before a start is tried again that is the same however often it is made.
pub(crate) const START_AGAIN: Duration = Duration::from_secs(5);

/// How often a start is tried that a system refuses for the moment, and that must be on record before each try.
pub(crate) const STARTS_MAX: u32 = 100;

/// How long to wait after such a try: 5 seconds, then longer and longer, up to 5 minutes.
pub(crate) fn start_pause(try_number: u32) -> Duration {
    Duration::from_secs(5).saturating_mul(2_u32.saturating_pow(try_number)).min(Duration::from_secs(5 * 60))
}

/// How long to wait each time before a job is looked for again that was not found.
pub(crate) const FIND_AGAIN_MS: [u64; 4] = [1_000, 2_000, 4_000, 8_000];

/// The largest output of a job that becomes a result. It is in the result twice, as structured content and as text, and
/// results have 4.5 MiB at most.
pub(crate) const OUTPUT_BYTES_MAX: usize = 2 << 20;

/// The largest answer that is read: an output within the limit, and what is around it.
pub(crate) const ANSWER_BYTES_MAX: usize = 4 << 20;

/// How long a connection may take to be made, and how long a request may take with its answer.
pub(crate) const CONNECT: Duration = Duration::from_secs(5);
pub(crate) const REQUEST: Duration = Duration::from_secs(20);

/// How often a request to AWS is made that changes nothing, or that is the same however often it is made.
pub(crate) const TRIES_MAX: u32 = 3;

/// How long to wait before the second try; the third waits twice as long.
pub(crate) const TRY_AGAIN_MS: u64 = 200;

/// How much of somebody else's error is in ours.
pub(crate) const ERROR_CHARS_MAX: usize = 2_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_that_are_refused_are_tried_less_and_less_often_for_hours() {
        assert_eq!([0, 1, 6, 31, 99].map(|number| start_pause(number).as_secs()), [5, 10, 300, 300, 300]);
        let all: Duration = (0..STARTS_MAX).map(start_pause).sum();
        assert!(all > Duration::from_secs(7 * 60 * 60), "{all:?}");
    }
}
