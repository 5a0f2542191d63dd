//! Calls that ask to start later, in every protocol version.

use longhaul_core::{Status, limits};
use serde_json::{Value, json};

use crate::older_client::{Older, REVISION};
use crate::schema;
use crate::world::{Sent, World, alice, everything, no_tasks};

const KEY: &str = "dev.longhaul/notBefore";

const HOUR_MS: u64 = 3_600_000;

/// The moment so long after the world's beginning, as RFC 3339.
fn moment(world: &World, after_ms: u64) -> String {
    let ms = i64::try_from(world.now_ms() + after_ms).unwrap();
    format!("{:.3}", jiff::Timestamp::from_millisecond(ms).unwrap())
}

fn call(world: &World, tool: &str) -> Sent {
    Sent::call(tool, json!({"a": 1, "b": 2})).with_meta(KEY, moment(world, HOUR_MS).into())
}

/// The only task there is.
async fn status(world: &World) -> Status {
    let tasks = world.engine.list(&alice(), None, 10).await.unwrap().tasks;
    assert_eq!(tasks.len(), 1);
    tasks[0].status()
}

/// Works before the moment and after it: the task ends only then.
async fn starts_only_then(world: &World, protocol_version: &str) {
    world.work().await;
    assert_eq!(status(world).await, Status::Working, "{protocol_version}");
    world.clock.advance_ms(HOUR_MS);
    world.work().await;
    assert_eq!(status(world).await, Status::Completed, "{protocol_version}");
}

#[tokio::test]
async fn a_call_that_starts_later_is_a_task_at_once_and_says_when_it_starts() {
    let world = World::new();
    let start = moment(&world, HOUR_MS);
    let created = world.result(&call(&world, "add")).await;
    schema::is("tasks-extension", "CreateTaskResult", &created);
    let expected = (json!("working"), json!(format!("starts at {start}")), json!(60_000));
    let shown = |task: &Value| (task["status"].clone(), task["statusMessage"].clone(), task["pollIntervalMs"].clone());
    assert_eq!(shown(&created), expected);
    assert_eq!(created["ttlMs"], 2 * HOUR_MS);
    let id = created["taskId"].as_str().unwrap();
    assert_eq!(shown(&world.get(id).await), expected);
    let inspect = Sent::new("dev.longhaul/tasks/inspect", json!({"taskId": id}));
    let inspected = world.result(&inspect).await;
    assert_eq!((&inspected["notBefore"], &inspected["startedAt"]), (&json!(start), &Value::Null));
    assert_eq!(inspected["deadlineAt"], moment(&world, HOUR_MS + HOUR_MS / 2));
    starts_only_then(&world, "the Tasks extension").await;
    let task = world.get(id).await;
    assert_eq!((task.get("statusMessage"), &task["result"]["content"][0]["text"]), (None, &json!("3")));
    assert_eq!(world.result(&inspect).await["notBefore"], start);
}

#[tokio::test]
async fn clients_without_tasks_get_a_job_that_says_when_it_starts() {
    let world = World::new();
    let start = moment(&world, HOUR_MS);
    let answer = world.send(&call(&world, "add").declaring(no_tasks())).await.result();
    schema::is("2026-07-28", "CallToolResult", &answer);
    let job = &answer["structuredContent"]["data"];
    let said = format!("starts at {start}");
    assert_eq!(
        (&job["status"], &job["progress"], &job["poll_after_s"]),
        (&json!("queued"), &json!(said), &json!(3_600))
    );
    let sentence = answer["content"][1]["text"].as_str().unwrap();
    assert!(sentence.contains(&format!("It starts at {start}.")), "{sentence}");
    starts_only_then(&world, "job tools").await;
}

#[tokio::test]
async fn every_older_protocol_version_starts_later_too() {
    for (revision, method, more) in [
        (REVISION, "tools/call", json!({"task": {}})),
        (REVISION, "tools/call", json!({})),
        ("2025-06-18", "tools/call", json!({})),
        ("next", "tools/call", json!({"operation": {}})),
        ("2025-06-18", "tools/async/call", json!({})),
    ] {
        let (world, client) = Older::in_new_world(revision).await;
        let start = moment(&world, HOUR_MS);
        let mut params = json!({"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": {KEY: start}});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = client.result(&world.mcp, method, params).await;
        if more.get("task").is_some() {
            assert_eq!(answer["task"]["statusMessage"], format!("starts at {start}"), "{answer}");
        }
        starts_only_then(&world, &format!("{revision} {method} {more}")).await;
    }
}

#[tokio::test]
async fn what_is_not_a_moment_or_too_far_ahead_is_refused_and_leaves_nothing() {
    let world = World::new();
    let too_far = moment(&world, limits::START_AHEAD_MS_MAX + 1);
    for (asked, said) in [
        (json!("tomorrow"), "must be a moment as in RFC 3339"),
        (json!(1_796_115_600), "must be a moment as in RFC 3339"),
        (json!(too_far), "at most 90 days ahead"),
    ] {
        let sent = Sent::call("add", json!({"a": 1, "b": 2})).with_meta(KEY, asked);
        for declared in [everything(), no_tasks()] {
            let (_, code, message) = world.send(&sent.clone().declaring(declared)).await.error();
            assert_eq!(code, -32602, "{message}");
            assert!(message.contains(said), "{message}");
        }
    }
    assert!(world.engine.list(&alice(), None, 10).await.unwrap().tasks.is_empty());
}

/// A client must not send such a call to a server that would start it at once.
#[tokio::test]
async fn a_server_says_that_calls_may_start_later() {
    let discovered = World::new().result(&Sent::new("server/discover", json!({}))).await;
    assert_eq!(discovered["capabilities"]["extensions"]["dev.longhaul/laterStarts"], json!({}));
}

/// A plain call would run at once.
#[tokio::test]
async fn calls_that_do_not_become_tasks_cannot_start_later() {
    let world = World::new();
    for sent in
        [call(&world, "at_once"), call(&world, "get_job_status"), call(&world, "cancel_job").declaring(no_tasks())]
    {
        let (_, code, message) = world.send(&sent).await.error();
        assert_eq!(code, -32602);
        assert!(message.contains("do not become tasks"), "{message}");
    }
}

/// Such a tool runs before its call is a task, to ask; that must not happen before the moment either.
#[tokio::test]
async fn a_tool_that_asks_before_it_is_a_task_asks_when_it_has_started() {
    for tool in ["after_input", "after_rounds"] {
        let world = World::new();
        let id = world.result(&call(&world, tool)).await["taskId"].as_str().unwrap().to_owned();
        world.work().await;
        assert_eq!(world.get(&id).await["status"], "working");
        world.clock.advance_ms(HOUR_MS);
        world.work().await;
        assert_eq!(world.get(&id).await["status"], "input_required", "{tool}");
    }
}
