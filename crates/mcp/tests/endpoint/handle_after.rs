//! Policies that answer a call with the result if it is there soon, and with the task's handle otherwise.

use std::time::Duration;

use futures::FutureExt;
use longhaul_mcp::TaskPolicy;
use serde_json::{Value, json};

use crate::schema;
use crate::world::{Sent, World, alice, no_tasks};

const AFTER: Duration = Duration::from_secs(2);

fn soon(policy: TaskPolicy) -> TaskPolicy {
    policy.handle_after(AFTER)
}

/// The handle that a call is answered with.
async fn handle(world: &World, sent: &Sent) -> Value {
    let created = world.served(sent).await.result();
    schema::is("tasks-extension", "CreateTaskResult", &created);
    created
}

#[tokio::test]
async fn a_quick_call_is_answered_with_its_result_by_one_request() {
    let world = World::with_policies(soon);
    let answer = world.served(&Sent::call("add", json!({"a": 1, "b": 2}))).await;
    let result = answer.result();
    schema::is("2026-07-28", "CallToolResult", &result);
    assert_eq!((&result["resultType"], &result["content"][0]["text"]), (&json!("complete"), &json!("3")));
    let error = world.served(&Sent::call("fails", json!({}))).await.error();
    assert_eq!(error, (200, -32602, "no such city".to_owned()));
    let page = world.engine.list(&alice(), None, 10).await.unwrap();
    let task = page.tasks.iter().find(|task| task.tool == "add").expect("it was a task, and is still there");
    assert_eq!(world.get(&task.id.to_string()).await["result"]["content"][0]["text"], "3");
    let failed = world.served(&Sent::call("tool_error", json!({}))).await.result();
    assert_eq!((&failed["isError"], &failed["content"][0]["text"]), (&json!(true), &json!("it did not work")));
}

#[tokio::test]
async fn a_call_that_takes_longer_is_answered_with_the_handle_after_the_time() {
    let world = World::with_policies(soon);
    let began_ms = world.now_ms();
    let created = handle(&world, &Sent::call("sleeps", json!({"ms": 60_000}))).await;
    assert_eq!(created["status"], "working");
    let waited_ms = u128::from(world.now_ms() - began_ms);
    assert!((AFTER.as_millis()..60_000).contains(&waited_ms), "{waited_ms}");
    let id = created["taskId"].as_str().unwrap();
    world.work_until(id, "completed").await;
}

#[tokio::test]
async fn the_wait_is_never_longer_than_the_one_for_jobs() {
    let world = World::with_policies(|policy| policy.handle_after(Duration::from_secs(3600)));
    let began_ms = world.now_ms();
    handle(&world, &Sent::call("sleeps", json!({"ms": 1_500_000}))).await;
    let waited_ms = world.now_ms() - began_ms;
    assert!((20_000..1_800_000).contains(&waited_ms), "{waited_ms}");
}

#[tokio::test]
async fn a_question_is_answered_with_the_handle_at_once() {
    let world = World::with_policies(soon);
    let began_ms = world.now_ms();
    let created = handle(&world, &Sent::call("asks_side_by_side", json!({}))).await;
    assert!(u128::from(world.now_ms() - began_ms) < AFTER.as_millis());
    let task = world.get(created["taskId"].as_str().unwrap()).await;
    assert_eq!(task["status"], "input_required");
    assert_eq!(task["inputRequests"].as_object().map(serde_json::Map::len), Some(2));
}

#[tokio::test]
async fn progress_reaches_a_caller_while_it_waits() {
    let world = World::with_policies(soon);
    let answer = world.served(&Sent::call("reports", json!({})).with_meta("progressToken", "p1".into())).await;
    let events = answer.events();
    schema::is("2026-07-28", "ProgressNotification", &events[0]);
    schema::is("tasks-extension", "CreateTaskResult", &events.last().unwrap()["result"]);
}

#[tokio::test]
async fn a_worker_that_dies_delays_only_the_answer() {
    let world = World::with_policies(soon);
    let sent = Sent::call("stalls_once", json!({}));
    let mut answer = Box::pin(world.send(&sent));
    // Its caller waits once its message is sent.
    while world.clock.sleepers() == 0 {
        assert!((&mut answer).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    world.kill_a_worker_in_the_middle().await;
    let created = world.while_working(answer).await.result();
    assert_eq!(created["resultType"], "task", "its lease outlasts the wait");
    world.work_until(created["taskId"].as_str().unwrap(), "completed").await;
}

/// Sends a call whose client leaves before the answer; returns the id of its task.
async fn leave(world: &World, sent: &Sent) -> String {
    let mut answer = Box::pin(world.mcp.respond(sent.request(), alice()));
    loop {
        assert!((&mut answer).now_or_never().is_none());
        tokio::task::yield_now().await;
        let task = world.engine.list(&alice(), None, 1).await.unwrap().tasks.pop();
        if let Some(task) = task {
            return task.id.to_string();
        }
    }
}

/// Nobody else can know the id of the task.
#[tokio::test]
async fn a_client_that_leaves_before_the_answer_ends_the_task() {
    let call = Sent::call("sleeps", json!({"ms": 1_000}));
    for sent in [call.clone(), call.declaring(no_tasks())] {
        let world = World::with_policies(soon);
        let task = leave(&world, &sent).await;
        world.work_until(&task, "cancelled").await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_and_has_a_key_gets_the_result_with_its_retry() {
    let world = World::with_policies(soon);
    let sent = Sent::call("sleeps", json!({"ms": 1_000})).with_header("idempotency-key", "k");
    let task = leave(&world, &sent).await;
    let result = world.served(&sent).await.result();
    assert_eq!(result["resultType"], "complete", "{result}");
    assert_eq!(world.get(&task).await["status"], "completed");
    assert_eq!(world.engine.list(&alice(), None, 2).await.unwrap().tasks.len(), 1);
}

/// A client of `2025-11-25` that asks for a task gets one: its revision has no other answer.
#[tokio::test]
async fn clients_that_ask_for_a_task_get_one_at_once() {
    let world = World::with_policies(soon);
    let client = crate::older_client::Older::connect(&world.mcp, "2025-11-25").await;
    let params = json!({"name": "add", "arguments": {"a": 1, "b": 2}, "task": {}});
    let created = client.result(&world.mcp, "tools/call", params).await;
    schema::is("2025-11-25", "CreateTaskResult", &created);
}

/// Its first request waits for questions, its retry for nothing.
fn asking_first(policy: TaskPolicy) -> TaskPolicy {
    policy.questions_within(AFTER)
}

/// The call that brings answers to all questions of `asked`.
fn answered(asked: &Value) -> Sent {
    let keys = asked["inputRequests"].as_object().unwrap().keys();
    let answers: serde_json::Map<_, _> =
        keys.map(|key| (key.clone(), json!({"action": "accept", "content": {"value": key}}))).collect();
    let sent = Sent::call("asks_side_by_side", json!({})).with_param("inputResponses", answers.into());
    sent.with_param("requestState", asked["requestState"].clone())
}

#[tokio::test]
async fn a_tool_that_asks_first_becomes_a_handle_with_the_answers() {
    let world = World::with_policies(asking_first);
    let asked = world.served(&Sent::call("asks_side_by_side", json!({}))).await.result();
    schema::is("2026-07-28", "InputRequiredResult", &asked);
    assert!(asked.get("taskId").is_none(), "{asked}");
    let created = world.send(&answered(&asked)).await.result();
    schema::is("tasks-extension", "CreateTaskResult", &created);
    assert!(created.get("requestState").is_none() && created.get("inputRequests").is_none(), "{created}");
    let task = world.work_until(created["taskId"].as_str().unwrap(), "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "name likes color");
    assert_eq!(world.engine.list(&alice(), None, 2).await.unwrap().tasks.len(), 1);
}

#[tokio::test]
async fn a_quick_tool_that_asks_first_is_answered_without_a_handle() {
    let world = World::with_policies(|policy| asking_first(soon(policy)));
    let asked = world.served(&Sent::call("asks_side_by_side", json!({}))).await.result();
    let result = world.served(&answered(&asked)).await.result();
    assert_eq!(result["content"][0]["text"], "name likes color", "{result}");
}

#[tokio::test]
async fn a_tool_that_asks_nothing_is_answered_as_if_it_might() {
    let world = World::with_policies(asking_first);
    let result = world.served(&Sent::call("add", json!({"a": 1, "b": 2}))).await.result();
    assert_eq!(result["content"][0]["text"], "3");
    handle(&world, &Sent::call("sleeps", json!({"ms": 60_000}))).await;
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_is_told_what_it_needs() {
    let world = World::with_policies(asking_first);
    let only_tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let sent = Sent::call("asks_side_by_side", json!({})).declaring(only_tasks);
    assert_eq!(world.served(&sent).await.error().1, -32021);
}

/// Of the questions that it asked at once, a client may answer one and leave the other to the task.
#[tokio::test]
async fn what_the_retry_leaves_open_is_asked_by_the_task() {
    let world = World::with_policies(asking_first);
    let asked = world.served(&Sent::call("asks_side_by_side", json!({}))).await.result();
    let answer = json!({"name": {"action": "accept", "content": {"value": "Ann"}}});
    let retried = answered(&asked).with_param("inputResponses", answer);
    let created = world.send(&retried).await.result();
    let id = created["taskId"].as_str().unwrap();
    let task = world.work_until(id, "input_required").await;
    assert_eq!(task["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["color"]);
}
