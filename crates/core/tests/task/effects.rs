//! What each event changes on the record besides the state, field by field, and the exact moments at which it applies.

use longhaul_core::{
    Advance, Ask, AttemptOutcome, Attempts, Cleanup, CleanupEnd, Failure, FailureKind, Lease, Outcome, PastAttempt,
    Progress, Refusal, ResultKind, State, Status, Suspension, Task, TaskEvent, TaskRecord, Terms, Timestamp,
};

use crate::given::{CREATED, ask, inline, record, token};

const NOW: Timestamp = Timestamp::from_ms(1_100_000);
const LATER: Timestamp = Timestamp::from_ms(1_130_000);

fn progress() -> Progress {
    Progress { done: 1.0, total: Some(2.0), message: Some("half".to_owned()) }
}

fn running() -> State {
    State::Running { lease: Lease { until: LATER, token: token(1) } }
}

fn apply_at(before: &TaskRecord, event: &TaskEvent, now: Timestamp) -> Result<TaskRecord, Refusal> {
    Task::restore(before.clone()).apply(event, now).map(Task::into_record)
}

fn apply(before: &TaskRecord, event: &TaskEvent) -> TaskRecord {
    apply_at(before, event, NOW).expect("the event applies")
}

fn claim() -> TaskEvent {
    TaskEvent::Claim { token: token(2), lease_until: LATER }
}

fn claimed() -> State {
    State::Running { lease: Lease { until: LATER, token: token(2) } }
}

fn heartbeat(progress: Option<Progress>, advance: Advance) -> TaskEvent {
    TaskEvent::Heartbeat { attempt: 2, lease_until: LATER.plus_ms(5), progress, advance }
}

fn suspend(suspension: Suspension, progress: Option<Progress>) -> TaskEvent {
    TaskEvent::Suspend { attempt: 2, suspension, progress }
}

fn retry(not_before: Timestamp) -> TaskEvent {
    TaskEvent::Retry { attempt: 2, not_before, reason: "no answer".to_owned() }
}

/// The attempts after the attempt of attempt 2 ended like this at `NOW`, of which it is not known when it began.
fn ended_attempt(end: AttemptOutcome) -> Attempts {
    Attempts { since: None, past: vec![PastAttempt { number: 2, from: NOW, to: NOW, end }] }
}

fn begun_attempt() -> Attempts {
    Attempts { since: Some(NOW), past: Vec::new() }
}

fn completed() -> Outcome {
    Outcome::Completed { result: inline("1"), kind: ResultKind::ToolError }
}

fn failure(kind: FailureKind, message: &str) -> Failure {
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
        let claim = TaskEvent::Claim { token: token(2), lease_until: now.plus_ms(5) };
        task = apply_at(&task, &claim, now).unwrap();
        let event = match number % 4 {
            0 => TaskEvent::Suspend { attempt: number, suspension: Suspension::Yield, progress: None },
            1 => TaskEvent::Suspend { attempt: number, suspension: Suspension::Timer(now), progress: None },
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
    let finish = TaskEvent::Finish { attempt: 21, outcome: completed(), progress: None };
    assert_eq!(
        apply_at(&running, &finish, at(501)).unwrap().attempts,
        running.attempts,
        "the task's end is the attempt's"
    );
}

#[test]
fn an_end_is_retained_for_as_long_as_was_agreed() {
    let failed = failure(FailureKind::Tool, "no");
    let ends = [
        (TaskEvent::Finish { attempt: 2, outcome: completed(), progress: None }, completed().state()),
        (
            TaskEvent::Finish { attempt: 2, outcome: Outcome::Failed(failed.clone()), progress: None },
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
fn answers_close_questions_and_the_last_one_queues_the_task() {
    let before = record(State::InputRequired { asks: vec![ask("a"), ask("b")], until: Some(LATER) });
    let answer = |keys: &[&str]| TaskEvent::Answer { keys: keys.iter().map(|key| (*key).to_owned()).collect() };
    let left = State::InputRequired { asks: vec![ask("b")], until: Some(LATER) };
    let after = TaskRecord { state: left, sent_at: NOW, updated_at: NOW, ..before.clone() };
    assert_eq!(apply(&before, &answer(&["a", "z"])), after);
    let queued = TaskRecord { state: State::Queued, ..after.clone() };
    assert_eq!(apply(&after, &answer(&["b"])), queued);
    assert_eq!(apply_at(&after, &answer(&["a"]), NOW), Err(Refusal::NotAsked));
}

#[test]
fn what_was_asked_may_be_answered_while_the_task_works() {
    let (a, b) = (ask("a"), ask("b"));
    let asks = || vec![a.clone(), b.clone()];
    let answer = |key: &str| TaskEvent::Answer { keys: vec![key.to_owned()] };
    let asking = TaskRecord { failures: 0, ..record(State::InputRequired { asks: asks(), until: Some(NOW) }) };
    let claimed = apply(&asking, &claim());
    assert_eq!((&claimed.asked, claimed.answered.is_empty()), (&asks(), true));
    let attempt = claimed.attempt;
    let suspend = |suspension| TaskEvent::Suspend { attempt, suspension, progress: None };
    let input = |asks: Vec<Ask>| Suspension::Input { asks, until: Some(LATER) };

    let half = apply(&claimed, &answer("a"));
    assert_eq!(half, TaskRecord { answered: vec!["a".to_owned()], ..claimed.clone() });
    for key in ["a", "z"] {
        assert_eq!(apply_at(&half, &answer(key), NOW), Err(Refusal::NotAsked), "{key}");
    }
    let open = |record: &TaskRecord| Task::restore(record.clone()).answerable().cloned().collect::<Vec<_>>();
    assert_eq!((open(&asking), open(&claimed), open(&half)), (asks(), asks(), vec![b.clone()]));

    let left = apply(&half, &suspend(input(asks())));
    assert_eq!(left.state, State::InputRequired { asks: vec![b.clone()], until: Some(LATER) });
    assert!(left.asked.is_empty() && left.answered.is_empty());
    let none = apply(&apply(&half, &answer("b")), &suspend(input(asks())));
    assert_eq!((&none.state, none.asked.is_empty()), (&State::Queued, true));
    for suspended in [&left, &none] {
        assert!(Task::restore(suspended.clone()).already_applied(&suspend(input(asks()))));
        assert!(!Task::restore(suspended.clone()).already_applied(&suspend(input(Vec::new()))));
    }

    let not_before = TaskEvent::Retry { attempt, not_before: LATER, reason: "no".to_owned() };
    for event in [suspend(Suspension::Yield), suspend(Suspension::Timer(LATER)), not_before] {
        let waits = apply(&half, &event);
        assert_eq!((&waits.asked, &waits.answered), (&half.asked, &half.answered), "{event:?}");
        let both = apply(&waits, &answer("b"));
        assert_eq!((&both.state, both.answered.len()), (&waits.state, 2), "{event:?}");
    }
    let finish = TaskEvent::Finish { attempt, outcome: completed(), progress: None };
    for event in [finish, TaskEvent::Cancel] {
        let ended = apply(&half, &event);
        assert!(ended.asked.is_empty() && ended.answered.is_empty(), "{event:?}");
    }
}

#[test]
fn a_record_that_says_nothing_of_what_was_asked_has_asked_nothing() {
    let task = Task::restore(record(running()));
    let stored = serde_json::to_value(&task).unwrap();
    assert_eq!((stored.get("asked"), stored.get("answered")), (None, None));
    assert_eq!(serde_json::from_value::<Task>(stored).unwrap(), task);
}

#[test]
fn a_wake_moves_what_the_task_waits_for_and_nothing_else() {
    let wake = TaskEvent::Wake { at: NOW.plus_ms(5) };
    let asks = vec![ask("a")];
    for (waiting, woken) in [
        (State::Sleeping { until: LATER }, State::Sleeping { until: NOW.plus_ms(5) }),
        (
            State::InputRequired { asks: asks.clone(), until: Some(LATER) },
            State::InputRequired { asks, until: Some(NOW.plus_ms(5)) },
        ),
    ] {
        let before = TaskRecord { resends: 3, failures: 0, ..record(waiting) };
        let after = TaskRecord { state: woken, sent_at: NOW, updated_at: NOW, resends: 0, ..before.clone() };
        assert_eq!(apply(&before, &wake), after);
        assert_eq!(apply_at(&after, &wake, NOW), Err(Refusal::NothingToWake));
    }
}

#[test]
fn a_wake_does_not_cut_the_delay_before_a_retry_short() {
    let before = TaskRecord { failures: 1, ..record(State::Sleeping { until: LATER }) };
    assert_eq!(apply_at(&before, &TaskEvent::Wake { at: NOW }, NOW), Err(Refusal::NothingToWake));
}

#[test]
fn a_resend_is_noted_and_nothing_else_changes() {
    let before = record(State::Queued);
    let after = TaskRecord { sent_at: NOW, resends: 1, ..before.clone() };
    assert_eq!(apply(&before, &TaskEvent::Resend { not_since: before.sent_at }), after);
    let again = TaskRecord { resends: 2, ..after.clone() };
    assert_eq!(apply(&after, &TaskEvent::Resend { not_since: after.sent_at }), again);
    let most = TaskRecord { resends: u32::MAX, ..after };
    assert_eq!(apply(&most, &TaskEvent::Resend { not_since: most.sent_at }), most);
    let too_early = TaskEvent::Resend { not_since: before.sent_at.minus_ms(1) };
    assert_eq!(apply_at(&before, &too_early, NOW), Err(Refusal::SentAlready { at: before.sent_at }));
}

#[test]
fn resends_are_counted_until_the_task_is_claimed_or_a_new_message_is_due() {
    let claimed_again = apply(&TaskRecord { resends: 3, ..record(State::Queued) }, &claim());
    assert_eq!(claimed_again.resends, 0);
    let held = TaskRecord { resends: 3, ..record(running()) };
    for event in [suspend(Suspension::Yield, None), retry(LATER)] {
        assert_eq!(apply(&held, &event).resends, 0, "{event:?}");
    }
    for event in
        [heartbeat(None, Advance::Recorded), TaskEvent::Finish { attempt: 2, outcome: completed(), progress: None }]
    {
        assert_eq!(apply(&held, &event).resends, 3, "{event:?}");
    }
    let asking = record(State::InputRequired { asks: vec![ask("a")], until: Some(NOW) });
    let answered = apply(&TaskRecord { resends: 3, ..asking }, &TaskEvent::Answer { keys: vec!["a".to_owned()] });
    assert_eq!(answered.resends, 0);
}

#[test]
fn a_record_without_a_count_of_resends_has_none() {
    let task = Task::restore(record(State::Queued));
    let stored = serde_json::to_value(&task).unwrap();
    assert_eq!(stored.get("resends"), None);
    assert_eq!(serde_json::from_value::<Task>(stored).unwrap(), task);
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
    assert!(!shows(&claimed, &TaskEvent::Claim { token: token(3), lease_until: LATER }));

    let slept = apply(&record(running()), &suspend(Suspension::Timer(LATER), None));
    assert!(shows(&slept, &suspend(Suspension::Timer(LATER), None)));
    assert!(!shows(&slept, &suspend(Suspension::Timer(NOW), None)));
    assert!(!shows(&slept, &suspend(Suspension::Input { asks: Vec::new(), until: None }, None)));
    assert!(!shows(&next(&slept), &suspend(Suspension::Timer(LATER), None)));

    let retried = apply(&record(running()), &retry(LATER));
    assert!(shows(&retried, &retry(LATER)));
    assert!(!shows(&retried, &retry(NOW)));
    assert!(!shows(&next(&retried), &retry(LATER)));

    let finish = TaskEvent::Finish { attempt: 2, outcome: completed(), progress: None };
    let ended = apply(&record(running()), &finish);
    assert!(shows(&ended, &finish));
    assert!(!shows(&next(&ended), &finish));
    let other = Outcome::Failed(failure(FailureKind::Tool, "no"));
    assert!(!shows(&ended, &TaskEvent::Finish { attempt: 2, outcome: other, progress: None }));
    let progress = Progress { done: 1.0, total: None, message: None };
    let reports = TaskEvent::Finish { attempt: 2, outcome: completed(), progress: Some(progress.clone()) };
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
fn later() -> TaskRecord {
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
    let claim = TaskEvent::Claim { token: token(1), lease_until: LATER.plus_ms(1_000) };
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
