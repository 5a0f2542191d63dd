//! Tasks that a tool made by calling other tools, on functions that are killed, and at the limits of their owner.

use std::time::Duration;

use harness::gathered::{all_of, result_of};
use serde_json::json;

use super::inside::until;
use super::process::Setup;

/// How many calls there are at once.
const CALLS: usize = 50;

/// How long a test waits for something that has to happen.
const PATIENCE: Duration = Duration::from_secs(240);

/// How many children are in a table, and how many of them are in this state.
async fn children_in(table: &str, state: &str) -> (usize, usize) {
    let clients = Setup::clients();
    let (mut all, mut counted, mut from) = (0, 0, None);
    loop {
        let scan = clients.dynamo.scan().table_name(table).consistent_read(true).set_exclusive_start_key(from);
        let page = scan.send().await.unwrap();
        let children: Vec<_> = page.items().iter().filter(|item| item.contains_key("parent")).collect();
        all += children.len();
        counted += children.iter().filter(|child| child["state"].as_s().is_ok_and(|found| found == state)).count();
        from = page.last_evaluated_key;
        if from.is_none() {
            return (all, counted);
        }
    }
}

#[tokio::test]
async fn calls_of_other_tools_survive_killed_workers_and_are_made_once() {
    let setup = Setup::new();
    let caller = setup.start().caller();
    let table = setup.output("Table");
    let id = caller.call_task("gather", json!({"calls": CALLS})).await;
    // While they are made, and when some have ended.
    for made in [1, CALLS / 3, CALLS / 2] {
        until("enough are made", async || children_in(table, "completed").await.0 >= made).await;
        setup.kill_all_of("WorkerFunction");
    }
    assert_eq!(result_of(&caller, &id, PATIENCE).await, all_of(CALLS));
    assert_eq!(children_in(table, "completed").await, (CALLS, CALLS));
}

#[tokio::test]
async fn a_cancel_reaches_all_calls_although_both_functions_are_killed_right_after_it() {
    let setup = Setup::new();
    let caller = setup.start().caller();
    let table = setup.output("Table");
    let id = caller.call_task("gather", json!({"calls": 10, "seconds": 600})).await;
    until("all are made", async || children_in(table, "running").await.0 == 10).await;
    caller.result("tasks/cancel", json!({"taskId": id})).await;
    setup.start().kill();
    until("all are cancelled", async || children_in(table, "cancelled").await == (10, 10)).await;
}
