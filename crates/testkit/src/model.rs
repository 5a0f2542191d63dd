//! An adapter is correct when it equals the pure function: random events go through both, and are compared after each.

use longhaul_core::ports::{ApplyError, TaskStore};
use longhaul_core::{
    Admission, Advance, CleanupEnd, Failure, FailureKind, Lease, LeaseToken, Outcome, PartsName, Payload, Policy,
    Progress, Refusal, RequestedTerms, ResultKind, Suspension, Task, TaskEvent, Terms, Timestamp,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::given::{self, NOW, ask};
use crate::{SeededIds, StoreHarness};

/// How far tests go into the future: past leases, deadlines and expiries of [`StoreModel`]'s terms.
const SPAN_MS: u64 = 12_000;

/// Random tasks and events.
#[derive(Clone, Copy, Debug)]
pub struct StoreModel;

impl StoreModel {
    /// Terms so short that random times go past them.
    pub fn terms() -> impl Strategy<Value = Terms> {
        (1_u64..8_000, 0_u64..2_000, 1_u32..4).prop_map(|(run_ms_max, retention_ms, consecutive_failures_max)| {
            let policy =
                Policy { run_ms_max, retention_ms, ttl_ms: 0, ttl_ms_max: 0, poll_ms: None, consecutive_failures_max };
            Terms::negotiate(&policy, RequestedTerms::default())
        })
    }

    /// A time. The caller makes most of them later than the one before.
    pub fn moment() -> impl Strategy<Value = Timestamp> {
        (0..SPAN_MS).prop_map(|ms| NOW.plus_ms(ms))
    }

    /// Any event, with attempts, keys and times from ranges so small that they often fit.
    pub fn event() -> impl Strategy<Value = TaskEvent> {
        let attempt = || 0_u32..6;
        let labels = || proptest::option::of("[ab]{0,1}".prop_map(|value| given::labels(&[("a", &value)])));
        let reported = || (proptest::option::of(Self::progress()), labels());
        prop_oneof![
            6 => (any::<[u8; 16]>(), Self::moment()).prop_map(|(token, lease_until)| TaskEvent::Claim {
                token: LeaseToken::from_random(token),
                lease_until,
                admission: Admission::Free
            }),
            3 => (attempt(), Self::moment(), reported(), prop_oneof![Just(Advance::Recorded), Just(Advance::NotYet)])
                .prop_map(|(attempt, lease_until, (progress, labels), advance)| TaskEvent::Heartbeat {
                    attempt,
                    lease_until,
                    progress,
                    labels,
                    advance
                }),
            1 => (attempt(), Self::payload()).prop_map(|(attempt, variables)| TaskEvent::SetVariables {
                attempt,
                variables
            }),
            4 => (attempt(), Self::suspension(), reported()).prop_map(|(attempt, suspension, (progress, labels))| {
                TaskEvent::Suspend { attempt, suspension, progress, labels }
            }),
            2 => (attempt(), Self::moment(), any::<String>()).prop_map(|(attempt, not_before, reason)| {
                TaskEvent::Retry { attempt, not_before, reason }
            }),
            1 => (attempt(), Self::outcome(), reported()).prop_map(|(attempt, outcome, (progress, labels))| {
                TaskEvent::Finish { attempt, outcome, progress, labels }
            }),
            3 => proptest::collection::vec("[abz]", 0..3).prop_map(|keys| TaskEvent::Answer { keys }),
            2 => Self::moment().prop_map(|at| TaskEvent::Wake { at }),
            1 => Just(TaskEvent::Cancel),
            2 => Self::moment().prop_map(|not_since| TaskEvent::Resend { not_since }),
            1 => Just(TaskEvent::RetriesExhausted),
            1 => Just(TaskEvent::TimeOut),
            1 => (0..SPAN_MS).prop_map(|retention_ms| TaskEvent::ExtendRetention { retention_ms }),
            1 => Just(TaskEvent::Forget),
            2 => (0_u8..2, Self::moment()).prop_map(|(number, until)| TaskEvent::BeginCleanup {
                lease: Lease { until, token: LeaseToken::from_random([number; 16]) }
            }),
            1 => (0_u8..2, Self::cleanup_end()).prop_map(|(number, end)| TaskEvent::EndCleanup {
                token: LeaseToken::from_random([number; 16]),
                end
            }),
        ]
    }

    fn progress() -> impl Strategy<Value = Progress> {
        use proptest::num::f64::{NORMAL, SUBNORMAL, ZERO};
        (NORMAL | SUBNORMAL | ZERO, proptest::option::of(NORMAL), proptest::option::of(any::<String>()))
            .prop_map(|(done, total, message)| Progress { done, total, message })
    }

    fn payload() -> impl Strategy<Value = Payload> {
        prop_oneof![
            any::<String>().prop_map(Payload::Inline),
            (any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(attempt, count, bytes)| Payload::Parts {
                name: PartsName::Outcome { attempt },
                count,
                bytes: u64::from(bytes)
            }),
        ]
    }

    fn cleanup_end() -> impl Strategy<Value = CleanupEnd> {
        prop_oneof![
            Just(CleanupEnd::Done),
            Self::moment().prop_map(|again_at| CleanupEnd::Failed { again_at }),
            Self::moment().prop_map(|again_at| CleanupEnd::Postponed { again_at }),
        ]
    }

    fn suspension() -> impl Strategy<Value = Suspension> {
        prop_oneof![
            (proptest::collection::btree_set("[abc]", 0..3), proptest::option::of(Self::moment()))
                .prop_map(|(keys, until)| Suspension::Input { asks: keys.iter().map(|key| ask(key)).collect(), until }),
            Self::moment().prop_map(Suspension::Timer),
            Just(Suspension::Yield),
        ]
    }

    fn outcome() -> impl Strategy<Value = Outcome> {
        let failure = (any::<String>(), proptest::option::of(Self::payload())).prop_map(|(message, detail)| Failure {
            kind: FailureKind::Tool,
            message,
            detail,
        });
        prop_oneof![
            (Self::payload(), prop_oneof![Just(ResultKind::Success), Just(ResultKind::ToolError)])
                .prop_map(|(result, kind)| Outcome::Completed { result, kind }),
            failure.prop_map(Outcome::Failed),
        ]
    }

    /// A task that was just accepted, and what happens to it when. Times mostly grow, and sometimes do not: clocks
    /// of different machines differ.
    pub fn run() -> impl Strategy<Value = (Task, Vec<(TaskEvent, Timestamp)>)> {
        let step = prop_oneof![4 => 0_i64..200, 1 => -300_i64..2_000];
        let events = proptest::collection::vec((Self::event(), step), 1..40);
        (any::<u64>(), Self::terms(), events).prop_map(|(seed, terms, steps)| {
            let task = given::task_with(&SeededIds::new(seed), given::owner("alice"), NOW, |record| {
                record.terms = terms;
                record.expires_at = NOW.plus_ms(terms.ttl_ms);
            });
            let mut now = NOW;
            let mut events = Vec::new();
            for (event, step) in steps {
                now = Timestamp::from_ms(now.as_ms().saturating_add_signed(step)).max(NOW);
                events.push((event, now));
            }
            (task, events)
        })
    }
}

/// One model run: creates the task, and after each event compares answer, refusal and record.
///
/// # Panics
/// If the adapter differs from [`Task::apply`].
pub async fn store_equals_the_model(store: &dyn TaskStore, task: Task, events: &[(TaskEvent, Timestamp)]) {
    let key = task.key();
    store.create(given::new(task.clone()), NOW).await.unwrap();
    let mut model = task;
    for (event, now) in events {
        let context = format!("{event:?} at {now}, applied to {model:?}");
        match (store.apply(&key, event, *now).await, model.apply(event, *now)) {
            (Ok(stored), Ok(next)) => {
                assert_eq!(stored, next, "{context}");
                model = next;
            }
            (Err(ApplyError::NotFound), Err(Refusal::Expired)) => {}
            (Err(ApplyError::Refused { current, why }), Err(refusal)) => {
                assert_eq!((why, &*current), (refusal, &model), "{context}");
            }
            (stored, next) => panic!("the store answers {stored:?}, the model {next:?}: {context}"),
        }
        let living = Some(model.clone()).filter(|model| !model.has_expired(*now));
        assert_eq!(store.get(&key, *now).await.unwrap(), living, "{context}");
        // Whether or not it has expired, it is the same record: nothing expires before the first event.
        assert_eq!(store.get(&key, NOW.minus_ms(1)).await.unwrap().as_ref(), Some(&model), "{context}");
    }
}

/// Checks `cases` random runs, each against a store that `make` returns.
///
/// # Panics
/// With the smallest run in which the adapter differs from [`Task::apply`].
#[doc(hidden)]
pub fn check_store_model<H: StoreHarness>(cases: u32, make: impl AsyncFn() -> H) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&StoreModel::run(), |(task, events)| {
        crate::block_on(async {
            let harness = make().await;
            store_equals_the_model(harness.store(), task, &events).await;
        });
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

/// The property test of an adapter: it does to random tasks what [`Task::apply`] does. `$make` as in
/// [`store_contract!`](crate::store_contract!).
#[macro_export]
macro_rules! store_model_property {
    ($make:path) => {
        #[test]
        fn the_store_equals_the_model() {
            $crate::check_store_model(128, $make);
        }
    };
}
