//! A clock that is set by hand.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use async_trait::async_trait;
use longhaul_core::{Clock, Timestamp};

/// A clock that stands still until it is advanced. Sleepers wake in the order of their times. Sleepers of the same time
/// wake in the order in which they went to sleep, so the same calls give the same run.
pub struct ManualClock {
    inner: Mutex<Inner>,
}

struct Inner {
    now: Timestamp,
    sleepers: BTreeMap<(Timestamp, u64), Waker>,
    names: u64,
}

impl ManualClock {
    /// A clock that shows `now`.
    #[must_use]
    pub const fn at(now: Timestamp) -> Self {
        Self { inner: Mutex::new(Inner { now, sleepers: BTreeMap::new(), names: 0 }) }
    }

    /// Lets `ms` milliseconds pass, and wakes the sleepers whose time was reached.
    pub fn advance_ms(&self, ms: u64) {
        let now = self.now().plus_ms(ms);
        self.advance_to(now);
    }

    /// Lets time pass until `moment`; does nothing if that has passed.
    pub fn advance_to(&self, moment: Timestamp) {
        let due = {
            let mut inner = self.lock();
            inner.now = inner.now.max(moment);
            let first_later = inner.now.plus_ms(1);
            let later = inner.sleepers.split_off(&(first_later, 0));
            std::mem::replace(&mut inner.sleepers, later)
        };
        // Woken outside the lock: a waker may run its task at once.
        due.into_values().for_each(Waker::wake);
    }

    /// The earliest time that a sleeper waits for.
    #[must_use]
    pub fn next_wake(&self) -> Option<Timestamp> {
        self.lock().sleepers.keys().next().map(|(moment, _)| *moment)
    }

    /// How many sleepers there are.
    #[must_use]
    pub fn sleepers(&self) -> usize {
        self.lock().sleepers.len()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::at(crate::given::NOW)
    }
}

/// Removes a sleeper from the list when its future is dropped, as `select!` does.
struct SleeperGuard<'a> {
    clock: &'a ManualClock,
    at: (Timestamp, u64),
}

impl Drop for SleeperGuard<'_> {
    fn drop(&mut self) {
        self.clock.lock().sleepers.remove(&self.at);
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.lock().now
    }

    async fn sleep_ms(&self, ms: u64) {
        let guard = {
            let mut inner = self.lock();
            inner.names += 1;
            SleeperGuard { clock: self, at: (inner.now.plus_ms(ms), inner.names) }
        };
        poll_fn(|context| {
            let mut inner = self.lock();
            if inner.now >= guard.at.0 {
                return Poll::Ready(());
            }
            inner.sleepers.insert(guard.at, context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_sleeper_wakes_when_its_time_has_passed_and_not_before() {
        let clock = ManualClock::default();
        let mut sleep = clock.sleep_ms(10);
        assert_eq!((&mut sleep).now_or_never(), None);
        clock.advance_ms(9);
        assert_eq!((&mut sleep).now_or_never(), None);
        assert_eq!(clock.next_wake(), Some(clock.now().plus_ms(1)));
        clock.advance_ms(1);
        assert_eq!(sleep.now_or_never(), Some(()));
        assert_eq!(clock.sleepers(), 0);
    }

    #[test]
    fn a_sleeper_that_is_dropped_leaves_nothing_behind() {
        let clock = ManualClock::default();
        let mut sleep = clock.sleep_ms(10);
        assert_eq!((&mut sleep).now_or_never(), None);
        drop(sleep);
        assert_eq!(clock.sleepers(), 0);
    }
}
