//! Calls that wait for `concurrency`: they hold nothing that others need, and were not sent.

use serde_json::{Value, json};

use super::process::{Setup, ended, until, words};

fn one_at_a_time(setup: &Setup) -> Value {
    let longhaul = json!({"servers": {"only": {"concurrency": 1}}, "defaults": {"handleAfter": "0s"}});
    json!({"mcpServers": {"only": setup.fixture_entry(&[]), "quick": setup.fixture_entry(&[])}, "longhaul": longhaul})
}

/// Such calls once failed after the second restart with "may have been carried out".
#[tokio::test]
async fn calls_that_wait_run_once_after_restarts() {
    let setup = Setup::config(one_at_a_time);
    let gateway = setup.start();
    let caller = gateway.caller();
    for _ in 0..3 {
        caller.call_task("only_slow_read_only", json!({})).await;
    }
    setup.until_called(1).await;
    let mut waiting = Vec::new();
    for number in 0..4 {
        waiting.push(caller.call_task("only_number", json!({"number": number})).await);
    }
    gateway.kill();
    for _ in 0..2 {
        let before = setup.calls().len();
        let gateway = setup.start();
        // One that may be repeated is under way, and so no other one.
        let is_slow = |calls: &[String]| calls.len() > before && calls.last().is_some_and(|last| last.contains("slow"));
        until("a slow call", || is_slow(&setup.calls())).await;
        gateway.kill();
    }
    let gateway = setup.start();
    let caller = gateway.caller();
    for id in waiting {
        let task = ended(&caller, &id).await;
        assert_eq!(task["status"], "completed", "{task}");
    }
    let mut numbers = setup.lines("numbers");
    numbers.sort();
    assert_eq!(numbers, ["0", "1", "2", "3"]);
}

#[tokio::test]
async fn calls_of_a_slow_server_do_not_keep_those_of_another_from_starting() {
    let (_setup, gateway) = Setup::config(one_at_a_time).running();
    let caller = gateway.caller();
    for _ in 0..40 {
        caller.call_task("only_never", json!({})).await;
    }
    assert!(words(&gateway.ended("quick_count", json!({})).await).starts_with("done: "));
}

#[tokio::test]
async fn names_that_clients_cannot_pass_on_are_named_at_the_start() {
    let server = "enterprise-database-management-of-everything-there-is";
    let (_setup, gateway) = Setup::config(
        |setup| json!({"mcpServers": {server: setup.fixture_entry(&[]), "short": setup.fixture_entry(&[])}}),
    )
    .running();
    let log = gateway.log();
    let line = log.lines().find(|line| line.contains("too long for usual clients")).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains(&format!("{server}_count")) && line.contains("`prefix`"), "{line}");
    assert!(!line.contains("short_count"), "{line}");
}
