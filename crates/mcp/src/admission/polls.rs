//! Polls of a task that come faster than its poll interval. A client that follows the interval is never limited, with
//! any jitter and next to other clients. Each task has ten polls at once. It earns another one in half its interval, or
//! in half a second if that is shorter. Only loops that do not wait come faster.
//!
//! Each process counts for itself, so that counting costs no write. No data depends on the counts.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use longhaul_core::audit::{Entry, Event, Outcome};
use longhaul_core::limits::PollLimit;
use longhaul_core::{Task, TaskKey, Timestamp};
use longhaul_engine::{Engine, PollError};
use rmcp::ErrorData;

use crate::reply::errors;

/// How long a poll is delayed at most, if it comes too early.
const SLOWED_MS_MAX: u64 = 2_000;

pub(crate) struct Polls {
    engine: Engine,
    limit: PollLimit,
    counts: Rate,
}

pub(crate) enum NotPolled {
    TooEarly(ErrorData),
    /// The engine could not answer it.
    Failed(PollError),
}

impl NotPolled {
    /// The error for the client, where a failure has this one.
    pub(crate) fn or(self, failed: impl FnOnce(PollError) -> ErrorData) -> ErrorData {
        match self {
            Self::TooEarly(error) => error,
            Self::Failed(error) => failed(error),
        }
    }
}

impl Polls {
    pub(crate) fn new(engine: Engine, limit: PollLimit) -> Self {
        Self { engine, limit, counts: Rate::default() }
    }

    /// The task as it is, unless it is polled too often.
    pub(crate) async fn poll(&self, key: &TaskKey) -> Result<Task, NotPolled> {
        self.admit(key).await.map_err(NotPolled::TooEarly)?;
        let task = self.engine.poll(key).await.map_err(NotPolled::Failed)?;
        self.told(&task);
        Ok(task)
    }

    /// Counts a poll of the task under `key`. One that comes too early waits, or is refused, as the operator decided.
    pub(crate) async fn admit(&self, key: &TaskKey) -> Result<(), ErrorData> {
        match self.limit {
            PollLimit::Off => Ok(()),
            PollLimit::Refuse => self.count(key).map_err(|retry_ms| too_early(key, retry_ms)),
            PollLimit::Slow => {
                self.slow_down(key).await;
                Ok(())
            }
        }
    }

    fn count(&self, key: &TaskKey) -> Result<(), u64> {
        self.counts.count(key, self.engine.ports().clock.now())
    }

    /// Waits until the poll does not come too early any more. None waits longer than the limit,
    /// even if many come at once.
    async fn slow_down(&self, key: &TaskKey) {
        let mut slowed_ms = 0;
        while let Err(after_ms) = self.count(key) {
            slowed_ms += after_ms;
            if slowed_ms > SLOWED_MS_MAX {
                return;
            }
            self.engine.ports().clock.sleep_ms(after_ms).await;
        }
    }

    /// The answer to the client is about to name the pause before its next poll of this task.
    pub(crate) fn told(&self, task: &Task) {
        if self.limit != PollLimit::Off {
            let now = self.engine.ports().clock.now();
            self.counts.earn_in(&task.key(), task.poll_interval_ms(now) / 2);
        }
    }
}

/// Tells the audit log that a task was polled too often.
pub(crate) fn note_refusal(key: &TaskKey) {
    Entry::new(Event::Request, Outcome::Refused).because("too_many_polls").task(key).log();
}

fn too_early(key: &TaskKey, retry_ms: u64) -> ErrorData {
    note_refusal(key);
    let message =
        "this task is polled much more often than its poll interval says; wait as long as each answer advises";
    errors::too_much_for_now("polls", message.to_owned(), retry_ms)
}

/// Requests for one call that are answered at once, however quickly they come.
const BURST: u32 = 10;

/// After that, one request is answered per this time, unless another one was set.
const EVERY_MS: u64 = 500;

/// Calls that are counted. If there are more, all counts start again.
const CALLS_MAX: usize = 4_096;

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
    /// Counts a request at `now`. Fails if it is one too many, with the time after which to ask again, in milliseconds.
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
