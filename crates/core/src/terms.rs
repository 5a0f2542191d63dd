//! What the caller and the tool agree on.

use serde::{Deserialize, Serialize};

use crate::limits;

/// What the author of a tool says about its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How long a task may take from its creation to its end, waits included.
    pub run_ms_max: u64,
    /// How long the result is kept after the end, at the least.
    pub keep_ms: u64,
    /// The time to live where the caller asks for none.
    pub ttl_ms: u64,
    /// The longest time to live that a caller may ask for.
    pub ttl_ms_max: u64,
    /// How often the author thinks that polling makes sense.
    pub poll_ms: Option<u64>,
    /// How many legs may die or fail in a row, without recording a step, before the task fails.
    pub tries_max: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            run_ms_max: limits::RUN_MS_DEFAULT,
            keep_ms: limits::KEEP_MS_DEFAULT,
            ttl_ms: limits::TTL_MS_DEFAULT,
            ttl_ms_max: limits::TTL_MS_MAX_DEFAULT,
            poll_ms: None,
            tries_max: limits::TRIES_MAX_DEFAULT,
        }
    }
}

/// What a caller asks for; nothing where it leaves the choice to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Time to live from creation.
    pub ttl_ms: Option<u64>,
    /// Time to keep the result after the end.
    pub keep_ms: Option<u64>,
}

/// What holds for one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Time from creation until the record may be forgotten.
    pub ttl_ms: u64,
    /// Time that the result is kept after the end, at the least.
    pub keep_ms: u64,
    /// Time from creation until work is stopped.
    pub run_ms: u64,
    /// The author's hint for polling.
    pub poll_ms: Option<u64>,
    /// How many legs may die or fail in a row without recording a step.
    pub tries_max: u32,
}

impl Terms {
    /// The terms that `policy` grants for `wish`. The time to live covers the longest run and the keeping of its
    /// result, whatever was asked for, so that a result never expires right after a long run.
    #[must_use]
    pub fn grant(policy: &Policy, wish: Wish) -> Self {
        let run_ms = policy.run_ms_max.clamp(1, limits::TTL_MS_CEILING);
        let keep_ms_min = policy.keep_ms.clamp(limits::KEEP_MS_MIN, limits::TTL_MS_CEILING);
        let keep_ms = wish.keep_ms.unwrap_or(keep_ms_min).min(policy.ttl_ms_max).max(keep_ms_min);
        let least = run_ms.saturating_add(keep_ms);
        let ttl_ms = wish.ttl_ms.unwrap_or(policy.ttl_ms).min(policy.ttl_ms_max).max(least);
        Self { ttl_ms, keep_ms, run_ms, poll_ms: policy.poll_ms, tries_max: policy.tries_max.max(1) }
    }

    /// How long a client should wait before it asks again about a task of this age, in milliseconds. Grows with the
    /// age; the author's hint replaces the first step and is never undercut.
    #[must_use]
    pub fn poll_interval_ms(&self, age_ms: u64) -> u64 {
        let by_age = limits::POLL_STEPS
            .iter()
            .find(|(below_ms, _)| age_ms < *below_ms)
            .map_or(limits::POLL_MS_LAST, |(_, poll_ms)| *poll_ms);
        match self.poll_ms {
            None => by_age,
            Some(hint) if age_ms < limits::POLL_FIRST_STEP_MS => hint.max(1),
            Some(hint) => by_age.max(hint),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn defaults_are_one_hour_and_a_day_at_most() {
        let policy = Policy::default();
        assert_eq!(Terms::grant(&policy, Wish::default()).ttl_ms, 3_600_000);
        assert_eq!(Terms::grant(&policy, Wish { ttl_ms: Some(u64::MAX), keep_ms: None }).ttl_ms, 86_400_000);
    }

    proptest! {
        #[test]
        fn a_ttl_is_never_shorter_than_the_longest_run_and_the_keeping_of_its_result(
            run in any::<u64>(), keep in any::<u64>(), ttl in any::<Option<u64>>(), wish_keep in any::<Option<u64>>()
        ) {
            let policy = Policy { run_ms_max: run, keep_ms: keep, ..Policy::default() };
            let terms = Terms::grant(&policy, Wish { ttl_ms: ttl, keep_ms: wish_keep });
            prop_assert!(terms.ttl_ms >= terms.run_ms.saturating_add(terms.keep_ms));
            prop_assert!(terms.keep_ms >= keep.min(limits::TTL_MS_CEILING));
            prop_assert!(terms.ttl_ms > terms.run_ms, "a task expires after its deadline");
        }

        #[test]
        fn the_poll_interval_only_grows_with_age(hint in proptest::option::of(1_u64..100_000), a in 0_u64..4_000_000, b in 0_u64..4_000_000) {
            let terms = Terms::grant(&Policy { poll_ms: hint, ..Policy::default() }, Wish::default());
            prop_assert!(terms.poll_interval_ms(a.min(b)) <= terms.poll_interval_ms(a.max(b)));
        }
    }
}
