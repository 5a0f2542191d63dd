//! Tasks that a tool made by calling other tools, on a server that is killed, and at the limits of their owner.

use std::time::{Duration, Instant};

use harness::caller::Caller;
use harness::gathered::{all_of, result_of};
use serde_json::{Value, json};

use super::process::Setup;

/// How many calls there are at once.
const CALLS: usize = 300;

/// How long a test waits for something that has to happen.
const PATIENCE: Duration = Duration::from_secs(600);

fn setup() -> Setup {
    Setup::with(&["--diagnostics"])
}

/// The tasks of this tool, page by page.
async fn tasks(caller: &Caller, tool: &str) -> Vec<Value> {
    let (mut tasks, mut cursor) = (Vec::new(), None::<Value>);
    loop {
        let mut params = json!({"tool": tool});
        params.as_object_mut().unwrap().extend(cursor.map(|cursor| ("cursor".to_owned(), cursor)));
        let page = caller.result("dev.longhaul/tasks/list", params).await;
        tasks.extend(page["tasks"].as_array().unwrap().iter().cloned());
        cursor = page.get("nextCursor").filter(|next| next.is_string()).cloned();
        if cursor.is_none() {
            return tasks;
        }
    }
}

/// How many tasks of this tool have this status.
async fn count(caller: &Caller, tool: &str, status: &str) -> usize {
    tasks(caller, tool).await.iter().filter(|task| task["status"] == status).count()
}

/// Waits until at least so many tasks of this tool have this status.
async fn until_so_many(caller: &Caller, tool: &str, status: &str, wanted: usize) {
    let begun = Instant::now();
    loop {
        let counted = count(caller, tool, status).await;
        if counted >= wanted {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{counted} of {wanted} {tool} are {status}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Calls `gather`, and kills the server again and again in the middle of that: while children are made, and when some
/// have ended.
async fn survives_kills(calls: usize) {
    let setup = setup();
    let mut server = setup.start();
    let id = server.caller().call_task("gather", json!({"calls": calls})).await;
    for quarter in 0..4 {
        until_so_many(&server.caller(), "countdown", "completed", calls * quarter / 4).await;
        server.kill();
        server = setup.start();
    }
    let caller = server.caller();
    assert_eq!(result_of(&caller, &id, PATIENCE).await, all_of(calls));
    assert_eq!(count(&caller, "countdown", "completed").await, calls);
    assert_eq!(tasks(&caller, "countdown").await.len(), calls, "each call is made once");
}

#[tokio::test]
async fn calls_of_other_tools_survive_kills_and_are_made_once() {
    survives_kills(CALLS).await;
}

#[tokio::test]
#[ignore = "takes minutes on a busy machine: `make nightly` runs it"]
async fn a_thousand_calls_survive_kills_and_are_made_once() {
    survives_kills(1_000).await;
}

#[tokio::test]
async fn one_attempt_at_a_time_is_enough_for_a_task_and_those_that_it_calls() {
    let mut setup = setup();
    setup.add(&["--concurrency", "1", "--owner-concurrency", "1"]);
    let server = setup.start();
    let caller = server.caller();
    let id = caller.call_task("gather", json!({"calls": 5, "levels": 3})).await;
    assert_eq!(result_of(&caller, &id, PATIENCE).await, all_of(5));
}

#[tokio::test]
async fn a_cancel_reaches_all_calls_although_the_server_is_killed_right_after_it() {
    let setup = setup();
    let server = setup.start();
    let caller = server.caller();
    let id = caller.call_task("gather", json!({"calls": 20, "seconds": 3_600, "levels": 1})).await;
    until_so_many(&caller, "countdown", "working", 20).await;
    caller.result("tasks/cancel", json!({"taskId": id})).await;
    server.kill();
    let server = setup.start();
    let caller = server.caller();
    until_so_many(&caller, "countdown", "cancelled", 20).await;
    until_so_many(&caller, "gather", "cancelled", 2).await;
    assert_eq!(caller.get(&id).await["status"], "cancelled");
}
