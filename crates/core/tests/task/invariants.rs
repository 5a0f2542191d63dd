//! What holds for a task whatever happens to it, in any order and at any time.

use longhaul_core::{
    Admission, Cleanup, LeaseToken, Refusal, ResultKind, State, Status, Task, TaskEvent, TaskRecord, Terms, Timestamp,
};
use longhaul_testkit::StoreModel;
use longhaul_testkit::given::NOW;
use proptest::prelude::*;

use crate::given::record;

fn task(terms: Terms, not_before: Option<Timestamp>) -> Task {
    let state = not_before.map_or(State::Queued, |until| State::Sleeping { until });
    Task::restore(TaskRecord {
        attempt: 0,
        failures: 0,
        last_failure: None,
        terms,
        created_at: NOW,
        not_before,
        updated_at: NOW,
        sent_at: NOW,
        started_at: None,
        expires_at: not_before.unwrap_or(NOW).plus_ms(terms.ttl_ms),
        cleanup: Cleanup::ARMED,
        ..record(state)
    })
}

/// A later start, or none.
fn not_before() -> impl Strategy<Value = Option<Timestamp>> {
    prop_oneof![3 => Just(None), 1 => (1_u64..3_000).prop_map(|ms| Some(NOW.plus_ms(ms)))]
}

/// What happened to a task, and the result.
#[derive(Debug)]
struct Change {
    before: Task,
    event: TaskEvent,
    now: Timestamp,
    after: Result<Task, Refusal>,
}

/// A life: what happened to one task, refused events too. Times go forward and sometimes back, as the clocks of
/// different machines do.
fn life() -> impl Strategy<Value = Vec<Change>> {
    let step = prop_oneof![4 => 0_i64..200, 1 => -300_i64..2_000];
    let steps = proptest::collection::vec((StoreModel::event(), step), 1..60);
    (StoreModel::terms(), not_before(), steps).prop_map(|(terms, not_before, steps)| {
        let (mut task, mut now, mut life) = (task(terms, not_before), NOW, Vec::new());
        for (event, step) in steps {
            now = Timestamp::from_ms(now.as_ms().saturating_add_signed(step)).max(NOW);
            let after = task.apply(&event, now);
            let before = task.clone();
            task = after.clone().unwrap_or(task);
            life.push(Change { before, event, now, after });
        }
        life
    })
}

/// The changes of a life that were not refused.
fn changes(life: &[Change]) -> impl Iterator<Item = (&Task, &TaskEvent, Timestamp, &Task)> {
    life.iter().filter_map(|change| Some((&change.before, &change.event, change.now, change.after.as_ref().ok()?)))
}

/// The attempt in whose name an event is written.
fn writer(event: &TaskEvent) -> Option<u32> {
    match event {
        TaskEvent::Heartbeat { attempt, .. }
        | TaskEvent::SetVariables { attempt, .. }
        | TaskEvent::Suspend { attempt, .. }
        | TaskEvent::Retry { attempt, .. }
        | TaskEvent::Finish { attempt, .. } => Some(*attempt),
        TaskEvent::Claim { .. }
        | TaskEvent::Answer { .. }
        | TaskEvent::Wake { .. }
        | TaskEvent::Cancel
        | TaskEvent::Resend { .. }
        | TaskEvent::RetriesExhausted
        | TaskEvent::TimeOut
        | TaskEvent::ExtendRetention { .. }
        | TaskEvent::Forget
        | TaskEvent::BeginCleanup { .. }
        | TaskEvent::EndCleanup { .. } => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_024) })]

    #[test]
    fn a_task_that_ended_stays_as_it_ended(life in life()) {
        for (before, event, _, after) in changes(&life) {
            if before.has_ended() {
                let may_follow = match event {
                    TaskEvent::ExtendRetention { .. } | TaskEvent::Forget => true,
                    TaskEvent::BeginCleanup { .. } | TaskEvent::EndCleanup { .. } | TaskEvent::Resend { .. } => {
                        before.needs_cleanup()
                    }
                    _ => false,
                };
                prop_assert!(may_follow, "{event:?} made {after:?}");
                prop_assert_eq!((&before.state, before.ended_at), (&after.state, after.ended_at));
            }
            prop_assert_eq!(after.has_ended(), after.ended_at.is_some());
        }
    }

    #[test]
    fn an_event_says_whether_it_ends_the_task(life in life()) {
        for (before, event, _, after) in changes(&life) {
            prop_assert_eq!(event.ends_task(), after.has_ended() && !before.has_ended(), "{:?}", event);
        }
    }

    #[test]
    fn only_a_claim_raises_the_attempt_and_by_exactly_one(life in life()) {
        for (before, event, _, after) in changes(&life) {
            let claimed = u32::from(matches!(event, TaskEvent::Claim { .. }));
            prop_assert_eq!(after.attempt, before.attempt + claimed, "{:?}", event);
        }
    }

    #[test]
    fn only_the_attempt_that_holds_the_task_writes(life in life()) {
        for (before, event, _, _) in changes(&life) {
            if let Some(attempt) = writer(event) {
                prop_assert_eq!(attempt, before.attempt);
                let held = matches!(before.state, State::Running { .. });
                prop_assert!(held, "{:?} applied to {:?}", event, before);
            }
        }
    }

    #[test]
    fn a_task_is_held_by_the_worker_that_claimed_it_last(life in life()) {
        let mut holder = None;
        for (_, event, _, after) in changes(&life) {
            if let TaskEvent::Claim { token, .. } = event {
                holder = Some(*token);
            }
            if let State::Running { lease } = &after.state {
                prop_assert_eq!(Some(lease.token), holder);
            }
        }
    }

    #[test]
    fn a_living_lease_is_never_taken(life in life()) {
        for (before, event, now, _) in changes(&life) {
            if let (State::Running { lease }, TaskEvent::Claim { .. } | TaskEvent::RetriesExhausted) =
                (&before.state, event) {
                prop_assert!(now >= lease.until);
            }
        }
    }

    #[test]
    fn a_task_never_expires_sooner_than_it_did_unless_it_is_to_be_forgotten(life in life()) {
        for (before, event, now, after) in changes(&life) {
            if matches!(event, TaskEvent::Forget) {
                prop_assert!(before.has_ended() && after.has_expired(now), "{before:?}");
                continue;
            }
            prop_assert!(after.expires_at >= before.expires_at, "{event:?}");
            // One that was to be forgotten may still be cleaned by a worker whose clock is behind.
            if let Some(ended_at) = after.ended_at
                && (!before.has_ended() || after.expires_at != before.expires_at)
            {
                prop_assert!(after.expires_at >= ended_at.plus_ms(after.terms.retention_ms), "{event:?} at {now}");
            }
        }
    }

    #[test]
    fn an_expired_task_no_longer_changes(life in life()) {
        for change in &life {
            let (before, is_refused) = (&change.before, change.after == Err(Refusal::Expired));
            // Nobody brings back what was forgotten, not even with a clock that is behind.
            let may_be_refused = before.has_expired(change.now)
                || (before.has_ended() && matches!(change.event, TaskEvent::ExtendRetention { .. }));
            prop_assert!(is_refused || !before.has_expired(change.now), "{change:?}");
            prop_assert!(may_be_refused || !is_refused, "{change:?}");
        }
    }

    #[test]
    fn a_task_that_waits_for_input_asks_something(life in life()) {
        for (_, event, _, after) in changes(&life) {
            if let State::InputRequired { asks, .. } = &after.state {
                prop_assert!(!asks.is_empty(), "{event:?}");
            }
        }
    }

    #[test]
    fn failures_stay_below_the_maximum(life in life()) {
        for (_, event, _, after) in changes(&life) {
            prop_assert!(after.failures < after.terms.consecutive_failures_max, "{event:?} made {after:?}");
        }
    }

    #[test]
    fn no_attempt_starts_past_the_deadline(life in life()) {
        for (before, event, now, _) in changes(&life) {
            if matches!(event, TaskEvent::Claim { .. }) {
                prop_assert!(now < before.deadline());
            }
        }
    }

    /// The next attempts may, by a clock that is behind that of the first one's worker.
    #[test]
    fn the_first_attempt_does_not_start_before_a_later_start(life in life()) {
        for (before, event, now, after) in changes(&life) {
            prop_assert_eq!(before.not_before, after.not_before);
            if matches!(event, TaskEvent::Claim { .. }) && before.attempt == 0 {
                prop_assert!(now >= before.due_at());
            }
            prop_assert!(after.awaited_start().is_none() || before.awaited_start() == after.awaited_start());
        }
    }

    #[test]
    fn terms_never_change_except_to_extend_the_retention(life in life()) {
        for (before, event, _, after) in changes(&life) {
            let agreed = |task: &Task| {
                let terms = Terms { retention_ms: 0, ..task.terms };
                (task.key(), task.tool.clone(), terms, task.created_at, task.request.clone())
            };
            prop_assert_eq!(agreed(before), agreed(after));
            prop_assert!(after.terms.retention_ms >= before.terms.retention_ms);
            prop_assert!(after.terms == before.terms || matches!(event, TaskEvent::ExtendRetention { .. }),
                "{event:?}");
        }
    }

    /// A client that looks at a task now and then never sees an end undone.
    #[test]
    fn the_status_never_leaves_an_end(life in life()) {
        let mut seen: Option<Status> = None;
        for change in &life {
            let status = change.after.as_ref().unwrap_or(&change.before).status();
            if let Some(ended) = seen.filter(|status| status.is_terminal()) {
                prop_assert_eq!(status, ended);
            }
            seen = Some(status);
        }
    }

    /// Every state that a task can reach leads to an end without a worker: no client sees `working` forever.
    #[test]
    fn a_task_past_its_deadline_can_always_be_ended(life in life()) {
        for (_, _, _, after) in changes(&life) {
            if !after.has_ended() && !after.has_expired(after.deadline()) {
                let ended = after.apply(&TaskEvent::TimeOut, after.deadline());
                prop_assert!(ended.is_ok_and(|task| task.status() == Status::Failed));
            }
        }
    }

    /// A task whose worker is dead can either be claimed or failed: exactly one of the two.
    #[test]
    fn a_task_whose_lease_ran_out_continues_or_ends(life in life()) {
        for (_, _, _, after) in changes(&life) {
            if let State::Running { lease } = &after.state
                && lease.until < after.deadline()
            {
                let (token, lease_until) = (LeaseToken::from_random([0; 16]), after.deadline());
                let claim = TaskEvent::Claim { token, lease_until, admission: Admission::Free };
                let claimed = after.apply(&claim, lease.until).is_ok();
                let failed = after.apply(&TaskEvent::RetriesExhausted, lease.until).is_ok();
                prop_assert!(claimed != failed, "{after:?}");
            }
        }
    }

    #[test]
    fn a_write_that_was_applied_is_recognised_when_it_is_sent_again(life in life()) {
        for (_, event, now, after) in changes(&life) {
            let recognisable = match event {
                TaskEvent::Claim { .. }
                | TaskEvent::Suspend { .. }
                | TaskEvent::Retry { .. }
                | TaskEvent::Finish { .. }
                | TaskEvent::Wake { .. }
                | TaskEvent::EndCleanup { .. } => true,
                TaskEvent::BeginCleanup { .. } => after.cleanup != Cleanup::GivenUp,
                TaskEvent::Heartbeat { .. }
                | TaskEvent::SetVariables { .. }
                | TaskEvent::Answer { .. }
                | TaskEvent::Cancel
                | TaskEvent::Resend { .. }
                | TaskEvent::RetriesExhausted
                | TaskEvent::TimeOut
                | TaskEvent::ExtendRetention { .. }
                | TaskEvent::Forget => false,
            };
            prop_assert_eq!(after.already_applied(event), recognisable, "{:?} at {} made {:?}", event, now, after);
        }
    }

    #[test]
    fn a_task_that_succeeded_is_never_cleaned(life in life()) {
        for (before, event, _, _) in changes(&life) {
            if let TaskEvent::BeginCleanup { .. } | TaskEvent::EndCleanup { .. } = event {
                let succeeded = matches!(before.state, State::Completed { kind: ResultKind::Success, .. });
                prop_assert!(before.has_ended() && !succeeded, "{event:?} of {before:?}");
            }
        }
    }

    #[test]
    fn a_record_is_read_back_as_it_was_written(life in life()) {
        for (_, _, _, after) in changes(&life) {
            let text = serde_json::to_string(after).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Task>(&text).unwrap(), after);
        }
    }
}

#[test]
fn lives_reach_every_status() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..512 {
        let life = life().new_tree(&mut runner).unwrap().current();
        seen.extend(changes(&life).map(|(_, _, _, after)| after.status()));
    }
    assert_eq!(seen.len(), 5, "the properties were checked on {seen:?} only");
}
