//! Servers that cannot be used for a while: the gateway runs without them, says so, and loses none of their tasks.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::process::{Gateway, Setup, ended, fixture, until, words};

/// A server that is there, and one that is while the test says so.
fn one_of_two(setup: &Setup) -> Value {
    let mut away = setup.fixture_entry(&[]);
    away["command"] = json!(setup.path("away"));
    json!({
        "mcpServers": {"there": setup.fixture_entry(&[]), "away": away},
        "longhaul": {"servers": {"away": {"tools": {"count": {"repeat": "never"}}}}}
    })
}

/// The answer that everyone may read: counts, and no names.
fn ready(degraded_parts: usize) -> Value {
    json!({"status": "ready", "degradedParts": degraded_parts, "unreadableTasks": 0})
}

async fn readiness(gateway: &Gateway) -> Value {
    serde_json::from_str(&gateway.page("/readyz").await).unwrap()
}

async fn until_ready_is(gateway: &Gateway, expected: &Value) {
    let begun = std::time::Instant::now();
    while readiness(gateway).await != *expected {
        assert!(begun.elapsed().as_secs() < 60, "{}", readiness(gateway).await);
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn an_absent_server_is_shown_until_it_is_there() {
    let (setup, gateway) = Setup::config(one_of_two).running();
    assert_eq!(readiness(&gateway).await, ready(1));
    let page = gateway.page("/console/health").await;
    assert!(page.contains("cannot be used now") && page.contains("was not found"), "{page}");
    symlink(fixture(), setup.path("away")).unwrap();
    // No client asks for anything meanwhile.
    until_ready_is(&gateway, &ready(0)).await;
    assert!(!gateway.page("/console/health").await.contains("cannot be used now"));
    assert_eq!(gateway.ended("away_count", json!({})).await["status"], "completed");
}

#[tokio::test]
async fn a_task_of_an_absent_server_waits_for_it_after_a_restart() {
    let (setup, gateway, caller) = Setup::config(|setup| {
        symlink(fixture(), setup.path("away")).unwrap();
        one_of_two(setup)
    })
    .begun();
    let id = caller.call_task("away_slow_read_only", json!({})).await;
    setup.until_called(1).await;
    gateway.kill();
    std::fs::remove_file(setup.path("away")).unwrap();
    let (gateway, caller) = setup.started();
    until("the task is left", || gateway.log().contains("the task is left for a worker that has it")).await;
    assert_eq!(caller.get(&id).await["status"], "working");
    symlink(fixture(), setup.path("away")).unwrap();
    let task = ended(&caller, &id).await;
    assert!(words(&task).starts_with("done: "), "{task}");
}

/// Such requests once waited for the calls.
#[tokio::test]
async fn a_prompt_does_not_wait_for_long_calls() {
    let (setup, _gateway, caller) = Setup::config(|setup| {
        json!({"mcpServers": {"only": setup.fixture_entry(&[])}, "longhaul": {"servers": {"only": {"concurrency": 1}}}})
    })
    .begun();
    caller.call_task("never", json!({})).await;
    setup.until_called(1).await;
    let prompt = caller.result("prompts/get", json!({"name": "greet", "arguments": {"who": "Ann"}})).await;
    assert_eq!(prompt["messages"][0]["content"]["text"], "Greet Ann");
}
