//! A call that starts later survives the death of the server before, at and after its start.

use harness::caller::{Caller, structured};
use serde_json::{Value, json};

use super::process::{Setup, now_ms, until};

/// How long before its start the call is made.
const AHEAD_MS: u64 = 3_000;

async fn call_at(caller: &Caller, start_ms: u64) -> String {
    let start = jiff::Timestamp::from_millisecond(i64::try_from(start_ms).unwrap()).unwrap().to_string();
    let params =
        json!({"name": "slow_compute", "arguments": {"label": "late"}, "_meta": {"dev.longhaul/notBefore": start}});
    let created = caller.result("tools/call", params).await;
    let message = created["statusMessage"].as_str().unwrap();
    assert!(message.starts_with("starts at 20"), "{created}");
    created["taskId"].as_str().unwrap().to_owned()
}

/// When the first attempt of the task began, in milliseconds since 1970.
async fn started_ms(caller: &Caller, id: &str) -> u64 {
    let record = caller.result("dev.longhaul/tasks/inspect", json!({"taskId": id})).await;
    let started: jiff::Timestamp = record["startedAt"].as_str().unwrap().parse().unwrap();
    u64::try_from(started.as_millisecond()).unwrap()
}

async fn is_waiting(caller: &Caller, id: &str) {
    let record = caller.result("dev.longhaul/tasks/inspect", json!({"taskId": id})).await;
    assert_eq!((&record["startedAt"], &record["attempt"]), (&Value::Null, &json!(0)), "{record}");
}

#[tokio::test]
async fn a_call_starts_at_its_moment_although_its_server_was_killed_before() {
    let (setup, server) = Setup::started();
    let start_ms = now_ms() + AHEAD_MS;
    let id = call_at(&setup.caller(), start_ms).await;
    server.kill();
    let _again = setup.start();
    if now_ms() + 500 < start_ms {
        is_waiting(&setup.caller(), &id).await;
    }
    let done = setup.caller().until(&id, "completed").await;
    assert!(structured(&done["result"]).is_object() || done["result"]["content"].is_array(), "{done}");
    assert!(started_ms(&setup.caller(), &id).await >= start_ms);
}

#[tokio::test]
async fn a_call_whose_moment_passed_while_no_server_was_there_starts_when_one_is() {
    let (setup, server) = Setup::started();
    let start_ms = now_ms() + AHEAD_MS;
    let id = call_at(&setup.caller(), start_ms).await;
    server.kill();
    until(start_ms + 500).await;
    let _again = setup.start();
    setup.caller().until(&id, "completed").await;
    assert!(started_ms(&setup.caller(), &id).await >= start_ms);
}
