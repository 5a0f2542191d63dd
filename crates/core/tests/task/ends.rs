//! What an end leaves: retention, and cleanup.

use longhaul_core::{
    Cleanup, CleanupEnd, FailureKind, Lease, Outcome, Refusal, ResultKind, State, TaskEvent, TaskRecord, Terms,
    Timestamp,
};

use super::effects::{LATER, NOW, apply, apply_at, completed, failure, running};
use crate::given::{CREATED, ask, inline, record, token};

#[test]
fn an_end_is_retained_for_as_long_as_was_agreed() {
    let failed = failure(FailureKind::Tool, "no");
    let ends = [
        (TaskEvent::Finish { attempt: 2, outcome: completed(), progress: None, labels: None }, completed().state()),
        (
            TaskEvent::Finish { attempt: 2, outcome: Outcome::Failed(failed.clone()), progress: None, labels: None },
            State::Failed { failure: failed },
        ),
        (TaskEvent::Cancel, State::Cancelled),
    ];
    let held_until = |event: &TaskEvent| (*event == TaskEvent::Cancel).then_some(LATER);
    assert_eq!(completed().state(), State::Completed { result: inline("1"), kind: ResultKind::ToolError });
    let before = record(running());
    let late = TaskRecord { expires_at: NOW.plus_ms(1), ..before.clone() };
    for (event, state) in ends {
        let held_until = held_until(&event);
        let after = TaskRecord { state, ended_at: Some(NOW), updated_at: NOW, held_until, ..before.clone() };
        assert_eq!(apply(&before, &event), after, "the time to live is long enough");
        let expires_at = NOW.plus_ms(before.terms.retention_ms);
        assert_eq!(apply(&late, &event), TaskRecord { expires_at, ..after }, "the time to live is extended");
    }
}

#[test]
fn who_ends_a_task_that_no_worker_holds_leaves_no_lease() {
    let waits = State::InputRequired { asks: vec![ask("a")], until: None };
    for state in [State::Queued, State::Sleeping { until: LATER }, waits] {
        assert_eq!(apply(&record(state), &TaskEvent::Cancel).held_until, None);
    }
}

#[test]
fn retention_is_extended_and_never_shortened() {
    let before = record(State::Queued);
    let agreed = before.terms.retention_ms;
    assert_eq!(apply(&before, &TaskEvent::ExtendRetention { retention_ms: agreed - 1 }), before);
    let retention_ms = agreed + 86_400_000;
    let deadline = CREATED.plus_ms(before.terms.run_ms);
    let terms = Terms { retention_ms, ..before.terms };
    let after = TaskRecord { terms, expires_at: deadline.plus_ms(retention_ms), ..before.clone() };
    assert_eq!(
        apply(&before, &TaskEvent::ExtendRetention { retention_ms }),
        after,
        "an unfinished task may end at its deadline"
    );

    let ended = TaskRecord { ended_at: Some(NOW), ..record(State::Cancelled) };
    let after = TaskRecord { terms, expires_at: NOW.plus_ms(retention_ms), ..ended.clone() };
    assert_eq!(apply(&ended, &TaskEvent::ExtendRetention { retention_ms }), after);
}

#[test]
fn a_forgotten_task_expires_now() {
    let before = TaskRecord { ended_at: Some(CREATED), ..record(State::Cancelled) };
    let forgotten = apply(&before, &TaskEvent::Forget);
    assert_eq!(forgotten, TaskRecord { expires_at: NOW, ..before });
    let late = apply_at(&forgotten, &TaskEvent::ExtendRetention { retention_ms: u64::MAX }, NOW.minus_ms(1));
    assert_eq!(late, Err(Refusal::Expired), "an earlier write that arrives late does not bring it back");
}

fn to_be_cleaned() -> TaskRecord {
    TaskRecord { ended_at: Some(CREATED), cleanup: Cleanup::ARMED, ..record(State::Cancelled) }
}

const fn begins(number: u8, until: Timestamp) -> TaskEvent {
    TaskEvent::BeginCleanup { lease: Lease { until, token: token(number) } }
}

const fn cleaned(number: u8, end: CleanupEnd) -> TaskEvent {
    TaskEvent::EndCleanup { token: token(number), end }
}

#[test]
fn cleanup_is_begun_by_one_worker_at_a_time_and_ended_by_who_began() {
    let before = TaskRecord { held_until: Some(LATER), ..to_be_cleaned() };

    let lease = Lease { until: NOW.plus_ms(5), token: token(1) };

    let begun = apply(&before, &begins(1, lease.until));

    let cleanup = Cleanup::Armed { tries: 1, lease: Some(lease) };

    assert_eq!(begun, TaskRecord { cleanup, held_until: None, ..before });

    assert_eq!(apply_at(&begun, &begins(2, NOW), NOW), Err(Refusal::Leased { until: lease.until }));

    let stale = apply_at(&begun, &cleaned(2, CleanupEnd::Done), NOW);

    assert!(matches!(stale, Err(Refusal::Stale { .. })), "{stale:?}");

    let done = apply(&begun, &cleaned(1, CleanupEnd::Done));

    assert_eq!(done.cleanup, Cleanup::Done);

    assert_eq!(apply_at(&done, &begins(2, NOW), NOW), Err(Refusal::NothingToClean));

    assert_eq!(apply_at(&done, &cleaned(1, CleanupEnd::Done), NOW), Err(Refusal::NothingToClean));
}

#[test]
fn cleanup_that_fails_is_tried_again_and_given_up_after_five_tries() {
    let mut task = to_be_cleaned();
    for number in 1..=5 {
        task = apply(&task, &begins(number, NOW.plus_ms(5)));
        let later = Lease { until: NOW, token: token(number) };
        task = apply(&task, &cleaned(number, CleanupEnd::Failed { again_at: NOW }));
        assert_eq!(task.cleanup, Cleanup::Armed { tries: u32::from(number), lease: Some(later) });
    }
    assert_eq!(apply(&task, &begins(6, NOW.plus_ms(5))).cleanup, Cleanup::GivenUp);
}

#[test]
fn a_worker_without_the_tool_does_not_use_up_a_try() {
    let begun = apply(&to_be_cleaned(), &begins(1, NOW.plus_ms(5)));
    let left = apply(&begun, &cleaned(1, CleanupEnd::Postponed { again_at: NOW }));
    assert!(matches!(left.cleanup, Cleanup::Armed { tries: 0, .. }), "{:?}", left.cleanup);
}

#[test]
fn a_message_for_cleanup_is_sent_again_as_one_for_work_is() {
    let before = to_be_cleaned();
    let resent = apply(&before, &TaskEvent::Resend { not_since: NOW });
    assert_eq!((resent.sent_at, resent.resends), (NOW, before.resends + 1));
    let none = TaskRecord { cleanup: Cleanup::None, ..before };
    assert_eq!(apply_at(&none, &TaskEvent::Resend { not_since: NOW }, NOW), Err(Refusal::Ended));
}
