//! Calls of one key run one after the other, also if the server is killed while one of them runs and another process
//! goes on.

use harness::caller::Caller;
use serde_json::{Value, json};

use super::process::Setup;

async fn called(caller: &Caller, label: &str) -> String {
    caller.call_task("slow_compute", json!({"seconds": 0.5, "label": label})).await
}

/// The record of a task.
async fn record(caller: &Caller, id: &str) -> Value {
    caller.result("dev.longhaul/tasks/inspect", json!({"taskId": id})).await
}

/// The first of these tasks that runs.
async fn running<'i>(caller: &Caller, ids: &'i [String]) -> Option<&'i String> {
    for id in ids {
        let record = record(caller, id).await;
        if !record["startedAt"].is_null() && record["endedAt"].is_null() {
            return Some(id);
        }
    }
    None
}

fn moment(text: &Value) -> jiff::Timestamp {
    text.as_str().unwrap().parse().unwrap()
}

/// When the attempts of a task that has ended ran.
fn attempts(record: &Value) -> Vec<(jiff::Timestamp, jiff::Timestamp)> {
    let to =
        |attempt: &Value| if attempt["to"].is_null() { moment(&record["endedAt"]) } else { moment(&attempt["to"]) };
    record["attempts"].as_array().unwrap().iter().map(|attempt| (moment(&attempt["from"]), to(attempt))).collect()
}

#[tokio::test]
async fn calls_of_one_key_take_turns_although_their_server_is_killed() {
    let (setup, server) = Setup::started();
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(called(&setup.caller(), "acme").await);
    }
    let other = called(&setup.caller(), "brown").await;
    setup.caller().until(&other, "completed").await;
    // One of the others has the permit now, or one will soon.
    let killed = loop {
        if let Some(id) = running(&setup.caller(), &ids).await {
            break id;
        }
    };
    server.kill();
    let _again = setup.start();
    let mut all = Vec::new();
    for id in &ids {
        setup.caller().until(id, "completed").await;
        let record = record(&setup.caller(), id).await;
        assert!(id != killed || record["attempt"] == json!(2), "its first attempt died: {record}");
        all.extend(attempts(&record));
    }
    all.sort_unstable();
    assert!(all.len() > ids.len(), "{all:?}");
    assert!(all.windows(2).all(|two| two[0].1 <= two[1].0), "two ran at a time: {all:?}");
}
