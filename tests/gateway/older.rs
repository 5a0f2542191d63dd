//! Clients of older revisions.

use serde_json::{Value, json};

use crate::process::{Gateway, Setup, script};

/// Calls a tool as a client of `2025-06-18`, and returns its result.
async fn call(gateway: &Gateway, tool: &str) -> Value {
    let http = reqwest::Client::new();
    let send = |id: u32, method: &str, params: Value| {
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        http.post(gateway.url()).header("accept", "application/json, text/event-stream").json(&body)
    };
    let client = json!({"name": "older", "version": "1"});
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    let begun = send(1, "initialize", hello).send().await.unwrap();
    let session = begun.headers()["mcp-session-id"].clone();
    let call = send(2, "tools/call", json!({"name": tool, "arguments": {}})).header("mcp-session-id", session);
    let answer = call.header("mcp-protocol-version", "2025-06-18").send().await.unwrap().text().await.unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    answer["result"].clone()
}

/// A gateway in front of a server of `2026-07-28`, and what the first messages to it are.
fn in_front_of(modes: &[&str], repeat: &str) -> Setup {
    Setup::config(|setup| {
        let args: Vec<String> = [script("per_request_fixture.py"), setup.path("")].into_iter().collect();
        let args: Vec<&str> = args.iter().map(String::as_str).chain(modes.iter().copied()).collect();
        let longhaul = json!({"defaults": {"repeat": repeat}});
        json!({"mcpServers": {"only": {"command": "python3", "args": args}}, "longhaul": longhaul})
    })
}

fn first_messages(setup: &Setup) -> Vec<String> {
    let noted = std::fs::read_to_string(setup.path("first")).unwrap();
    noted.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_server_of_both_eras_is_called_in_that_of_the_caller_if_the_call_may_be_repeated() {
    for (repeat, first) in [("always", "initialize"), ("never", "server/discover")] {
        let setup = in_front_of(&["--both"], repeat);
        let gateway = setup.start();
        assert_eq!(call(&gateway, "count").await["content"][0]["text"], "done: 1");
        gateway.caller().call("count", json!({})).await;
        assert_eq!(first_messages(&setup), ["server/discover", first, "server/discover"], "{repeat}");
    }
}

#[tokio::test]
async fn a_server_of_the_newer_era_only_is_asked_once_whether_it_speaks_the_older_one() {
    let setup = in_front_of(&[], "always");
    let gateway = setup.start();
    for answer in ["done: 1", "done: 2"] {
        assert_eq!(call(&gateway, "count").await["content"][0]["text"], answer);
    }
    let discover = "server/discover";
    assert_eq!(first_messages(&setup), [discover, "initialize", discover, discover]);
}
