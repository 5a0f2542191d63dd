//! No process is left behind, however its call ends.

use serde_json::json;

use super::process::{Setup, words};

#[tokio::test]
async fn a_server_ends_with_its_call() {
    let (setup, gateway) = Setup::fixture(&[]).running();
    gateway.ended("count", json!({})).await;
    setup.until_all_have_ended().await;
}

/// Otherwise servers write about a broken pipe to standard error, and so into the gateway's log.
#[tokio::test]
async fn what_a_server_says_at_its_end_is_read() {
    let (setup, gateway) = Setup::fixture(&["--last-words"]).running();
    gateway.ended("count", json!({})).await;
    setup.until_all_have_ended().await;
    let ends = std::fs::read_to_string(setup.path("ends")).unwrap();
    // One that is killed before it has said anything, because it has too little time on a busy machine, notes nothing.
    assert!(!ends.is_empty() && ends.lines().all(|end| end == "read"), "{ends}");
}

#[tokio::test]
async fn a_server_that_ignores_its_end_is_killed() {
    let (setup, gateway) = Setup::fixture(&["--stubborn"]).running();
    gateway.ended("count", json!({})).await;
    setup.until_all_have_ended().await;
}

#[tokio::test]
async fn what_a_server_has_started_ends_with_it() {
    let (setup, gateway) = Setup::fixture(&[]).running();
    assert_eq!(words(&gateway.ended("forked", json!({})).await), "done: 1");
    setup.until_all_have_ended().await;
}

#[tokio::test]
async fn a_cancelled_call_ends_its_server() {
    for modes in [&[][..], &["--stubborn"]] {
        let (setup, _gateway, caller) = Setup::fixture(modes).begun();
        let id = caller.call_task("never", json!({})).await;
        setup.until_called(1).await;
        caller.result("tasks/cancel", json!({"taskId": id})).await;
        setup.until_all_have_ended().await;
        assert_eq!(caller.get(&id).await["status"], "cancelled");
    }
}

#[tokio::test]
async fn a_gateway_that_is_asked_to_stop_leaves_no_server() {
    let (setup, gateway) = Setup::fixture(&["--stubborn"]).running();
    gateway.caller().call_task("never", json!({})).await;
    setup.until_called(1).await;
    gateway.terminate();
    setup.until_all_have_ended().await;
}

#[tokio::test]
async fn a_gateway_that_is_killed_leaves_no_server() {
    let (setup, gateway, caller) = Setup::fixture(&[]).begun();
    for _ in 0..3 {
        caller.call_task("slow", json!({})).await;
    }
    setup.until_called(3).await;
    gateway.kill();
    setup.until_all_have_ended().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_server_under_setpriv_ends_with_its_gateway_whatever_it_ignores() {
    let setup = Setup::config(|setup| {
        let mut entry = setup.fixture_entry(&["--stubborn"]);
        let advice = [json!("--pdeathsig"), json!("KILL"), json!("--"), entry["command"].clone()];
        entry["command"] = json!("setpriv");
        let args = advice.into_iter().chain(entry["args"].as_array().unwrap().clone());
        entry["args"] = args.collect();
        json!({"mcpServers": {"only": entry}})
    });
    let gateway = setup.start();
    gateway.caller().call_task("never", json!({})).await;
    setup.until_called(1).await;
    gateway.kill();
    setup.until_all_have_ended().await;
}
