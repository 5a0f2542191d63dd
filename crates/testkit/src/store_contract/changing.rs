//! Promises about events: the fence, the lease, the end.

use longhaul_core::ports::{ApplyError, TaskStore};
use longhaul_core::{Lease, LeaseToken, Refusal, State, Status, Suspension, Task, TaskEvent, TaskKey, Timestamp};

use crate::SeededIds;
use crate::given::{self, LEASE_MS, NOW, on_record, owner, queued, running};

/// Every event that only the holder of `attempt` may write.
fn events_of(attempt: u32) -> Vec<TaskEvent> {
    vec![
        given::heartbeat(attempt, NOW),
        given::progress(attempt, NOW, 0.9),
        TaskEvent::SetVariables { attempt, variables: given::inline(r#"{"a":2}"#) },
        given::suspend(attempt, Suspension::Yield),
        given::suspend(attempt, Suspension::Timer(NOW)),
        given::asks(attempt, &["late"], None),
        given::retry(attempt, NOW),
        given::finish(attempt, r#"{"late":true}"#),
        given::fail(attempt),
    ]
}

/// Every event that any worker or client may write.
fn unfenced_events() -> Vec<TaskEvent> {
    vec![
        given::claim(9, NOW),
        given::answer(&["a"]),
        TaskEvent::Wake { at: NOW },
        TaskEvent::Cancel,
        TaskEvent::Resend { not_since: NOW.plus_ms(1) },
        TaskEvent::RetriesExhausted,
        TaskEvent::TimeOut,
    ]
}

pub(super) async fn refused(store: &dyn TaskStore, key: &TaskKey, event: &TaskEvent, now: Timestamp) -> Refusal {
    match store.apply(key, event, now).await {
        Err(ApplyError::Refused { why, .. }) => why,
        other => panic!("{event:?} was not refused: {other:?}"),
    }
}

/// Promise: a claim returns the whole record, and is recorded.
pub async fn a_claim_raises_the_attempt_and_takes_the_lease(store: &dyn TaskStore) {
    let task = queued(store, &SeededIds::new(1), owner("alice")).await;
    let claimed = store.apply(&task.key(), &given::claim(1, NOW), NOW).await.unwrap();
    let lease = Lease { until: NOW.plus_ms(LEASE_MS), token: LeaseToken::from_random([1; 16]) };
    assert_eq!((claimed.attempt, &claimed.state), (1, &State::Running { lease }));
    assert_eq!(claimed.request, task.request);
    assert_eq!(on_record(store, &task.key()).await, Some(claimed));
}

/// Promise: a lease keeps other workers out until its very end.
pub async fn a_task_that_is_held_cannot_be_claimed(store: &dyn TaskStore) {
    let task = running(store, &SeededIds::new(1), owner("alice")).await;
    let until = NOW.plus_ms(LEASE_MS);
    for now in [NOW, until.minus_ms(1)] {
        assert_eq!(refused(store, &task.key(), &given::claim(2, now), now).await, Refusal::Leased { until });
    }
    assert_eq!(on_record(store, &task.key()).await, Some(task));
}

/// Promise: a dead worker's task is taken over, and the failure is counted.
pub async fn a_lease_that_ran_out_lets_the_next_attempt_in(store: &dyn TaskStore) {
    let task = running(store, &SeededIds::new(1), owner("alice")).await;
    let later = NOW.plus_ms(LEASE_MS);
    let claimed = store.apply(&task.key(), &given::claim(2, later), later).await.unwrap();
    assert_eq!((claimed.attempt, claimed.failures), (2, 1));
}

/// Promise: a heartbeat keeps other workers out for longer.
pub async fn a_heartbeat_renews_the_lease(store: &dyn TaskStore) {
    let task = running(store, &SeededIds::new(1), owner("alice")).await;
    let later = NOW.plus_ms(LEASE_MS - 1);
    store.apply(&task.key(), &given::heartbeat(1, later), later).await.unwrap();
    let after_the_first_lease = NOW.plus_ms(LEASE_MS);
    let why = refused(store, &task.key(), &given::claim(2, after_the_first_lease), after_the_first_lease).await;
    assert_eq!(why, Refusal::Leased { until: later.plus_ms(LEASE_MS) });
}

/// Promise: only the highest attempt writes.
pub async fn a_stale_attempt_cannot_write_anything(store: &dyn TaskStore) {
    let task = running(store, &SeededIds::new(1), owner("alice")).await;
    let later = NOW.plus_ms(LEASE_MS);
    let second = store.apply(&task.key(), &given::claim(2, later), later).await.unwrap();
    for event in events_of(1) {
        assert_eq!(refused(store, &task.key(), &event, later).await, Refusal::Stale { current: 2 }, "{event:?}");
        assert_eq!(on_record(store, &task.key()).await.as_ref(), Some(&second), "{event:?}");
    }
}

/// Promise: no worker writes as an attempt that does not exist yet.
pub async fn an_attempt_that_does_not_exist_yet_cannot_write_anything(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let (queued, running) = (queued(store, &ids, owner("alice")).await, running(store, &ids, owner("alice")).await);
    for event in events_of(2) {
        assert_eq!(refused(store, &queued.key(), &event, NOW).await, Refusal::Stale { current: 0 }, "{event:?}");
        assert_eq!(refused(store, &running.key(), &event, NOW).await, Refusal::Stale { current: 1 }, "{event:?}");
    }
    for event in events_of(0) {
        assert_eq!(refused(store, &queued.key(), &event, NOW).await, Refusal::Stale { current: 0 }, "{event:?}");
    }
    assert_eq!(on_record(store, &queued.key()).await, Some(queued));
    assert_eq!(on_record(store, &running.key()).await, Some(running));
}

/// Promise: a task ends once, and nothing changes it afterwards.
pub async fn an_ended_task_takes_no_event(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    for end in [given::finish(1, r#"{"first":true}"#), given::fail(1), TaskEvent::Cancel] {
        let task = running(store, &ids, owner("alice")).await;
        let ended = store.apply(&task.key(), &end, NOW).await.unwrap();
        assert!(ended.has_ended());
        let later = NOW.plus_ms(LEASE_MS);
        for event in events_of(1).into_iter().chain(unfenced_events()) {
            assert_eq!(refused(store, &task.key(), &event, later).await, Refusal::Ended, "{end:?}, then {event:?}");
            assert_eq!(on_record(store, &task.key()).await.as_ref(), Some(&ended), "{end:?}, then {event:?}");
        }
    }
}

/// Promise: status and result are written together.
pub async fn a_finished_result_is_on_record_when_the_call_returns(store: &dyn TaskStore) {
    let task = running(store, &SeededIds::new(1), owner("alice")).await;
    let later = NOW.plus_ms(5);
    let ended = store.apply(&task.key(), &given::finish(1, r#"{"answer":42}"#), later).await.unwrap();
    assert!(matches!(&ended.state, State::Completed { result, .. } if *result == given::inline(r#"{"answer":42}"#)));
    assert_eq!(ended.ended_at, Some(later));
    assert_eq!(on_record(store, &task.key()).await, Some(ended));
}

/// Promise: progress that comes late changes nothing.
pub async fn progress_never_undoes_an_end(store: &dyn TaskStore) {
    let task = running(store, &SeededIds::new(1), owner("alice")).await;
    store.apply(&task.key(), &given::progress(1, NOW, 0.5), NOW).await.unwrap();
    let ended = store.apply(&task.key(), &given::finish(1, "{}"), NOW).await.unwrap();
    assert_eq!(refused(store, &task.key(), &given::progress(1, NOW, 0.9), NOW).await, Refusal::Ended);
    assert_eq!(on_record(store, &task.key()).await, Some(ended));
}

/// Promise: once cancelled, a task stays `cancelled`.
pub async fn a_cancelled_task_keeps_no_late_result(store: &dyn TaskStore) {
    let task = running(store, &SeededIds::new(1), owner("alice")).await;
    let cancelled = store.apply(&task.key(), &TaskEvent::Cancel, NOW).await.unwrap();
    assert_eq!(cancelled.status(), Status::Cancelled);
    assert_eq!(refused(store, &task.key(), &given::finish(1, "{}"), NOW).await, Refusal::Ended);
    assert_eq!(on_record(store, &task.key()).await, Some(cancelled));
}

/// Promise: a refused writer does not need to read the record.
pub async fn a_refusal_carries_the_current_record(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let cancelled = queued(store, &ids, owner("alice")).await;
    let cancelled = store.apply(&cancelled.key(), &TaskEvent::Cancel, NOW).await.unwrap();
    let running = running(store, &ids, owner("alice")).await;
    let running = store.apply(&running.key(), &given::progress(1, NOW, 0.5), NOW).await.unwrap();
    for (task, event) in [(cancelled, given::claim(2, NOW)), (running, given::finish(0, "{}"))] {
        match store.apply(&task.key(), &event, NOW).await {
            Err(ApplyError::Refused { current, .. }) => assert_eq!(*current, task),
            other => panic!("{event:?} was not refused: {other:?}"),
        }
    }
}

/// Promise: a refused event leaves no trace.
pub async fn a_refusal_changes_nothing(store: &dyn TaskStore) {
    let task = queued(store, &SeededIds::new(1), owner("alice")).await;
    for event in
        events_of(1).into_iter().chain([given::answer(&["a"]), TaskEvent::RetriesExhausted, TaskEvent::TimeOut])
    {
        refused(store, &task.key(), &event, NOW).await;
        assert_eq!(on_record(store, &task.key()).await.as_ref(), Some(&task), "{event:?}");
    }
}

/// Promise: a timer holds until its time.
pub async fn a_task_that_sleeps_is_not_claimed_early(store: &dyn TaskStore) {
    let task = running(store, &SeededIds::new(1), owner("alice")).await;
    let until = NOW.plus_ms(1_000);
    store.apply(&task.key(), &given::suspend(1, Suspension::Timer(until)), NOW).await.unwrap();
    let early = until.minus_ms(1);
    assert_eq!(refused(store, &task.key(), &given::claim(2, early), early).await, Refusal::NotDue { until });
    assert_eq!(store.apply(&task.key(), &given::claim(2, until), until).await.unwrap().attempt, 2);
}

async fn asking(store: &dyn TaskStore, keys: &[&str]) -> Task {
    let task = running(store, &SeededIds::new(1), owner("alice")).await;
    store.apply(&task.key(), &given::asks(1, keys, None), NOW).await.unwrap()
}

/// Promise: no worker runs while the client thinks.
pub async fn a_task_that_waits_for_answers_is_not_claimed(store: &dyn TaskStore) {
    let task = asking(store, &["a"]).await;
    assert_eq!(task.status(), Status::InputRequired);
    let later = NOW.plus_ms(LEASE_MS);
    assert_eq!(refused(store, &task.key(), &given::claim(2, later), later).await, Refusal::WaitsForInput);
}

/// Promise: a timer alongside the questions lets the task continue without the answers.
pub async fn a_task_that_waits_for_answers_is_claimed_when_its_timer_is_due(store: &dyn TaskStore) {
    let task = running(store, &SeededIds::new(1), owner("alice")).await;
    let until = NOW.plus_ms(1_000);
    store.apply(&task.key(), &given::asks(1, &["a"], Some(until)), NOW).await.unwrap();
    let early = until.minus_ms(1);
    assert_eq!(refused(store, &task.key(), &given::claim(2, early), early).await, Refusal::WaitsForInput);
    assert_eq!(store.apply(&task.key(), &given::claim(2, until), until).await.unwrap().attempt, 2);
}

/// Promise: an answer closes its own question, and the last one wakes the task.
pub async fn answers_close_their_questions_one_by_one(store: &dyn TaskStore) {
    let task = asking(store, &["a", "b"]).await;
    assert_eq!(refused(store, &task.key(), &given::answer(&["z"]), NOW).await, Refusal::NotAsked);
    let half = store.apply(&task.key(), &given::answer(&["a"]), NOW).await.unwrap();
    assert_eq!(half.state, State::InputRequired { asks: vec![given::ask("b")], until: None });
    assert_eq!(refused(store, &task.key(), &given::answer(&["a"]), NOW).await, Refusal::NotAsked);
    let whole = store.apply(&task.key(), &given::answer(&["b"]), NOW).await.unwrap();
    assert_eq!(whole.state, State::Queued);
    assert_eq!(on_record(store, &task.key()).await, Some(whole));
}

/// A task that was claimed while its question `a` was open, because its timer was due.
async fn working_beside_a_question(store: &dyn TaskStore) -> Task {
    let task = running(store, &SeededIds::new(1), owner("alice")).await;
    store.apply(&task.key(), &given::asks(1, &["a"], Some(NOW)), NOW).await.unwrap();
    store.apply(&task.key(), &given::claim(2, NOW), NOW).await.unwrap()
}

/// Promise: while an attempt works next to a question, the question can be answered, once, and nothing else.
pub async fn what_was_asked_can_be_answered_while_an_attempt_works(store: &dyn TaskStore) {
    let task = working_beside_a_question(store).await;
    assert_eq!((&task.asked, &task.answered), (&vec![given::ask("a")], &Vec::new()));
    store.apply(&task.key(), &given::heartbeat(2, NOW.plus_ms(1)), NOW.plus_ms(1)).await.unwrap();
    assert_eq!(refused(store, &task.key(), &given::answer(&["z"]), NOW).await, Refusal::NotAsked);
    let noted = store.apply(&task.key(), &given::answer(&["a"]), NOW).await.unwrap();
    assert_eq!(noted.answered, ["a"]);
    assert_eq!(on_record(store, &task.key()).await, Some(noted));
    assert_eq!(refused(store, &task.key(), &given::answer(&["a"]), NOW).await, Refusal::NotAsked);
}

/// Promise: a suspension does not wait for a question that was answered while its attempt worked.
pub async fn a_suspension_does_not_wait_for_what_was_answered(store: &dyn TaskStore) {
    let task = working_beside_a_question(store).await;
    store.apply(&task.key(), &given::answer(&["a"]), NOW).await.unwrap();
    let waits = store.apply(&task.key(), &given::asks(2, &["a", "b"], None), NOW).await.unwrap();
    assert_eq!(waits.state, State::InputRequired { asks: vec![given::ask("b")], until: None });
    assert_eq!(on_record(store, &task.key()).await, Some(waits));
}

/// Promise: a recorded signal starts the next attempt of the task that waits for it at once, and open questions stay
/// open.
pub async fn a_waiting_task_is_woken_once(store: &dyn TaskStore) {
    let (ids, hour) = (SeededIds::new(1), NOW.plus_ms(3_600_000));
    let timer = Suspension::Timer(hour);
    for (event, state) in [
        (given::suspend(1, timer), State::Sleeping { until: NOW.plus_ms(5) }),
        (
            given::asks(1, &["a", "b"], Some(hour)),
            State::InputRequired { asks: vec![given::ask("a"), given::ask("b")], until: Some(NOW.plus_ms(5)) },
        ),
    ] {
        let key = running(store, &ids, owner("alice")).await.key();
        store.apply(&key, &event, NOW).await.unwrap();
        let (wake, now) = (TaskEvent::Wake { at: NOW.plus_ms(5) }, NOW.plus_ms(3));
        let woken = store.apply(&key, &wake, now).await.unwrap();
        assert_eq!((&woken.state, woken.sent_at, woken.resends), (&state, now, 0));
        assert_eq!(on_record(store, &key).await, Some(woken));
        for late in [5, 6] {
            let again = TaskEvent::Wake { at: NOW.plus_ms(late) };
            assert_eq!(refused(store, &key, &again, now).await, Refusal::NothingToWake, "{state:?}");
        }
        let claimed = store.apply(&key, &given::claim(2, NOW.plus_ms(5)), NOW.plus_ms(5)).await.unwrap();
        assert_eq!(claimed.attempt, 2);
    }
}

/// Promise: a task that does not wait for anything from outside is not woken. Such a task has an attempt that runs or
/// is about to, a question alone, or the delay before a retry.
pub async fn nothing_else_is_woken(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let wake = TaskEvent::Wake { at: NOW };
    let before = queued(store, &ids, owner("alice")).await;
    assert_eq!(refused(store, &before.key(), &wake, NOW).await, Refusal::NothingToWake);
    for event in [None, Some(given::asks(1, &["a"], None)), Some(given::retry(1, NOW.plus_ms(60_000)))] {
        let mut task = running(store, &ids, owner("alice")).await;
        if let Some(event) = &event {
            task = store.apply(&task.key(), event, NOW).await.unwrap();
        }
        assert_eq!(refused(store, &task.key(), &wake, NOW).await, Refusal::NothingToWake, "{event:?}");
        assert_eq!(on_record(store, &task.key()).await, Some(task), "{event:?}");
    }
}

/// Promise: of all pollers that find a task without a message, one sends it.
pub async fn a_message_is_sent_again_once_per_bound(store: &dyn TaskStore) {
    let task = queued(store, &SeededIds::new(1), owner("alice")).await;
    let later = NOW.plus_ms(10_000);
    let resend = TaskEvent::Resend { not_since: NOW };
    assert_eq!(store.apply(&task.key(), &resend, later).await.unwrap().sent_at, later);
    assert_eq!(refused(store, &task.key(), &resend, later).await, Refusal::SentAlready { at: later });
}

/// Promise: how often a message was sent again is recorded until a worker has the task.
pub async fn resends_are_counted_until_the_task_is_claimed(store: &dyn TaskStore) {
    let key = queued(store, &SeededIds::new(1), owner("alice")).await.key();
    for resends in 1..4 {
        let now = NOW.plus_ms(u64::from(resends) * 1_000);
        let resent = store.apply(&key, &TaskEvent::Resend { not_since: now.minus_ms(1_000) }, now).await.unwrap();
        assert_eq!(resent.resends, resends);
        assert_eq!(on_record(store, &key).await, Some(resent));
    }
    let now = NOW.plus_ms(5_000);
    assert_eq!(store.apply(&key, &given::claim(1, now), now).await.unwrap().resends, 0);
    let left = given::suspend(1, Suspension::Timer(now));
    store.apply(&key, &left, now).await.unwrap();
    let later = now.plus_ms(1_000);
    assert_eq!(store.apply(&key, &TaskEvent::Resend { not_since: now }, later).await.unwrap().resends, 1);
    assert_eq!(store.apply(&key, &given::claim(2, later), later).await.unwrap().resends, 0);
    assert_eq!(on_record(store, &key).await.unwrap().resends, 0);
}

/// Promise: a task that always fails ends.
pub async fn failures_are_counted_across_calls(store: &dyn TaskStore) {
    let task = queued(store, &SeededIds::new(1), owner("alice")).await;
    for attempt in 1..task.terms.consecutive_failures_max {
        store.apply(&task.key(), &given::claim(1, NOW), NOW).await.unwrap();
        let failed = store.apply(&task.key(), &given::retry(attempt, NOW), NOW).await.unwrap();
        assert_eq!(failed.failures, attempt);
    }
    store.apply(&task.key(), &given::claim(1, NOW), NOW).await.unwrap();
    let last = task.terms.consecutive_failures_max;
    assert_eq!(refused(store, &task.key(), &given::retry(last, NOW), NOW).await, Refusal::RetriesExhausted);
    let later = NOW.plus_ms(LEASE_MS);
    let ended = store.apply(&task.key(), &TaskEvent::RetriesExhausted, later).await.unwrap();
    assert_eq!(ended.status(), Status::Failed);
}

/// Promise: an event never creates a task.
pub async fn an_event_for_a_missing_task_is_not_found(store: &dyn TaskStore) {
    let key = given::task(&SeededIds::new(1), owner("alice"), NOW).key();
    for event in events_of(0).into_iter().chain(events_of(1)).chain(unfenced_events()) {
        let outcome = store.apply(&key, &event, NOW).await;
        assert!(matches!(outcome, Err(ApplyError::NotFound)), "{event:?}: {outcome:?}");
        assert_eq!(on_record(store, &key).await, None);
    }
}

/// Promise: the record remembers the latest attempts, whichever way they ended, and when the one that runs began.
pub async fn the_latest_attempts_are_on_record(store: &dyn TaskStore) {
    let mut task = queued(store, &SeededIds::new(1), owner("alice")).await;
    let key = task.key();
    for attempt in 1..=40 {
        let began_at = NOW.plus_ms(u64::from(attempt) * LEASE_MS);
        let ended_at = began_at.plus_ms(7);
        let end = match attempt % 5 {
            0 => Some(given::suspend(attempt, Suspension::Yield)),
            1 => Some(given::suspend(attempt, Suspension::Timer(ended_at))),
            2 => Some(given::asks(attempt, &["a"], Some(ended_at))),
            3 => Some(given::retry(attempt, ended_at)),
            // It dies, which the next claim finds.
            _ => None,
        };
        let events = [Some((given::claim(1, began_at), began_at)), end.map(|end| (end, ended_at))];
        for (event, now) in events.into_iter().flatten() {
            let next = task.apply(&event, now).unwrap();
            assert_eq!(store.apply(&key, &event, now).await.unwrap(), next, "{event:?}");
            task = next;
        }
    }
    let attempts: Vec<u32> = task.attempts.past.iter().map(|attempt| attempt.number).collect();
    assert_eq!((attempts, task.attempts.since), ((25..=40).collect(), None));
    let now = NOW.plus_ms(41 * LEASE_MS);
    let running = store.apply(&key, &given::claim(1, now), now).await.unwrap();
    let ended = store.apply(&key, &TaskEvent::Cancel, now.plus_ms(1)).await.unwrap();
    assert_eq!(running.attempts.since, Some(now));
    assert_eq!(ended.attempts, running.attempts, "the attempt ended with its task");
}
