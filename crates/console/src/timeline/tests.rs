use serde_json::json;

use super::*;

/// A time so many seconds after the creation of the task.
pub(crate) fn at(seconds: i64) -> String {
    crate::clock::written(1_763_870_400_000 + seconds * 1_000).replace(' ', "T").replace("TUTC", "Z")
}

pub(crate) fn now_ms(seconds: i64) -> i64 {
    1_763_870_400_000 + seconds * 1_000
}

/// A task with so many attempts of ten seconds, an hour apart, and so many steps in each: the third attempt from
/// the end died.
pub(crate) fn long(attempts: i64, steps: i64) -> Value {
    let attempt = |number: i64| {
        let from = number * 3_600;
        let end = if number == attempts - 3 {
            "died"
        } else if number == attempts - 1 {
            "task"
        } else {
            "timer"
        };
        json!({"attempt": number + 1, "from": at(from), "to": at(from + 10), "end": end})
    };
    let entry = |attempt: i64, step: i64| {
        json!({"kind": "step", "name": format!("step {attempt}.{step}"), "at":
            at(attempt * 3_600 + 1 + step * 9 / steps),
            "tookMs": 300, "attempt": attempt + 1, "bytes": 2, "value": step})
    };
    let journal: Vec<Value> =
        (0..attempts).flat_map(|attempt| (0..steps).map(move |step| entry(attempt, step))).collect();
    let kept: Vec<Value> = (attempts.saturating_sub(16).max(0)..attempts).map(attempt).collect();
    json!({"task": {"taskId": "t", "status": "completed", "createdAt": at(-2)}, "tool": "etl", "attempt": attempts,
        "endedAt": at((attempts - 1) * 3_600 + 10), "attempts": kept, "journal": journal, "failures": 0})
}

fn waits(line: &Timeline) -> Vec<(i64, Why)> {
    line.waits().iter().map(|wait| (wait.to_ms - wait.from_ms, wait.why)).collect()
}

/// A task of two attempts that waited in between for `outside`, which another party recorded in the middle of the wait.
fn waited_for(end: &str, own: Value, outside: Value) -> Timeline {
    let mut outside = outside;
    outside["at"] = at(20).into();
    outside["attempt"] = 0.into();
    let attempts = json!([
        {"attempt": 1, "from": at(1), "to": at(3), "end": end},
        {"attempt": 2, "from": at(21), "to": at(24), "end": "task"},
    ]);
    let shown = json!({"task": {"createdAt": at(0)}, "attempt": 2, "attempts": attempts, "endedAt": at(24),
        "journal": [own, outside]});
    Timeline::of(&shown, now_ms(0)).unwrap()
}

#[test]
fn what_others_record_is_no_attempt() {
    let step = json!({"kind": "step", "name": "ask", "at": at(2), "tookMs": 5, "attempt": 1, "value": 1});
    let call = json!({"kind": "step", "name": "child", "at": at(2), "tookMs": 5, "attempt": 1, "child": "c"});
    let token = json!({"kind": "token", "name": "hash", "at": at(2), "attempt": 1, "value": {}});
    for (what, end, own, outside, waited) in [
        ("an answer", "input", step, json!({"kind": "answer", "name": "ok?"}), Why::Input),
        ("a child", "timer", call, json!({"kind": "fact", "name": "c"}), Why::Timer),
        ("a callback", "timer", token, json!({"kind": "fact", "name": "paid"}), Why::Timer),
    ] {
        let line = waited_for(end, own, outside);
        let numbers: Vec<u64> = line.attempts.iter().map(|attempt| attempt.number).collect();
        assert_eq!((numbers, line.guessed_attempts, line.unknown_attempts), (vec![1, 2], 0, 0), "{what}");
        assert_eq!(waits(&line), [(1_000, Why::Queue), (18_000, waited)], "{what}");
        let said = summary(&line);
        let expected = format!("in 24 s: 5 s of work, 18 s {}, 1 s in the queue.", waited.words());
        assert!(said.starts_with("2 attempts") && said.ends_with(&expected), "{what}: {said}");
    }
}

#[test]
fn a_dead_attempt_has_worked_until_its_last_entry() {
    let step = |name: &str, seconds| {
        let at = at(seconds);
        json!({"kind": "step", "name": name, "at": at, "tookMs": 1_000, "attempt": 1, "value": 1})
    };
    let attempts = json!([
        {"attempt": 1, "from": at(0), "to": at(20), "end": "died"},
        {"attempt": 2, "from": at(21), "to": at(24), "end": "died"},
        {"attempt": 3, "from": at(25), "to": at(27), "end": "task"},
    ]);
    let shown = json!({"task": {"createdAt": at(0)}, "attempt": 3, "attempts": attempts, "endedAt": at(27),
        "journal": [step("a", 3), step("b", 6)]});
    let line = Timeline::of(&shown, now_ms(0)).unwrap();
    let worked: Vec<i64> = line.attempts.iter().map(|attempt| attempt.to_ms - attempt.from_ms).collect();
    assert_eq!(worked, [6_000, 0, 2_000]);
    let expected = [(14_000, Why::Lost), (1_000, Why::Retry), (3_000, Why::Lost), (1_000, Why::Retry)];
    assert_eq!(waits(&line), expected);
    let said = summary(&line);
    assert!(
        said.contains("in 27 s: 8 s of work, 17 s lost or without a server, 2 s until it was tried again."),
        "{said}"
    );
    let expected =
        ["Attempt 1 died; its last entry is 6 s after its start", "Attempt 2 died before it recorded anything"];
    assert_eq!(problems(&line), expected);
}

#[test]
fn the_last_problems_are_named_oldest_first() {
    let attempt =
        |number: i64| json!({"attempt": number, "from": at(number * 10), "to": at(number * 10 + 5), "end": "failed"});
    let shown = json!({"task": {"createdAt": at(0)}, "attempt": 9,
        "attempts": (1..=9).map(attempt).collect::<Vec<_>>()});
    let named = problems(&Timeline::of(&shown, now_ms(100)).unwrap());
    assert_eq!(named.len(), 5);
    assert!(named[0].starts_with("Attempt 5 failed") && named[4].starts_with("Attempt 9 failed"), "{named:?}");
}

#[test]
fn waits_are_the_times_between_attempts() {
    let line = Timeline::of(&long(3, 1), now_ms(0)).unwrap();
    let expected = [(2_000, Why::Queue), (9_000, Why::Lost), (3_590_000, Why::Retry), (3_590_000, Why::Timer)];
    assert_eq!(waits(&line), expected);
}

#[test]
fn attempts_that_are_not_on_record_any_more_are_known_by_what_they_recorded() {
    let line = Timeline::of(&long(40, 25), now_ms(0)).unwrap();
    assert_eq!((line.attempts.len(), line.guessed_attempts, line.unknown_attempts), (40, 24, 0));
    assert_eq!(
        (line.attempts[0].end, line.attempts[37].end, line.attempts[39].end),
        (End::Unknown, End::Died, End::Task)
    );
    assert!(line.attempts.iter().all(|attempt| attempt.entries == 25));
}

#[test]
fn attempts_that_left_nothing_are_counted() {
    let line = Timeline::of(&long(40, 0), now_ms(0)).unwrap();
    assert_eq!((line.attempts.len(), line.unknown_attempts), (16, 24));
}

#[test]
fn what_is_no_record_is_no_timeline() {
    for shown in [json!(null), json!({"attempts": 3, "journal": "x"}), json!({"task": {"createdAt": "yesterday"}})] {
        assert!(Timeline::of(&shown, 0).is_none(), "{shown}");
    }
    let odd = json!({"task": {"createdAt": at(0)}, "attempts": [{"attempt": -1}, 3], "journal": [{"at": 5}, null]});
    let line = Timeline::of(&odd, now_ms(5)).unwrap();
    assert_eq!((line.attempts.len(), line.entries.len()), (0, 2));
}

#[test]
fn forty_attempts_and_a_thousand_steps_are_one_sentence() {
    let line = Timeline::of(&long(40, 25), now_ms(0)).unwrap();
    let expected = "40 attempts, 1000 steps in 39 h: 5 min of work, 1 s lost or without a server, 13 h 57 min asleep, \
                    59 min until it was tried again, 23 h 56 min in older waits, 2 s in the queue. In the last 16 \
                    attempts, 1 died.";
    assert_eq!(summary(&line), expected);
    assert_eq!(problems(&line), ["Attempt 38 died; its last entry is 9 s after its start"]);
}

#[test]
fn a_task_without_attempts_waits_in_the_queue() {
    let shown = json!({"task": {"createdAt": at(0)}, "attempts": [], "journal": []});
    let line = Timeline::of(&shown, now_ms(5)).unwrap();
    assert_eq!(summary(&line), "It has not run yet: 5 s in the queue.");
}
