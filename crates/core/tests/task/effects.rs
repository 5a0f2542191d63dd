//! What each event changes on the record besides the state, field by field, and the exact moments at which it applies.

use longhaul_core::{
    Admission, Advance, AttemptOutcome, Attempts, Failure, FailureKind, Lease, Outcome, PastAttempt, Progress, Refusal,
    ResultKind, State, Status, Suspension, Task, TaskEvent, TaskRecord, Terms, Timestamp,
};

use crate::given::{CREATED, ask, inline, record, token};

pub(super) const NOW: Timestamp = Timestamp::from_ms(1_100_000);
pub(super) const LATER: Timestamp = Timestamp::from_ms(1_130_000);

pub(super) fn progress() -> Progress {
    Progress { done: 1.0, total: Some(2.0), message: Some("half".to_owned()) }
}

pub(super) fn running() -> State {
    State::Running { lease: Lease { until: LATER, token: token(1) } }
}

pub(super) fn apply_at(before: &TaskRecord, event: &TaskEvent, now: Timestamp) -> Result<TaskRecord, Refusal> {
    Task::restore(before.clone()).apply(event, now).map(Task::into_record)
}

pub(super) fn apply(before: &TaskRecord, event: &TaskEvent) -> TaskRecord {
    apply_at(before, event, NOW).expect("the event applies")
}

pub(super) fn claim() -> TaskEvent {
    TaskEvent::Claim { token: token(2), lease_until: LATER, admission: Admission::Free }
}

pub(super) fn claimed() -> State {
    State::Running { lease: Lease { until: LATER, token: token(2) } }
}

pub(super) fn heartbeat(progress: Option<Progress>, advance: Advance) -> TaskEvent {
    TaskEvent::Heartbeat { attempt: 2, lease_until: LATER.plus_ms(5), progress, labels: None, advance }
}

pub(super) fn suspend(suspension: Suspension, progress: Option<Progress>) -> TaskEvent {
    TaskEvent::Suspend { attempt: 2, suspension, progress, labels: None }
}

pub(super) fn retry(not_before: Timestamp) -> TaskEvent {
    TaskEvent::Retry { attempt: 2, not_before, reason: "no answer".to_owned() }
}

/// The attempts after the attempt of attempt 2 ended like this at `NOW`, of which it is not known when it began.
fn ended_attempt(end: AttemptOutcome) -> Attempts {
    Attempts { since: None, past: vec![PastAttempt { number: 2, from: NOW, to: NOW, end }] }
}

fn begun_attempt() -> Attempts {
    Attempts { since: Some(NOW), past: Vec::new() }
}

pub(super) fn completed() -> Outcome {
    Outcome::Completed { result: inline("1"), kind: ResultKind::ToolError }
}

pub(super) fn failure(kind: FailureKind, message: &str) -> Failure {
    Failure { kind, message: message.to_owned(), detail: None }
}

#[test]
fn only_a_task_that_waits_for_its_client_has_open_questions() {
    let waiting = State::InputRequired { asks: vec![ask("a"), ask("b")], until: None };
    let keys: Vec<_> = waiting.asks().iter().map(|ask| ask.key.as_str()).collect();
    assert_eq!(keys, ["a", "b"]);
    for other in [State::Queued, running(), State::Sleeping { until: LATER }, State::Cancelled] {
        assert!(other.asks().is_empty(), "{other:?}");
    }
}

#[test]
fn the_first_claim_notes_when_the_work_started() {
    let before = TaskRecord { attempt: 0, started_at: None, failures: 0, last_failure: None, ..record(State::Queued) };
    let after = TaskRecord {
        state: claimed(),
        attempt: 1,
        started_at: Some(NOW),
        updated_at: NOW,
        attempts: begun_attempt(),
        ..before.clone()
    };
    assert_eq!(apply(&before, &claim()), after);
}

#[test]
fn a_claim_of_a_task_that_was_released_leaves_the_start_and_the_failures() {
    let before = record(State::Sleeping { until: NOW });
    let after =
        TaskRecord { state: claimed(), attempt: 3, updated_at: NOW, attempts: begun_attempt(), ..before.clone() };
    assert_eq!(apply(&before, &claim()), after);
    assert!(!Task::restore(after).follows_a_dead_attempt(), "the attempt before failed, and did not die");
}

#[test]
fn a_claim_after_a_dead_attempt_counts_a_failure() {
    let before = record(State::Running { lease: Lease { until: NOW, token: token(1) } });
    let after = TaskRecord {
        state: claimed(),
        attempt: 3,
        failures: 2,
        last_failure: Some("a worker died or lost its lease".to_owned()),
        updated_at: NOW,
        attempts: Attempts { since: Some(NOW), ..ended_attempt(AttemptOutcome::Died) },
        ..before.clone()
    };
    assert_eq!(apply(&before, &claim()), after);
    assert!(Task::restore(after).follows_a_dead_attempt());
    assert!(!Task::restore(TaskRecord { failures: 0, last_failure: None, ..before }).follows_a_dead_attempt());
}

#[test]
fn a_heartbeat_extends_the_lease_and_nothing_else() {
    let before = record(running());
    let lease = Lease { until: LATER.plus_ms(5), token: token(1) };
    let after = TaskRecord { state: State::Running { lease }, ..before.clone() };
    assert_eq!(apply(&before, &heartbeat(None, Advance::NotYet)), after);
    let with_progress = TaskRecord { progress: Some(progress()), updated_at: NOW, ..after.clone() };
    assert_eq!(apply(&before, &heartbeat(Some(progress()), Advance::NotYet)), with_progress);
    let kept = apply(&with_progress, &heartbeat(None, Advance::NotYet));
    assert_eq!(kept.progress, Some(progress()), "a heartbeat without new progress leaves the progress");
    let advanced = TaskRecord { failures: 0, last_failure: None, ..after };
    assert_eq!(apply(&before, &heartbeat(None, Advance::Recorded)), advanced);
}

#[test]
fn variables_are_replaced() {
    let before = TaskRecord { variables: Some(inline("{}")), ..record(running()) };
    let after = TaskRecord { variables: Some(inline("{\"n\":1}")), updated_at: NOW, ..before.clone() };
    let event = TaskEvent::SetVariables { attempt: 2, variables: inline("{\"n\":1}") };
    assert_eq!(apply(&before, &event), after);
}

#[test]
fn a_suspension_resets_the_failures_and_counts_as_a_sending() {
    let before = record(running());
    let asked = Suspension::Input { asks: vec![ask("a")], until: Some(LATER) };
    let states = [
        (asked, State::InputRequired { asks: vec![ask("a")], until: Some(LATER) }),
        (Suspension::Timer(LATER), State::Sleeping { until: LATER }),
        (Suspension::Yield, State::Queued),
    ];
    for (suspension, state) in states {
        assert_eq!(suspension.state(), Ok(state.clone()));
        let attempts = ended_attempt(suspension.attempt_outcome());
        let after = TaskRecord {
            state,
            failures: 0,
            last_failure: None,
            sent_at: NOW,
            updated_at: NOW,
            attempts,
            ..before.clone()
        };
        assert_eq!(apply(&before, &suspend(suspension.clone(), None)), after);
        let with_progress = TaskRecord { progress: Some(progress()), ..after };
        assert_eq!(apply(&before, &suspend(suspension, Some(progress()))), with_progress);
    }
}

#[test]
fn a_retry_counts_a_failure_and_keeps_its_reason() {
    let before = record(running());
    let after = TaskRecord {
        state: State::Sleeping { until: LATER },
        failures: 2,
        last_failure: Some("no answer".to_owned()),
        sent_at: NOW,
        updated_at: NOW,
        attempts: ended_attempt(AttemptOutcome::failed("no answer")),
        ..before.clone()
    };
    assert_eq!(apply(&before, &retry(LATER)), after);
}

#[test]
fn a_record_remembers_the_last_16_attempts_and_the_beginning_of_the_one_that_runs() {
    let at = |ms| NOW.plus_ms(ms);
    let mut task = TaskRecord { attempt: 0, ..record(State::Queued) };
    for number in 1..=20_u32 {
        let now = at(u64::from(number) * 10);
        let claim = TaskEvent::Claim { token: token(2), lease_until: now.plus_ms(5), admission: Admission::Free };
        task = apply_at(&task, &claim, now).unwrap();
        let event = match number % 4 {
            0 => TaskEvent::Suspend { attempt: number, suspension: Suspension::Yield, progress: None, labels: None },
            1 => {
                TaskEvent::Suspend { attempt: number, suspension: Suspension::Timer(now), progress: None, labels: None }
            }
            2 => TaskEvent::Retry { attempt: number, not_before: now, reason: "é".repeat(100) },
            // It dies, which the next claim finds.
            _ => continue,
        };
        task = apply_at(&task, &event, now.plus_ms(2)).unwrap();
    }
    let told = |number: u32| {
        let from = at(u64::from(number) * 10);
        let (end, ms) = match number % 4 {
            0 => (AttemptOutcome::Yield, 2),
            1 => (AttemptOutcome::Timer, 2),
            2 => (AttemptOutcome::Failed(format!("{}…", "é".repeat(18))), 2),
            _ => (AttemptOutcome::Died, 5),
        };
        PastAttempt { number, from, to: from.plus_ms(ms), end }
    };
    assert_eq!(task.attempts, Attempts { since: None, past: (5..=20).map(told).collect() });
    let running = apply_at(&task, &claim(), at(500)).unwrap();
    assert_eq!(running.attempts, Attempts { since: Some(at(500)), ..task.attempts });
    let finish = TaskEvent::Finish { attempt: 21, outcome: completed(), progress: None, labels: None };
    assert_eq!(
        apply_at(&running, &finish, at(501)).unwrap().attempts,
        running.attempts,
        "the task's end is the attempt's"
    );
}

#[test]
fn exhausted_retries_and_a_missed_deadline_say_what_happened() {
    let dead = State::Running { lease: Lease { until: NOW, token: token(1) } };
    let before = TaskRecord { failures: 2, ..record(dead) };
    let message = "no retries are left after 3 failures in a row: it panicked";
    let state = State::Failed { failure: failure(FailureKind::RetriesExhausted, message) };
    let after = TaskRecord { state, ended_at: Some(NOW), updated_at: NOW, held_until: Some(NOW), ..before.clone() };
    assert_eq!(apply(&before, &TaskEvent::RetriesExhausted), after);

    let before = TaskRecord { terms: Terms { run_ms: 100_000, ..record(running()).terms }, ..record(running()) };
    let message = "did not end within the 100000 ms that the tool may take, waits included";
    let state = State::Failed { failure: failure(FailureKind::TimedOut, message) };
    let after = TaskRecord { state, ended_at: Some(NOW), updated_at: NOW, held_until: Some(LATER), ..before.clone() };
    assert_eq!(apply(&before, &TaskEvent::TimeOut), after);
}

/// One millisecond earlier the event is refused; at the moment itself it applies.
#[test]
fn a_moment_has_come_when_it_is_reached() {
    let one_earlier = NOW.minus_ms(1);
    let due = [
        State::Running { lease: Lease { until: NOW, token: token(1) } },
        State::Sleeping { until: NOW },
        State::InputRequired { asks: vec![ask("a")], until: Some(NOW) },
    ];
    for state in due {
        let before = record(state);
        for event in [claim(), TaskEvent::Resend { not_since: NOW }] {
            assert!(apply_at(&before, &event, NOW).is_ok(), "{event:?} of {before:?}");
            assert!(apply_at(&before, &event, one_earlier).is_err(), "{event:?} of {before:?}");
        }
    }
    let before = record(State::Queued);
    let deadline = CREATED.plus_ms(before.terms.run_ms);
    assert_eq!(apply_at(&before, &claim(), deadline), Err(Refusal::PastDeadline));
    assert!(apply_at(&before, &claim(), deadline.minus_ms(1)).is_ok());
    assert_eq!(apply_at(&before, &TaskEvent::TimeOut, deadline.minus_ms(1)), Err(Refusal::BeforeDeadline));
    assert!(apply_at(&before, &TaskEvent::TimeOut, deadline).is_ok());
    assert_eq!(apply_at(&before, &TaskEvent::Cancel, before.expires_at), Err(Refusal::Expired));
    assert!(apply_at(&before, &TaskEvent::Cancel, before.expires_at.minus_ms(1)).is_ok());
    let last = TaskRecord { failures: 2, ..record(State::Running { lease: Lease { until: NOW, token: token(1) } }) };
    assert_eq!(apply_at(&last, &TaskEvent::RetriesExhausted, one_earlier), Err(Refusal::Leased { until: NOW }));
    assert!(apply_at(&last, &TaskEvent::RetriesExhausted, NOW).is_ok());
}

#[test]
fn only_the_writers_own_write_is_recognised_when_it_is_sent_again() {
    let shows = |record: &TaskRecord, event: &TaskEvent| Task::restore(record.clone()).already_applied(event);
    let next = |record: &TaskRecord| TaskRecord { attempt: record.attempt + 1, ..record.clone() };

    let claimed = apply(&record(State::Queued), &claim());
    assert!(shows(&claimed, &claim()));
    assert!(!shows(&claimed, &TaskEvent::Claim { token: token(3), lease_until: LATER, admission: Admission::Free }));

    let slept = apply(&record(running()), &suspend(Suspension::Timer(LATER), None));
    assert!(shows(&slept, &suspend(Suspension::Timer(LATER), None)));
    assert!(!shows(&slept, &suspend(Suspension::Timer(NOW), None)));
    assert!(!shows(&slept, &suspend(Suspension::Input { asks: Vec::new(), until: None }, None)));
    assert!(!shows(&next(&slept), &suspend(Suspension::Timer(LATER), None)));

    let retried = apply(&record(running()), &retry(LATER));
    assert!(shows(&retried, &retry(LATER)));
    assert!(!shows(&retried, &retry(NOW)));
    assert!(!shows(&next(&retried), &retry(LATER)));

    let finish = TaskEvent::Finish { attempt: 2, outcome: completed(), progress: None, labels: None };
    let ended = apply(&record(running()), &finish);
    assert!(shows(&ended, &finish));
    assert!(!shows(&next(&ended), &finish));
    let other = Outcome::Failed(failure(FailureKind::Tool, "no"));
    assert!(!shows(&ended, &TaskEvent::Finish { attempt: 2, outcome: other, progress: None, labels: None }));
    let progress = Progress { done: 1.0, total: None, message: None };
    let reports =
        TaskEvent::Finish { attempt: 2, outcome: completed(), progress: Some(progress.clone()), labels: None };
    let ended = apply(&record(running()), &reports);
    assert_eq!(ended.progress, Some(progress));
    assert!(shows(&ended, &reports));
}

#[test]
fn only_ended_and_expired_tasks_leave_nothing_to_do() {
    let (until, at) = (NOW, NOW);
    for refusal in [Refusal::Ended, Refusal::Expired] {
        assert!(refusal.is_permanent(), "{refusal:?}");
    }
    for refusal in [
        Refusal::Stale { current: 1 },
        Refusal::Leased { until },
        Refusal::NotDue { until },
        Refusal::WaitsForInput,
        Refusal::NotAsked,
        Refusal::RetriesExhausted,
        Refusal::RetriesLeft,
        Refusal::PastDeadline,
        Refusal::NotEnded,
        Refusal::BeforeDeadline,
        Refusal::SentAlready { at },
        Refusal::NothingToWake,
        Refusal::NothingAsked,
    ] {
        assert!(!refusal.is_permanent(), "{refusal:?}");
    }
}

#[test]
fn a_task_has_the_status_that_clients_see() {
    let task = Task::restore(record(State::Queued));
    assert_eq!(task.ttl_ms(), 3_600_000);
    assert_eq!(task.poll_interval_ms(CREATED.plus_ms(9_999)), 1_000);
    assert_eq!(task.poll_interval_ms(CREATED.plus_ms(10_000)), 3_000);
    assert_eq!(task.key().to_owned(), longhaul_core::TaskKey::new(task.owner, task.id));
    assert_eq!(task.record(), &record(State::Queued));
    let statuses = [Status::Working, Status::InputRequired, Status::Completed, Status::Failed, Status::Cancelled];
    let words = statuses.map(Status::as_str);
    assert_eq!(words, ["working", "input_required", "completed", "failed", "cancelled"]);
    assert_eq!(statuses.map(Status::is_terminal), [false, false, true, true, true]);
}

/// A task that is to start at `LATER`, and that no worker has had.
pub(super) fn later() -> TaskRecord {
    let terms = record(State::Queued).terms;
    TaskRecord {
        attempt: 0,
        failures: 0,
        last_failure: None,
        started_at: None,
        not_before: Some(LATER),
        expires_at: LATER.plus_ms(terms.ttl_ms),
        ..record(State::Sleeping { until: LATER })
    }
}

#[test]
fn a_later_start_is_not_brought_forward_and_its_deadline_counts_from_it() {
    let claim = TaskEvent::Claim { token: token(1), lease_until: LATER.plus_ms(1_000), admission: Admission::Free };
    let early = LATER.minus_ms(1);
    assert_eq!(apply_at(&later(), &claim, early), Err(Refusal::NotDue { until: LATER }));
    assert_eq!(apply_at(&later(), &TaskEvent::Wake { at: early }, early), Err(Refusal::NothingToWake));
    assert_eq!(apply_at(&later(), &TaskEvent::Resend { not_since: NOW }, early), Err(Refusal::NotDue { until: LATER }));
    let begun = apply_at(&later(), &claim, LATER).unwrap();
    assert_eq!((begun.attempt, begun.started_at, begun.not_before), (1, Some(LATER), Some(LATER)));
    let deadline = LATER.plus_ms(begun.terms.run_ms);
    assert_eq!(Task::restore(begun).deadline(), deadline);
    assert_eq!(apply_at(&later(), &TaskEvent::TimeOut, deadline.minus_ms(1)), Err(Refusal::BeforeDeadline));
    assert_eq!(apply_at(&later(), &TaskEvent::Cancel, early).unwrap().state, State::Cancelled);
}

#[test]
fn a_task_that_starts_later_is_polled_when_it_starts_or_each_minute() {
    let task = Task::restore(later());
    assert_eq!(task.awaited_start(), Some(LATER));
    let interval_before = |ms| task.poll_interval_ms(LATER.minus_ms(ms));
    assert_eq!([100_000, 60_000, 5_000, 5, 0].map(interval_before), [60_000, 60_000, 5_000, 100, 100]);
    assert_eq!(task.ttl_ms(), LATER.since_ms(CREATED) + task.terms.ttl_ms);
    let begun = Task::restore(TaskRecord { not_before: Some(LATER), ..record(running()) });
    assert_eq!((begun.awaited_start(), begun.poll_interval_ms(LATER.plus_ms(20_000))), (None, 3_000));
}

#[test]
fn the_last_attempt_is_the_one_that_no_failure_may_follow() {
    let with_failures = |failures| Task::restore(TaskRecord { failures, ..record(State::Queued) });
    assert_eq!(with_failures(0).terms.consecutive_failures_max, 3);
    assert_eq!([0, 1, 2, 3].map(|failures| with_failures(failures).is_on_last_retry()), [false, false, true, true]);
}
