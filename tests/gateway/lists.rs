//! Lists of servers that change while the gateway runs.

use std::time::{Duration, Instant};

use serde_json::json;

use super::process::{Gateway, Setup, fixture, words};

/// A gateway in front of the fixture that can change, in these modes.
fn changing(modes: &[&str]) -> Setup {
    Setup::config(|setup| json!({"mcpServers": {"only": setup.server("pool", modes)}}))
}

async fn has_tool(gateway: &Gateway, name: &str) -> bool {
    let listed = gateway.caller().result("tools/list", json!({})).await;
    listed["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == name)
}

async fn until_it_has(gateway: &Gateway, name: &str) {
    let begun = Instant::now();
    while !has_tool(gateway, name).await {
        assert!(begun.elapsed() < Duration::from_secs(60), "waited for {name}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Asks for the lists until something is in the log.
async fn until_logged(gateway: &Gateway, what: &str) {
    let begun = Instant::now();
    while !gateway.log().contains(what) {
        assert!(begun.elapsed() < Duration::from_secs(60), "waited for {what}");
        has_tool(gateway, "who").await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// A server in these modes gets a tool by a call of this one.
async fn a_tool_that_comes_later_is_served(modes: &[&str], change: &str) {
    let (_setup, gateway) = changing(modes).running();
    assert!(!has_tool(&gateway, "more").await);
    gateway.ended(change, json!({})).await;
    until_it_has(&gateway, "more").await;
    assert!(words(&gateway.ended("more", json!({})).await).ends_with(" 1"));
}

#[tokio::test]
async fn a_tool_that_a_server_announces_is_served_as_a_task_too() {
    a_tool_that_comes_later_is_served(&[], "change").await;
}

#[tokio::test]
async fn a_tool_that_a_server_has_silently_is_served_when_its_list_holds_no_longer() {
    a_tool_that_comes_later_is_served(&["--ttl"], "change_silently").await;
}

#[tokio::test]
async fn a_server_that_cannot_be_started_any_more_keeps_its_lists() {
    let setup = Setup::config(|setup| {
        std::os::unix::fs::symlink(fixture(), setup.path("server")).unwrap();
        let mut entry = setup.server("pool", &[]);
        entry["command"] = json!(setup.path("server"));
        json!({"mcpServers": {"only": entry}})
    });
    let gateway = setup.start();
    gateway.ended("change", json!({})).await;
    std::fs::remove_file(setup.path("server")).unwrap();
    until_logged(&gateway, "a server keeps its last lists").await;
    assert!(has_tool(&gateway, "who").await);
}

#[tokio::test]
async fn a_new_tool_takes_the_name_of_no_other() {
    let setup = Setup::config(|setup| {
        let servers = json!({"a": setup.server("pool", &[]), "b": setup.server("pool", &["--only-more"])});
        json!({"mcpServers": servers, "longhaul": {"servers": {"a": {"prefix": ""}, "b": {"prefix": ""}}}})
    });
    let gateway = setup.start();
    gateway.ended("change", json!({})).await;
    until_logged(&gateway, "something new is left out of the lists").await;
    assert!(gateway.log().contains("the tool `more` is in both `b` and `a`"), "{}", gateway.log());
    let listed = gateway.caller().result("tools/list", json!({})).await;
    let names = listed["tools"].as_array().unwrap().iter().filter(|tool| tool["name"] == "more");
    assert_eq!(names.count(), 1);
}
