//! `dev.longhaul/tasks/inspect`: what is on record of a task, for its owner.

use longhaul_core::{Entry, EntryKind, Payload, Recording, TaskKey, Timestamp};
use serde_json::{Value, json};

use crate::world::{Sent, World, alice, no_tasks};

const METHOD: &str = "dev.longhaul/tasks/inspect";

fn inspect(id: &str) -> Sent {
    Sent::new(METHOD, json!({"taskId": id}))
}

fn key(id: &str) -> TaskKey {
    TaskKey::new(alice(), id.parse().unwrap())
}

/// Records steps `first..=last` of the task, a second apart, each with its number as its value.
async fn with_steps(world: &World, id: &str, first: u64, last: u64) {
    for number in first..=last {
        let recording =
            Recording { at: Timestamp::from_ms(number * 1_000), took_ms: Some(number), attempt: 1, order: None };
        let entry = Entry {
            kind: EntryKind::Step,
            name: format!("step {number}"),
            value: Payload::Inline(number.to_string()),
            recording: Some(recording),
        };
        world.engine.ports().store.record(&key(id), &entry).await.unwrap();
    }
}

#[tokio::test]
async fn the_owner_sees_the_call_the_journal_and_how_each_entry_came_to_be() {
    let (world, id) = World::with_task("steps").await;
    world.work().await;
    world.update(&id, json!({"name": {"action": "accept", "content": {"value": "Ann"}}})).await;
    world.work().await;
    let task = world.result(&inspect(&id)).await;
    assert_eq!(task["resultType"], "complete");
    let mut shown = world.get(&id).await;
    shown.as_object_mut().unwrap().remove("resultType");
    assert_eq!(task["task"], shown, "as `tasks/get` shows it");
    assert_eq!((&task["tool"], &task["attempt"]), (&json!("steps"), &json!(2)));
    assert_eq!(task["arguments"], json!({"bytes": 2, "value": {}}));
    assert_eq!((&task["failures"], &task["lastFailure"]), (&json!(0), &Value::Null));
    let attempts = task["attempts"].as_array().unwrap();
    let told: Vec<_> = attempts
        .iter()
        .map(|attempt| (attempt["attempt"].as_u64().unwrap(), attempt["end"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [(1, "input"), (2, "task")]);
    assert_eq!((&attempts[0]["from"], &attempts[1]["to"]), (&task["startedAt"], &task["endedAt"]));
    let at = |name: &str| task[name].as_str().unwrap().to_owned();
    assert!(at("startedAt") <= at("endedAt") && at("endedAt") < at("deadlineAt"));
    assert_eq!(task["outcomeBytes"].as_u64().unwrap(), task["task"]["result"].to_string().len() as u64);
    let entries: Vec<_> =
        task["journal"].as_array().unwrap().iter().map(|entry| (&entry["kind"], &entry["name"])).collect();
    let names = [(json!("step"), json!("first")), (json!("answer"), json!("name")), (json!("step"), json!("second"))];
    assert_eq!(entries.len(), names.len());
    assert!(names.iter().all(|(kind, name)| entries.contains(&(kind, name))), "{entries:?}");
    let second = task["journal"].as_array().unwrap().iter().find(|entry| entry["name"] == "second").unwrap();
    let at = second["at"].clone();
    let second_as_told =
        json!({"kind": "step", "name": "second", "at": at, "tookMs": 0, "attempt": 2, "bytes": 1, "value": 2});
    assert_eq!(*second, second_as_told);
    assert!(task.get("nextCursor").is_none());
}

#[tokio::test]
async fn a_value_over_4_kib_is_left_out_and_comes_whole_when_asked_for() {
    let world = World::new();
    let filler = "x".repeat(5_000);
    let id = world.start("large", json!({"bytes": 5_000, "filler": filler})).await;
    let long = json!(filler).to_string();
    let value = Payload::Inline(long.clone());
    let entry = Entry { kind: EntryKind::Step, name: "long".to_owned(), value, recording: None };
    world.engine.ports().store.record(&key(&id), &entry).await.unwrap();
    world.work().await;
    let task = world.result(&inspect(&id)).await;
    assert_eq!(task["arguments"]["cut"], true);
    assert_eq!(task["arguments"].get("value"), None);
    assert_eq!(task["journal"], json!([{"kind": "step", "name": "long", "bytes": long.len(), "cut": true}]));
    assert_eq!((&task["task"]["status"], task["task"].get("result")), (&json!("completed"), None));
    assert!(task["outcomeBytes"].as_u64().unwrap() > 5_000);
    let whole = |whole: Value| inspect(&id).with_param("whole", whole);
    let step = world.result(&whole(json!({"kind": "step", "name": "long"}))).await;
    assert_eq!(step, json!({"resultType": "complete", "bytes": long.len(), "value": filler}));
    let arguments = world.result(&whole(json!({"kind": "arguments"}))).await;
    assert_eq!(arguments["value"], json!({"bytes": 5_000, "filler": filler}));
    let (_, code, message) = world.send(&whole(json!({"kind": "timer", "name": "long"}))).await.error();
    assert_eq!((code, message.as_str()), (-32602, "the journal has no such entry"));
}

#[tokio::test]
async fn a_value_that_is_no_json_is_shown_as_a_text() {
    let (world, id) = World::with_task("hangs").await;
    let value = Payload::Inline("{not \"json\"".to_owned());
    let entry = Entry { kind: EntryKind::Round, name: "0".to_owned(), value, recording: None };
    world.engine.ports().store.record(&key(&id), &entry).await.unwrap();
    let task = world.result(&inspect(&id)).await;
    assert_eq!(task["journal"][0]["value"], "{not \"json\"");
    let whole = world.result(&inspect(&id).with_param("whole", json!({"kind": "round", "name": "0"}))).await;
    assert_eq!(whole["value"], "{not \"json\"");
}

/// Transports of lines, such as the bridge, would take each line for a message.
#[tokio::test]
async fn a_value_that_a_client_wrote_in_several_lines_is_sent_in_one() {
    let (world, id) = World::with_task("hangs").await;
    let value = Payload::Inline("{\r\n  \"a\": [1,\n 2],\n  \"b\": \"\\n\"\n}".to_owned());
    let entry = Entry { kind: EntryKind::Answer, name: "q".to_owned(), value, recording: None };
    world.engine.ports().store.record(&key(&id), &entry).await.unwrap();
    let answer = world.send(&inspect(&id).with_param("whole", json!({"kind": "answer", "name": "q"}))).await;
    assert_eq!(answer.text.lines().count(), 1, "{}", answer.text);
    assert_eq!(answer.result()["value"], json!({"a": [1, 2], "b": "\n"}));
}

#[tokio::test]
async fn a_long_journal_comes_in_pages_in_the_order_in_which_it_was_recorded() {
    let (world, id) = World::with_task("hangs").await;
    with_steps(&world, &id, 1, 1_100).await;
    let (mut values, mut sent, mut pages) = (Vec::new(), inspect(&id), 0);
    loop {
        let page = world.result(&sent).await;
        values.extend(page["journal"].as_array().unwrap().iter().map(|entry| entry["value"].as_u64().unwrap()));
        pages += 1;
        let Some(next) = page.get("nextCursor") else { break };
        sent = inspect(&id).with_param("cursor", next.clone());
    }
    assert_eq!((values, pages), ((1..=1_100).collect::<Vec<u64>>(), 3));
    let beyond = world.result(&inspect(&id).with_param("cursor", json!(usize::MAX.to_string()))).await;
    assert_eq!((&beyond["journal"], beyond.get("nextCursor")), (&json!([]), None));
}

#[tokio::test]
async fn without_its_journal_a_task_is_shown_without_reading_that() {
    let (world, id) = World::with_task("steps").await;
    world.work().await;
    with_steps(&world, &id, 1, 3).await;
    let mut whole = world.result(&inspect(&id)).await;
    assert_eq!(world.result(&inspect(&id).with_param("journal", json!(true))).await, whole);
    assert!(whole["journal"].as_array().is_some_and(|journal| journal.len() > 3), "{whole}");
    whole.as_object_mut().unwrap().remove("journal");
    assert_eq!(world.result(&inspect(&id).with_param("journal", json!(false))).await, whole);
}

#[tokio::test]
async fn a_task_that_sleeps_says_when_it_wakes_here_and_in_the_list() {
    let world = World::new();
    let id = world.start("sleeps", json!({"ms": 600_000})).await;
    let list = Sent::new("dev.longhaul/tasks/list", json!({}));
    let inspected = world.result(&inspect(&id)).await;
    assert_eq!((inspected.get("wakesAt"), world.result(&list).await["tasks"][0].get("wakesAt")), (None, None));
    world.work().await;
    let journal = world.result(&inspect(&id)).await;
    let wakes_at = journal["wakesAt"].as_str().unwrap().to_owned();
    let due =
        journal["journal"][0]["value"].as_i64().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok()).unwrap();
    assert_eq!(wakes_at, format!("{due:.3}"));
    assert_eq!(world.result(&list).await["tasks"][0]["wakesAt"], wakes_at.as_str());
}

#[tokio::test]
async fn it_is_checked_like_tasks_get() {
    let world = World::new();
    let id = world.start("add", json!({"a": 1, "b": 2})).await;
    let undeclared = world.send(&inspect(&id).declaring(no_tasks())).await.error();
    assert_eq!((undeclared.0, undeclared.1), (400, -32021));
    for (name, value) in [("cursor", json!(1)), ("whole", json!("step")), ("journal", json!("x")), ("taskId", json!(7))]
    {
        let (status, code, message) = world.send(&inspect(&id).with_param(name, value)).await.error();
        assert_eq!(
            (status, code, message.as_str()),
            (200, -32602, "the params of dev.longhaul/tasks/inspect are malformed")
        );
    }
    for cursor in ["", "x", "-1"] {
        let (_, code, message) = world.send(&inspect(&id).with_param("cursor", json!(cursor))).await.error();
        assert_eq!((code, message.as_str()), (-32602, "the cursor is not valid; start again without one"));
    }
}

#[tokio::test]
async fn one_journal_is_read_at_a_time() {
    let world = World::new();
    let ids = [world.start("hangs", json!({})).await, world.start("hangs", json!({})).await];
    let sent = ids.each_ref().map(|id| inspect(id));
    let (first, second) = tokio::join!(world.send(&sent[0]), world.send(&sent[1]));
    for (answer, id) in [(first, &ids[0]), (second, &ids[1])] {
        assert_eq!(answer.result()["task"]["taskId"], **id);
    }
}

#[tokio::test]
async fn an_attempt_that_failed_says_why_and_one_that_runs_has_no_end() {
    let (world, id) = World::with_task("panics_once").await;
    world.work().await;
    let attempts = world.result(&inspect(&id)).await["attempts"].clone();
    assert_eq!(
        (&attempts[0]["attempt"], &attempts[0]["end"], attempts.as_array().unwrap().len()),
        (&json!(1), &json!("failed"), 1)
    );
    assert!(attempts[0]["reason"].as_str().unwrap().len() > 5, "{attempts}");
    let id = world.start("stalls_once", json!({})).await;
    world.kill_a_worker_in_the_middle().await;
    let attempts = world.result(&inspect(&id)).await["attempts"].clone();
    let from = attempts[0]["from"].clone();
    assert_eq!(attempts, json!([{"attempt": 1, "from": from, "to": null, "end": null}]));
}
