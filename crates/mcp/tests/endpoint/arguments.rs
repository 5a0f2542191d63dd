//! Arguments that do not match the input schema of their tool: refused at once in every protocol version, without a
//! task.

use std::collections::BTreeMap;

use longhaul_core::OwnerId;
use longhaul_mcp::{McpServer, McpSettings, TaskPolicy};
use rmcp::ServerHandler;
use rmcp::model::Tool;
use serde_json::{Value, json};

use crate::older_client::Older;
use crate::schema;
use crate::world::{Answer, Sent, World, alice, no_tasks, read};

const WRONG: &str = "The arguments of `add` are not valid: `a` must be an integer, not \"one\".";

fn wrong() -> Value {
    json!({"a": "one", "b": 2})
}

async fn has_no_task(world: &World, owner: &OwnerId) {
    let tasks = world.engine.list(owner, None, 10).await.unwrap().tasks;
    assert!(tasks.is_empty(), "{tasks:?}");
}

/// The text that a model reads.
fn text(answer: &Answer) -> String {
    let result = answer.result();
    assert_eq!((&result["isError"], result.get("structuredContent")), (&json!(true), None));
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_newest_revision_answers_with_a_result_that_a_model_can_read() {
    let world = World::new();
    for capabilities in [crate::world::everything(), no_tasks()] {
        let answer = world.send(&Sent::call("add", wrong()).declaring(capabilities)).await;
        schema::is("2026-07-28", "CallToolResult", &answer.result());
        assert_eq!(text(&answer), WRONG);
    }
    let answer = world.send(&Sent::call("add", json!({"b": 2}))).await;
    assert_eq!(text(&answer), "The arguments of `add` are not valid: `a` is missing; it must be an integer.");
    let mut sent = Sent::call("add", json!({}));
    sent.body["params"].as_object_mut().unwrap().remove("arguments");
    assert!(text(&world.send(&sent).await).contains("`b` is missing"));
    has_no_task(&world, &alice()).await;
}

#[tokio::test]
async fn older_revisions_answer_with_a_result_or_an_error_as_each_wants_it() {
    let (world, client) = Older::in_new_world("2025-11-25").await;
    let answer = world.send(&client.call("add", wrong())).await;
    schema::is("2025-11-25", "CallToolResult", &answer.result());
    assert_eq!(text(&answer), WRONG);
    for revision in ["2025-06-18", "2025-03-26", "2024-11-05"] {
        let client = Older::connect(&world.mcp, revision).await;
        let params = json!({"name": "add", "arguments": wrong()});
        assert_eq!(client.error(&world.mcp, "tools/call", params).await, (-32602, WRONG.to_owned()), "{revision}");
    }
    has_no_task(&world, &alice()).await;
}

#[tokio::test]
async fn calls_that_ask_for_a_task_an_operation_or_a_token_are_refused_with_an_error() {
    let (world, core) = Older::in_new_world("2025-11-25").await;
    let next = Older::connect(&world.mcp, "next").await;
    for (client, method, params) in [
        (&core, "tools/call", json!({"name": "add", "arguments": wrong(), "task": {}})),
        (&core, "tools/async/call", json!({"name": "add", "arguments": wrong()})),
        (&next, "tools/call", json!({"name": "add", "arguments": wrong(), "operation": {"token": "t"}})),
    ] {
        assert_eq!(client.error(&world.mcp, method, params).await, (-32602, WRONG.to_owned()));
    }
    has_no_task(&world, &alice()).await;
    // The token was not used.
    let params = json!({"name": "add", "arguments": {"a": 1, "b": 2}, "operation": {"token": "t"}});
    client_accepts(&next, &world, params).await;
}

async fn client_accepts(client: &Older, world: &World, params: Value) {
    let accepted = client.result(&world.mcp, "tools/call", params).await;
    assert_eq!(accepted["operation"]["token"], "t", "{accepted}");
}

#[tokio::test]
async fn an_idempotency_key_is_not_used_up_by_a_refused_call() {
    let world = World::new();
    let with_key = |arguments| Sent::call("add", arguments).with_header("idempotency-key", "k");
    assert_eq!(text(&world.send(&with_key(wrong())).await), WRONG);
    assert_eq!(world.result(&with_key(json!({"a": 1, "b": 2}))).await["resultType"], "task");
}

#[tokio::test]
async fn a_tool_without_a_policy_checks_its_arguments_itself() {
    let world = World::plain();
    let answer = text(&world.send(&Sent::call("add", wrong())).await);
    assert!(answer.starts_with("failed to deserialize parameters"), "{answer}");
}

/// Whose only tool has a schema that refers to another document.
struct Unusable;

impl ServerHandler for Unusable {
    fn get_tool(&self, name: &str) -> Option<Tool> {
        let schema = json!({"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}});
        (name == "takes").then(|| Tool::new("takes", "", schema.as_object().cloned().unwrap_or_default()))
    }
}

/// A function compiles a schema at the first call.
#[tokio::test]
async fn a_tool_whose_schema_cannot_be_used_is_not_called() {
    let world = World::new();
    let policies = BTreeMap::from([("takes".to_owned(), TaskPolicy::optional())]);
    let server = McpServer::new(|| Unusable, policies, world.engine.clone(), McpSettings::new([7; 32]));
    for _ in 0..2 {
        let answer = read(server.respond(Sent::call("takes", json!({"a": 1})).request(), alice()).await).await;
        let error = json!({"code": -32603, "message": "the input schema of `takes` cannot be used"});
        assert_eq!(answer.json()["error"], error, "{}", answer.text);
    }
    has_no_task(&world, &alice()).await;
}
