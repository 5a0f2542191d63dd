//! Lists of servers that change while the gateway runs.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::answers::write;
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

/// A gateway in front of a server with these answers, and the names of the tools that it serves.
async fn served(files: &[(&str, &str)]) -> (Setup, Gateway, Vec<String>) {
    let (setup, gateway, caller) = Setup::config(|setup| {
        write(setup, "tools.call.good", br#"{"jsonrpc":"2.0","id":%d,"result":{}}"#);
        for (name, answer) in files {
            write(setup, name, answer.as_bytes());
        }
        json!({"mcpServers": {"only": setup.server("scripted", &[])}})
    })
    .begun();
    let listed = caller.result("tools/list", json!({})).await;
    let names = listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
    let names = names.collect();
    (setup, gateway, names)
}

fn answer(result: &Value) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":%d,"result":{result}}}"#)
}

fn greeting(more: Value) -> String {
    let mut result = json!({"protocolVersion": "2025-11-25", "serverInfo": {"name": "s", "version": "1"}});
    result.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    answer(&result)
}

#[tokio::test]
async fn one_bad_tool_is_left_out_alone_and_named() {
    let good = json!({"name": "good", "inputSchema": {"type": "object"}});
    for (bad, words, is_served) in [
        (json!({"name": "bad"}), "inputSchema", false),
        (json!({"name": "bad", "inputSchema": 7}), "inputSchema", false),
        (json!({"inputSchema": {}}), "name", false),
        (json!("bad"), "a text", false),
        (json!({"name": "", "inputSchema": {}}), "an empty name", false),
        (json!({"name": "bad", "inputSchema": {}, "annotations": {"readOnlyHint": "true"}}), "readOnlyHint", true),
        (json!({"name": "bad", "inputSchema": {}, "title": 7, "outputSchema": true}), "outputSchema", true),
        (json!({"name": "bad", "inputSchema": {}, "icons": "x", "_meta": []}), "icons", true),
        (json!({"name": "bad".repeat(60), "inputSchema": {}}), "choose a shorter `prefix`", false),
        (json!({"name": "good", "inputSchema": {"title": "another"}}), "twice", false),
    ] {
        let list = answer(&json!({"tools": [bad, good], "nextCursor": null, "ttlMs": "soon"}));
        let (_setup, gateway, mut names) = served(&[("tools.list", &list)]).await;
        names.sort();
        let expected: &[&str] = if is_served { &["bad", "good"] } else { &["good"] };
        assert_eq!(names, expected, "{bad}");
        assert!(gateway.log().contains(words), "{words}: {}", gateway.log());
    }
}

#[tokio::test]
async fn a_server_that_says_little_of_itself_is_served() {
    for more in [
        json!({"capabilities": {}}),
        json!({}),
        json!({"capabilities": null, "serverInfo": null}),
        json!({"capabilities": {"tools": true, "logging": {}}}),
        json!({"capabilities": {"tools": {"listChanged": "yes"}}, "serverInfo": {"name": "s"}}),
        json!({"capabilities": {"tools": {}}, "protocolVersion": "2099-01-01"}),
        json!({"capabilities": {"tools": {}}, "protocolVersion": "draft"}),
    ] {
        let (_setup, gateway, names) = served(&[("initialize", &greeting(more.clone()))]).await;
        assert_eq!(names, ["good"], "{more}");
        let task = gateway.ended("good", json!({})).await;
        assert_eq!(task["status"], "completed", "{more}: {task}");
        assert!(!gateway.log().contains("tried again"), "{more}: {}", gateway.log());
    }
}

#[tokio::test]
async fn a_list_whose_cursor_leads_nowhere_has_an_end() {
    for cursor in ["", "again"] {
        let good = json!({"name": "good", "inputSchema": {"type": "object"}});
        let list = answer(&json!({"tools": [good], "nextCursor": cursor}));
        let (_setup, _gateway, names) = served(&[("tools.list", &list)]).await;
        assert_eq!(names, ["good"]);
    }
}

#[tokio::test]
async fn a_list_that_a_server_declares_and_does_not_have_is_empty() {
    let greeting = greeting(json!({"capabilities": {"tools": {}, "prompts": {}, "resources": {}}}));
    for error in
        [json!({"code": -32601, "message": "Method not found"}), json!({"code": -32603, "message": "Not implemented"})]
    {
        let none = format!(r#"{{"jsonrpc":"2.0","id":%d,"error":{error}}}"#);
        let files = [("initialize", greeting.as_str()), ("prompts.list", &none), ("resources.list", &none)];
        let (_setup, gateway, names) = served(&files).await;
        assert_eq!(names, ["good"]);
        assert!(gateway.log().contains("declares a list that it does not have"), "{}", gateway.log());
    }
}

#[tokio::test]
async fn a_server_that_lists_nothing_is_named() {
    let none = r#"{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,"message":"Method not found"}}"#;
    let nothing = greeting(json!({"capabilities": {}}));
    let (setup, gateway, names) = served(&[("initialize", &nothing), ("tools.list", none)]).await;
    assert!(names.is_empty());
    assert!(gateway.log().contains("lists nothing"), "{}", gateway.log());
    let said = setup.lock_refusal();
    assert!(said.contains("the server `only` lists nothing"), "{said}");
}

#[tokio::test]
async fn one_server_that_is_away_keeps_no_other_from_starting() {
    let (setup, gateway, caller) = Setup::config(|setup| {
        write(setup, "tools.call.good", br#"{"jsonrpc":"2.0","id":%d,"result":{}}"#);
        let away = json!({"command": setup.path("away"), "args": ["scripted", setup.path("")]});
        json!({
            "mcpServers": {"there": setup.server("scripted", &[]), "away": away},
            "longhaul": {"servers": {"away": {"tools": {"good": {"repeat": "never"}}}}}
        })
    })
    .begun();
    assert_eq!(gateway.ended("there_good", json!({})).await["status"], "completed");
    assert!(gateway.log().contains("a server is left out until it can be used"), "{}", gateway.log());
    std::os::unix::fs::symlink(fixture(), setup.path("away")).unwrap();
    let is_back = async || {
        let listed = caller.result("tools/list", json!({})).await;
        listed["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "away_good")
    };
    while !is_back().await {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(gateway.ended("away_good", json!({})).await["status"], "completed");
}
