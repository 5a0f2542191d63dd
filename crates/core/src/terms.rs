//! The negotiated terms of the caller and the tool.

use serde::{Deserialize, Serialize};

use crate::limits;

/// The tool author's decisions about its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How long a task may take from its creation, or its later start, to its end, waits included.
    pub run_ms_max: u64,
    /// How long the result is retained after the end, at least.
    pub retention_ms: u64,
    /// The time to live if the caller does not ask for one.
    pub ttl_ms: u64,
    /// The longest time to live that a caller may ask for.
    pub ttl_ms_max: u64,
    /// How often polling makes sense, if the author says so.
    pub poll_ms: Option<u64>,
    /// How many consecutive attempts may die or fail, without recording a step, before the task fails.
    pub consecutive_failures_max: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            run_ms_max: limits::RUN_MS_DEFAULT,
            retention_ms: limits::RETENTION_MS_DEFAULT,
            ttl_ms: limits::TTL_MS_DEFAULT,
            ttl_ms_max: limits::TTL_MS_MAX_DEFAULT,
            poll_ms: None,
            consecutive_failures_max: limits::CONSECUTIVE_FAILURES_MAX_DEFAULT,
        }
    }
}

/// A caller's requests; `None` leaves the choice to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestedTerms {
    /// Time to live from creation.
    pub ttl_ms: Option<u64>,
    /// Time to retain the result after the end.
    pub retention_ms: Option<u64>,
}

/// The terms of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Time from when the task is [due](crate::Task::due_at) until the record may be deleted.
    pub ttl_ms: u64,
    /// Time that the result is retained after the end, at least.
    #[serde(rename = "keep_ms")]
    pub retention_ms: u64,
    /// Time from when the task is [due](crate::Task::due_at) until work is stopped.
    pub run_ms: u64,
    /// The author's hint for polling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_ms: Option<u64>,
    /// How many consecutive attempts may die or fail, without recording a step, before the task fails.
    #[serde(rename = "tries_max")]
    pub consecutive_failures_max: u32,
}

impl Terms {
    /// The terms that `policy` allows for `requested`. The time to live always covers the longest run and the retention
    /// of its result, even if less was requested. So a result never expires right after a long run.
    #[must_use]
    pub fn negotiate(policy: &Policy, requested: RequestedTerms) -> Self {
        let run_ms = policy.run_ms_max.clamp(1, limits::TTL_MS_CEILING);
        let retention_ms_min = policy.retention_ms.clamp(limits::RETENTION_MS_MIN, limits::TTL_MS_CEILING);
        let retention_ms =
            requested.retention_ms.unwrap_or(retention_ms_min).min(policy.ttl_ms_max).max(retention_ms_min);
        let least = run_ms.saturating_add(retention_ms);
        let ttl_ms = requested.ttl_ms.unwrap_or(policy.ttl_ms).min(policy.ttl_ms_max).max(least);
        Self {
            ttl_ms,
            retention_ms,
            run_ms,
            poll_ms: policy.poll_ms,
            consecutive_failures_max: policy.consecutive_failures_max.max(1),
        }
    }

    /// How long a client should wait before it polls a task of this age again, in milliseconds. It grows with the age,
    /// and is at first as long as the task is old. So a client learns of an end in at most twice the time that the task
    /// took. The author's hint replaces the first step, and later steps are never shorter than the hint.
    #[must_use]
    pub fn poll_interval_ms(&self, age_ms: u64) -> u64 {
        let by_age = limits::POLL_STEPS
            .iter()
            .find(|(below_ms, _)| age_ms < *below_ms)
            .map_or(limits::POLL_MS_LAST, |(_, poll_ms)| *poll_ms);
        match self.poll_ms {
            None => by_age.min(age_ms.max(limits::POLL_MS_FIRST)),
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
    fn a_task_may_run_for_a_day_and_its_result_is_kept_for_three() {
        const DAY_MS: u64 = 86_400_000;
        let policy = Policy::default();
        let terms = Terms::negotiate(&policy, RequestedTerms::default());
        assert_eq!((terms.run_ms, terms.retention_ms, terms.ttl_ms), (DAY_MS, 3 * DAY_MS, 4 * DAY_MS));
        assert_eq!(
            Terms::negotiate(&policy, RequestedTerms { ttl_ms: Some(u64::MAX), retention_ms: None }).ttl_ms,
            7 * DAY_MS
        );
    }

    #[test]
    fn requested_terms_are_negotiated_within_the_policy() {
        let policy = Policy {
            run_ms_max: 10_000,
            retention_ms: 70_000,
            ttl_ms: 200_000,
            ttl_ms_max: 500_000,
            ..Policy::default()
        };
        let negotiated = |ttl_ms, retention_ms| {
            let terms = Terms::negotiate(&policy, RequestedTerms { ttl_ms, retention_ms });
            (terms.ttl_ms, terms.retention_ms)
        };
        assert_eq!(negotiated(None, None), (200_000, 70_000));
        assert_eq!(negotiated(Some(300_000), Some(90_000)), (300_000, 90_000));
        assert_eq!(negotiated(Some(1), Some(1)), (80_000, 70_000), "the longest run and the retention at least");
        assert_eq!(negotiated(Some(900_000), Some(900_000)), (510_000, 500_000), "the longest time to live at most");
    }

    #[test]
    fn a_policy_is_held_to_the_limits() {
        let least = Policy {
            run_ms_max: 0,
            retention_ms: 0,
            ttl_ms: 0,
            ttl_ms_max: 0,
            poll_ms: Some(7),
            consecutive_failures_max: 0,
        };
        let terms = Terms::negotiate(&least, RequestedTerms::default());
        assert_eq!(
            terms,
            Terms { ttl_ms: 60_001, retention_ms: 60_000, run_ms: 1, poll_ms: Some(7), consecutive_failures_max: 1 }
        );
        let most =
            Policy { run_ms_max: u64::MAX, retention_ms: u64::MAX, consecutive_failures_max: 9, ..Policy::default() };
        let terms = Terms::negotiate(&most, RequestedTerms::default());
        assert_eq!(
            (terms.run_ms, terms.retention_ms, terms.consecutive_failures_max),
            (34_560_000_000, 34_560_000_000, 9)
        );
    }

    #[test]
    fn polls_become_rarer_with_age_but_never_more_frequent_than_the_hint() {
        let intervals = |poll_ms| {
            let terms = Terms::negotiate(&Policy { poll_ms, ..Policy::default() }, RequestedTerms::default());
            [1_000, 9_999, 10_000, 59_999, 60_000, 599_999, 600_000].map(|age_ms| terms.poll_interval_ms(age_ms))
        };
        assert_eq!(intervals(None), [1_000, 1_000, 3_000, 3_000, 5_000, 5_000, 10_000]);
        assert_eq!(intervals(Some(200)), [200, 200, 3_000, 3_000, 5_000, 5_000, 10_000]);
        assert_eq!(intervals(Some(4_000)), [4_000, 4_000, 4_000, 4_000, 5_000, 5_000, 10_000]);
        assert_eq!(intervals(Some(0)), [1, 1, 3_000, 3_000, 5_000, 5_000, 10_000]);
    }

    #[test]
    fn a_young_task_is_polled_after_the_time_that_it_is_old() {
        let intervals = |poll_ms| {
            let terms = Terms::negotiate(&Policy { poll_ms, ..Policy::default() }, RequestedTerms::default());
            [0, 99, 100, 101, 400, 999, 1_000, 1_001].map(|age_ms| terms.poll_interval_ms(age_ms))
        };
        assert_eq!(intervals(None), [100, 100, 100, 101, 400, 999, 1_000, 1_000]);
        assert_eq!(intervals(Some(200)), [200; 8], "the author knows better");
        assert_eq!(intervals(Some(4_000)), [4_000; 8]);
    }

    proptest! {
        #[test]
        fn a_ttl_is_never_shorter_than_the_longest_run_and_the_keeping_of_its_result(
            run in any::<u64>(), keep in any::<u64>(), ttl in any::<Option<u64>>(), requested_retention in
                any::<Option<u64>>()
        ) {
            let policy = Policy { run_ms_max: run, retention_ms: keep, ..Policy::default() };
            let terms = Terms::negotiate(&policy, RequestedTerms { ttl_ms: ttl, retention_ms: requested_retention });
            prop_assert!(terms.ttl_ms >= terms.run_ms.saturating_add(terms.retention_ms));
            prop_assert!(terms.retention_ms >= keep.min(limits::TTL_MS_CEILING));
            prop_assert!(terms.ttl_ms > terms.run_ms, "a task expires after its deadline");
        }

        #[test]
        fn the_poll_interval_only_grows_with_age(hint in proptest::option::of(1_u64..100_000), a in 0_u64..4_000_000, b
            in 0_u64..4_000_000) {
            let terms = Terms::negotiate(&Policy { poll_ms: hint, ..Policy::default() }, RequestedTerms::default());
            prop_assert!(terms.poll_interval_ms(a.min(b)) <= terms.poll_interval_ms(a.max(b)));
        }
    }
}
