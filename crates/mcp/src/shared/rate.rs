//! How often a client may ask for one thing. "The determination of what constitutes too many requests MAY be defined by
//! the server at runtime": here each process counts for itself, so that counting costs nothing. No data depends on
//! these counts.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use longhaul_core::{TaskKey, Timestamp};

/// Requests for one call that are answered at once, however quickly they come.
const BURST: u32 = 10;

/// After that, one request is answered per this time, unless another one was set.
const EVERY_MS: u64 = 500;

/// Calls that are counted. If there are more, all counts start again.
const CALLS_MAX: usize = 4_096;

/// The counts of one process.
#[derive(Default)]
pub(crate) struct Rate(Mutex<HashMap<TaskKey, Count>>);

struct Count {
    /// Requests that may still come.
    left: u32,
    since: Timestamp,
    /// In which time another one is earned.
    every_ms: u64,
}

impl Rate {
    /// Counts a request at `now`.
    ///
    /// # Errors
    /// If it is one too many: when to ask again, in milliseconds.
    pub(crate) fn count(&self, call: &TaskKey, now: Timestamp) -> Result<(), u64> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= CALLS_MAX && !counts.contains_key(call) {
            counts.clear();
        }
        let count = counts.entry(*call).or_insert(Count { left: BURST, since: now, every_ms: EVERY_MS });
        // A clock that was set back delays nobody.
        count.since = count.since.min(now);
        let earned = now.since_ms(count.since) / count.every_ms;
        if earned > 0 {
            count.left = BURST.min(count.left.saturating_add(u32::try_from(earned).unwrap_or(BURST)));
            count.since = count.since.plus_ms(earned * count.every_ms);
        }
        match count.left.checked_sub(1) {
            Some(left) => {
                count.left = left;
                Ok(())
            }
            None => Err(count.every_ms.saturating_sub(now.since_ms(count.since)).max(1)),
        }
    }

    /// From now on a request for this call is earned in this time, or in [`EVERY_MS`] if that is shorter.
    pub(crate) fn earn_in(&self, call: &TaskKey, every_ms: u64) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(call) {
            count.every_ms = every_ms.clamp(1, EVERY_MS);
        }
    }
}

#[cfg(test)]
mod tests {
    use longhaul_core::{IdSource, Identity, OwnerId};
    use longhaul_testkit::SeededIds;

    use super::*;

    fn call(number: u64) -> TaskKey {
        let at = Timestamp::from_ms(1);
        TaskKey::new(OwnerId::of(Identity::Anonymous), SeededIds::new(number).task_id(at))
    }

    #[test]
    fn a_loop_is_refused_and_a_client_that_waits_is_answered() {
        let (rate, start) = (Rate::default(), Timestamp::from_ms(1_000));
        assert!((0..BURST).all(|_| rate.count(&call(1), start).is_ok()));
        assert_eq!(rate.count(&call(1), start.plus_ms(100)), Err(400));
        assert_eq!(rate.count(&call(2), start), Ok(()), "another call");
        assert_eq!(rate.count(&call(1), start.plus_ms(EVERY_MS)), Ok(()));
        assert_eq!(rate.count(&call(1), start.plus_ms(EVERY_MS)), Err(EVERY_MS));
        let later = start.plus_ms(3_600_000);
        assert!((0..BURST).all(|_| rate.count(&call(1), later).is_ok()));
        assert!(rate.count(&call(1), later).is_err(), "waiting earns one burst at most");
    }

    #[test]
    fn a_clock_that_was_set_back_delays_nobody_for_longer() {
        let (rate, start) = (Rate::default(), Timestamp::from_ms(86_400_000));
        assert!((0..=BURST).any(|_| rate.count(&call(1), start).is_err()));
        let earlier = Timestamp::from_ms(1_000);
        assert_eq!(rate.count(&call(1), earlier), Err(EVERY_MS));
        assert_eq!(rate.count(&call(1), earlier.plus_ms(EVERY_MS)), Ok(()));
    }

    #[test]
    fn the_counts_of_many_calls_take_a_limited_space_and_refuse_none_of_them() {
        let (rate, now) = (Rate::default(), Timestamp::from_ms(1_000));
        for number in 0..3 * CALLS_MAX as u64 {
            assert_eq!(rate.count(&call(number), now), Ok(()));
        }
        assert!(rate.0.lock().unwrap().len() <= CALLS_MAX);
    }
}
