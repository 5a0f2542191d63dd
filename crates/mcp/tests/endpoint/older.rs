//! Revisions with a handshake: sessions that no server stores, and questions in the middle of a call.

use longhaul_mcp::{McpServer, McpSettings};
use serde_json::{Value, json};

use crate::older_client::{Older, REVISION, another_instance, everything, initialize};
use crate::schema;
use crate::world::{Sent, World, alice, bob};

const REVISIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

fn second(world: &World) -> McpServer {
    another_instance(world, McpSettings::new([7; 32]))
}

#[tokio::test]
async fn a_session_is_read_by_any_instance() {
    let world = World::plain();
    for revision in REVISIONS {
        let client = Older::connect(&world.mcp, revision).await;
        schema::is(REVISION, "InitializeResult", &client.initialized);
        assert_eq!(client.initialized["protocolVersion"], revision);
        let params = json!({"name": "add", "arguments": {"a": 1, "b": 2}});
        let result = client.result(&second(&world), "tools/call", params).await;
        schema::is(REVISION, "CallToolResult", &result);
        assert_eq!(result["content"][0]["text"], "3");
        assert_eq!(result.get("resultType"), None, "older revisions do not know it");
    }
}

#[tokio::test]
async fn a_session_stays_short_whatever_a_client_declares() {
    let world = World::new();
    let mut capabilities = everything();
    capabilities["experimental"] = json!({"x": {"y": "z".repeat(100_000)}});
    let client = Older::connect_as(&world.mcp, "2025-06-18", alice(), capabilities).await;
    assert!(client.session.len() < 4_096, "{}", client.session.len());
}

#[tokio::test]
async fn a_handshake_that_fails_begins_no_session() {
    let world = World::new();
    let mut sent = initialize("2025-06-18", json!({}));
    sent.body["params"] = json!({"protocolVersion": 7});
    let answer = world.send(&sent).await;
    assert!(answer.json().get("error").is_some());
    assert_eq!(answer.headers.get("mcp-session-id"), None);
}

#[tokio::test]
async fn a_request_without_a_session_is_served_by_its_header() {
    let world = World::new();
    let sent = Sent::new("tools/list", json!({})).legacy("2025-06-18").without_header("mcp-protocol-version");
    schema::is(REVISION, "ListToolsResult", &world.result(&sent).await);
}

#[tokio::test]
async fn older_clients_do_not_see_tasks() {
    let world = World::new();
    for revision in ["2025-03-26", "2025-06-18"] {
        let client = Older::connect(&world.mcp, revision).await;
        assert_eq!(client.initialized["capabilities"].get("tasks"), None);
        let of_others = ["tools/async/status", "tools/async/result"];
        for method in
            ["tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update"].into_iter().chain(of_others)
        {
            assert_eq!(client.error(&world.mcp, method, json!({"taskId": "x"})).await.0, -32601, "{method}");
        }
        let mut call = client.call("add", json!({"a": 1, "b": 2}));
        call.body["params"]["task"] = json!({"ttl": 1});
        assert_eq!(world.served(&call).await.result()["content"][0]["text"], "3", "the field means nothing here");
    }
}

#[tokio::test]
async fn a_tool_is_listed_with_the_fields_that_its_clients_revision_has() {
    let world = World::new();
    let mut known = vec!["name", "description", "inputSchema"];
    for (revision, new) in [
        ("2024-11-05", vec![]),
        ("2025-03-26", vec!["annotations"]),
        ("2025-06-18", vec!["outputSchema", "title"]),
        ("2025-11-25", vec!["execution"]),
    ] {
        known.extend(&new);
        let client = Older::connect(&world.mcp, revision).await;
        let listed = client.result(&world.mcp, "tools/list", json!({})).await;
        let tools = listed["tools"].as_array().unwrap();
        for tool in tools {
            let fields: Vec<_> = tool.as_object().unwrap().keys().collect();
            assert!(fields.iter().all(|field| known.contains(&field.as_str())), "{revision}: {fields:?}");
        }
        let at_once = tools.iter().find(|tool| tool["name"] == "at_once").unwrap();
        assert!(new.iter().all(|field| at_once.get(field).is_some()), "{revision}: {at_once}");
    }
}

/// The tool's questions arrive on the stream of the call; the answers are posted to another instance.
#[expect(clippy::disallowed_methods, reason = "reads the stream while the test does something else")]
async fn asks_twice(tool: &str, revision: &str) -> Value {
    let world = World::plain();
    let client = Older::connect(&world.mcp, revision).await;
    let mut stream = client.stream(&world.mcp, &client.call(tool, json!({}))).await;
    // Read on, as a connection is, while the answers are posted.
    let (to_test, mut messages) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(message) = stream.next().await {
            to_test.send(message).unwrap();
        }
    });
    let first = messages.recv().await.unwrap();
    let second_instance = second(&world);
    world.while_time_passes(client.fill_in(&second_instance, &first, "one")).await;
    let second = world.while_time_passes(messages.recv()).await.unwrap();
    assert_ne!(first["id"], second["id"]);
    assert_eq!(first["params"].get("_meta"), None, "nothing that only the server understands");
    world.while_time_passes(client.fill_in(&second_instance, &second, "two")).await;
    let last = world.while_time_passes(messages.recv()).await.unwrap();
    assert_eq!(messages.recv().await, None);
    assert_eq!(last["id"], 7);
    last["result"].clone()
}

#[tokio::test]
async fn a_tool_asks_its_client_in_the_middle_of_a_plain_call() {
    for revision in REVISIONS {
        let result = asks_twice("old_style", revision).await;
        schema::is(REVISION, "CallToolResult", &result);
        assert_eq!(result["content"][0]["text"], "one and two");
    }
}

#[tokio::test]
async fn a_tool_that_asks_through_its_context_does_so_too() {
    assert_eq!(asks_twice("after_input", "2025-06-18").await["content"][0]["text"], "one likes two");
    assert_eq!(asks_twice("asks_side_by_side", "2025-11-25").await["content"][0]["text"], "one likes two");
}

#[tokio::test]
async fn the_first_answer_counts() {
    let world = World::plain();
    let client = Older::connect(&world.mcp, "2025-06-18").await;
    let mut stream = client.stream(&world.mcp, &client.call("reports", json!({}))).await;
    let asked = stream.next().await.unwrap();
    assert_eq!(
        client.reply(&world.mcp, &asked["id"], ("error", json!({"code": -1, "message": "no window"}))).await,
        202
    );
    let too_late = ("result", json!({"action": "accept", "content": {"value": "x"}}));
    assert_eq!(client.reply(&world.mcp, &asked["id"], too_late).await, 400);
    let last = world.while_time_passes(stream.next()).await.unwrap();
    assert_eq!(last["error"]["message"], "no window");
}

#[tokio::test]
async fn an_answer_counts_for_its_own_question_and_owner_only() {
    let world = World::plain();
    let client = Older::connect(&world.mcp, "2025-06-18").await;
    let mut stream = client.stream(&world.mcp, &client.call("reports", json!({}))).await;
    let asked = stream.next().await.unwrap();
    let accept = || ("result", json!({"action": "accept", "content": {"value": "x"}}));
    let mallory = Older::connect_as(&world.mcp, "2025-06-18", bob(), everything()).await;
    assert_eq!(mallory.reply(&world.mcp, &asked["id"], accept()).await, 400);
    for id in [json!(0), json!("0"), json!("made.up"), json!(client.session)] {
        assert_eq!(client.reply(&world.mcp, &id, accept()).await, 400, "{id}");
    }
}

#[tokio::test]
async fn a_client_that_never_answers_does_not_hold_its_call_open_forever() {
    let world = World::plain();
    let client = Older::connect(&world.mcp, "2025-06-18").await;
    let mut stream = client.stream(&world.mcp, &client.call("reports", json!({}))).await;
    stream.next().await.unwrap();
    let last = world.while_time_passes(stream.next()).await.unwrap();
    assert_eq!(last["error"]["message"], "the client did not answer in time");
}
