//! Another configuration while the gateway runs, and lists that change: the notifications that clients get.

use std::time::Duration;

use serde_json::{Value, json};

use super::older::Older;
use super::process::{Gateway, Setup, ended, until};
use super::subscriptions::Hearing;

fn pool(setup: &Setup, hidden: &[&str]) -> Value {
    let section = if hidden.is_empty() { json!({}) } else { json!({"hidden": hidden}) };
    json!({
        "mcpServers": {"only": setup.server("pool", &[])},
        "longhaul": {"defaults": {"handleAfter": "0s"}, "servers": {"only": section}}
    })
}

/// A stream of a client of `2026-07-28` that is notified of changed lists of tools.
async fn hearing_of_tools(gateway: &Gateway) -> Hearing {
    let params = json!({"notifications": {"toolsListChanged": true}});
    let answer = gateway.caller().request("subscriptions/listen", params).send().await.unwrap();
    let mut hearing = Hearing::new(answer);
    let first = hearing.next().await.unwrap();
    assert_eq!(first["params"]["notifications"]["toolsListChanged"], true, "{first}");
    hearing
}

async fn until_told(hearing: &mut Hearing) {
    let told = async { while hearing.next().await.unwrap()["method"] != "notifications/tools/list_changed" {} };
    tokio::time::timeout(Duration::from_secs(60), told).await.unwrap();
}

#[tokio::test]
async fn clients_of_all_revisions_hear_that_a_server_has_another_list() {
    let (_setup, gateway, caller) = Setup::config(|setup| pool(setup, &[])).begun();
    let declared = caller.result("server/discover", json!({})).await;
    assert_eq!(declared["capabilities"]["tools"]["listChanged"], true, "{declared}");
    let mut newer = hearing_of_tools(&gateway).await;
    let older = Older::begin(&gateway).await;
    let mut stream = older.stream().await;
    gateway.ended("change", json!({})).await;
    // No client asks for the list.
    until_told(&mut newer).await;
    until_told(&mut stream).await;
    assert!(gateway.tools().await.contains(&"more".to_owned()));
}

#[tokio::test]
async fn a_hangup_has_the_configuration_read_again_and_clients_hear_of_it() {
    let (setup, gateway, caller) = Setup::config(|setup| pool(setup, &[])).begun();
    let mut hearing = hearing_of_tools(&gateway).await;
    let slow = caller.call_task("slow", json!({})).await;
    setup.until_called(1).await;
    setup.configure(&pool(&setup, &["slow"]));
    gateway.hang_up();
    until_told(&mut hearing).await;
    assert!(!gateway.tools().await.contains(&"slow".to_owned()));
    assert_eq!(ended(&caller, &slow).await["status"], "completed", "it began before");
    assert_eq!(setup.calls(), ["slow"]);
}

#[tokio::test]
async fn a_configuration_that_cannot_be_used_changes_nothing() {
    let (setup, gateway) = Setup::config(|setup| pool(setup, &[])).running();
    let before = gateway.tools().await;
    let wrong = [
        (json!({"mcpServers": {"only": {"comand": "x"}}}), "it has neither `command` nor `url`"),
        (pool(&setup, &["slwo"]), "did you mean `slow`?"),
        (json!({"mcpServers": {"other": {"command": "no-such-command"}}}), "was not found"),
    ];
    for (config, words) in wrong {
        setup.configure(&config);
        gateway.hang_up();
        until("the refusal", || gateway.log().contains(words)).await;
        assert_eq!(gateway.tools().await, before);
    }
    assert!(gateway.log().contains("the configuration is refused, and the running one stays"));
    assert_eq!(gateway.ended("who", json!({})).await["status"], "completed");
}

#[tokio::test]
async fn a_server_that_is_new_in_the_configuration_is_started() {
    let (setup, gateway) = Setup::config(|setup| pool(setup, &[])).running();
    let mut config = pool(&setup, &[]);
    config["mcpServers"]["second"] = setup.fixture_entry(&[]);
    config["longhaul"]["servers"]["only"]["prefix"] = json!("");
    setup.configure(&config);
    gateway.hang_up();
    until("another configuration", || gateway.log().contains("the configuration was read again")).await;
    assert_eq!(gateway.ended("second_count", json!({})).await["status"], "completed");
    assert_eq!(gateway.ended("who", json!({})).await["status"], "completed");
}
