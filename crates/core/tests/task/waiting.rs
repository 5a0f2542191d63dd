//! What answers, wakes and further messages change in a task.

use longhaul_core::{Advance, Ask, Refusal, State, Suspension, Task, TaskEvent, TaskRecord};

use super::effects::{LATER, NOW, apply, apply_at, claim, completed, heartbeat, retry, running, suspend};
use crate::given::{ask, record};

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
    let suspend = |suspension| TaskEvent::Suspend { attempt, suspension, progress: None, labels: None };
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
    let finish = TaskEvent::Finish { attempt, outcome: completed(), progress: None, labels: None };
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
    for event in [
        heartbeat(None, Advance::Recorded),
        TaskEvent::Finish { attempt: 2, outcome: completed(), progress: None, labels: None },
    ] {
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
