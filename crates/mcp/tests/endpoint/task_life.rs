//! A task from its call to its end.

use std::sync::atomic::Ordering;

use serde_json::json;

use crate::world::{Sent, World};

/// The complete messages, byte for byte.
#[tokio::test]
async fn messages_look_like_this() {
    let world = World::new();
    let created = world.send(&Sent::call("add", json!({"a": 2, "b": 3}))).await;
    assert_eq!(created.headers["content-type"], "application/json");
    let id = created.result()["taskId"].as_str().unwrap().to_owned();
    let at = created.result()["createdAt"].as_str().unwrap().to_owned();
    let task = json!({
        "resultType": "task", "taskId": id, "status": "working", "createdAt": at, "lastUpdatedAt": at,
        "ttlMs": 3_600_000, "pollIntervalMs": 100,
    });
    assert_eq!(created.json(), json!({"jsonrpc": "2.0", "id": 7, "result": task}));

    world.clock.advance_ms(1_500);
    world.work().await;
    let got = world.send(&Sent::new("tasks/get", json!({"taskId": id}))).await;
    assert_eq!(got.headers["content-type"], "application/json");
    let later = got.result()["lastUpdatedAt"].as_str().unwrap().to_owned();
    assert_ne!(later, at);
    let task = json!({
        "resultType": "complete", "taskId": id, "status": "completed", "createdAt": at, "lastUpdatedAt": later,
        "ttlMs": 3_600_000, "pollIntervalMs": 1000,
        "result": {"resultType": "complete", "content": [{"type": "text", "text": "5"}], "isError": false},
    });
    assert_eq!(got.json(), json!({"jsonrpc": "2.0", "id": 7, "result": task}));
}

#[tokio::test]
async fn the_poll_interval_follows_the_tools_hint() {
    let (world, id) = World::with_task("hangs").await;
    assert_eq!(world.get(&id).await["pollIntervalMs"], 700);
    world.clock.advance_ms(11_000);
    assert_eq!(world.get(&id).await["pollIntervalMs"], 3_000);
}

#[tokio::test]
async fn a_result_that_says_is_error_completes_the_task() {
    let (world, id) = World::with_task("tool_error").await;
    world.work().await;
    let task = world.get(&id).await;
    assert_eq!(task["status"], "completed");
    assert_eq!(task["result"]["isError"], true);
}

#[tokio::test]
async fn a_protocol_error_fails_the_task_with_that_error() {
    let (world, id) = World::with_task("fails").await;
    world.work().await;
    let task = world.get(&id).await;
    assert_eq!(task["status"], "failed");
    assert_eq!(task["statusMessage"], "no such city");
    assert_eq!(task["error"], json!({"code": -32602, "message": "no such city", "data": {"city": "Atlantis"}}));
}

#[tokio::test]
async fn a_tool_that_checks_its_arguments_itself_reports_malformed_ones_as_its_result() {
    let world = World::new();
    let id = world.start("adds_anything", json!({"a": "two"})).await;
    world.work().await;
    let task = world.get(&id).await;
    assert_eq!((&task["status"], &task["result"]["isError"]), (&json!("completed"), &json!(true)));
}

#[tokio::test]
async fn a_tool_that_panics_every_time_fails_after_its_last_try() {
    let (world, id) = World::with_task("panics_always").await;
    let task = world.work_until(&id, "failed").await;
    assert_eq!(task["error"]["code"], -32603);
    assert_eq!(task["error"]["data"]["reason"], "retries_exhausted");
    let message = task["error"]["message"].as_str().unwrap();
    assert!(message.contains("3 failures in a row") && message.contains("the tool panicked"), "{message}");
    assert!(!task.to_string().contains("always panics"), "the panic's message belongs in the log only: {task}");
}

#[tokio::test]
async fn a_tool_that_hangs_past_its_longest_run_fails() {
    let (world, id) = World::with_task("hangs").await;
    world.while_time_passes(world.work()).await;
    let task = world.get(&id).await;
    assert_eq!((&task["status"], &task["error"]["data"]["reason"]), (&json!("failed"), &json!("timed_out")));
    wait_for_drop(&world).await;
}

#[tokio::test]
async fn cancel_ends_the_task_at_once_and_reaches_its_running_tool() {
    let (world, id) = World::with_task("hangs").await;
    let cancel = async {
        while world.observed.calls_begun.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        world.cancel(&id).await;
        assert_eq!(world.get(&id).await["status"], "cancelled");
    };
    world.while_time_passes(async { tokio::join!(world.work(), cancel) }).await;
    assert_eq!(world.get(&id).await["status"], "cancelled");
    wait_for_drop(&world).await;
    // Again, on a task that has ended.
    world.cancel(&id).await;
    assert_eq!(world.get(&id).await["status"], "cancelled");
}

/// The tool runs on its own `tokio` task, which is aborted and ends at its next await point.
async fn wait_for_drop(world: &World) {
    while world.observed.calls_dropped.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn progress_of_an_ordinary_tool_shows_too() {
    let (world, id) = World::with_task("meters").await;
    assert_eq!(world.work_until(&id, "input_required").await["statusMessage"], "2/5");
}

#[tokio::test]
async fn a_recorded_step_that_cannot_be_read_any_more_fails_the_task() {
    let (world, id, _) = World::asked_by("misreads").await;
    world.update(&id, json!({"go_on": {"action": "accept"}})).await;
    let task = world.work_until(&id, "failed").await;
    assert_eq!(task["error"]["data"]["reason"], "corrupt");
    assert!(task["error"]["message"].as_str().unwrap().contains("`number`"), "{task}");
}

#[tokio::test]
async fn variables_outlive_an_attempt() {
    let (world, id, _) = World::asked_by("remembers").await;
    world.update(&id, json!({"go_on": {"action": "accept"}})).await;
    let task = world.work_until(&id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "seen 2");
}

#[tokio::test]
async fn the_idempotency_key_of_a_task_is_its_id() {
    let (world, id) = World::with_task("who").await;
    let task = world.work_until(&id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], format!("{id} true"));
}
