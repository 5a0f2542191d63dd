//! SEP-1391: operations named by tokens, each message checked against the proposal.

use longhaul_mcp::{McpServer, McpSettings};
use serde_json::{Value, json};

use crate::older_client::{Older, Stream, another_instance, everything};
use crate::schema;
use crate::world::{Sent, World, bob};

async fn connect(world: &World) -> Older {
    Older::connect(&world.mcp, "next").await
}

async fn connected() -> (World, Older) {
    let world = World::new();
    let client = connect(&world).await;
    (world, client)
}

fn second(world: &World) -> McpServer {
    another_instance(world, McpSettings::new([7; 32]))
}

fn call(tool: &str, arguments: Value, operation: Value) -> Value {
    json!({"name": tool, "arguments": arguments, "operation": operation})
}

async fn start(client: &Older, world: &World, params: Value) -> Value {
    let accepted = client.result(&world.mcp, "tools/call", params).await;
    schema::is("operations", "AcceptedCallToolResult", &accepted);
    accepted
}

async fn status(client: &Older, server: &McpServer, token: &str) -> Value {
    let status = client.result(server, "tools/async/status", json!({"token": token})).await;
    schema::is("operations", "GetOperationStatusResult", &status);
    assert_eq!(status["_operation"]["token"], token);
    status
}

async fn word(client: &Older, world: &World, token: &str) -> String {
    status(client, &world.mcp, token).await["status"].as_str().unwrap().to_owned()
}

async fn error(client: &Older, world: &World, method: &str, params: Value) -> (i64, String) {
    client.error(&world.mcp, method, params).await
}

#[tokio::test]
async fn a_tool_has_an_invocation_mode_for_new_clients_only() {
    let world = World::new();
    let listed = connect(&world).await.result(&world.mcp, "tools/list", json!({})).await;
    schema::is("operations", "ListToolsResult", &listed);
    let tools = listed["tools"].as_array().unwrap();
    let mode = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap().get("invocationMode");
    assert_eq!(mode("add"), Some(&json!("async")), "a hybrid tool");
    assert_eq!(mode("only_task"), Some(&json!("async")), "an async-only tool");
    assert_eq!(mode("at_once"), None, "a synchronous tool");
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let client = Older::connect(&world.mcp, revision).await;
        let listed = client.result(&world.mcp, "tools/list", json!({})).await;
        assert!(!listed.to_string().contains("invocationMode"), "{revision}");
        let shown = |name: &str| listed["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == name);
        assert!(shown("add"), "{revision}");
        assert_eq!(shown("only_task"), revision == "2025-11-25", "{revision}: it has tasks of its own");
    }
}

#[tokio::test]
async fn an_operation_is_submitted_then_working_then_completed_and_its_result_is_fetched() {
    let (world, client) = connected().await;
    let accepted = start(&client, &world, call("sleeps", json!({"ms": 60_000}), json!({"token": "t1"}))).await;
    let operation = &accepted["operation"];
    assert_eq!((&operation["token"], &operation["status"]), (&json!("t1"), &json!("submitted")));
    assert_eq!((&operation["keepAlive"], &operation["pollFrequency"]), (&json!(1800), &json!(1)), "whole seconds");
    assert_eq!(accepted["content"], json!([]));
    assert_eq!(word(&client, &world, "t1").await, "submitted");
    let early = error(&client, &world, "tools/async/result", json!({"token": "t1"})).await;
    assert_eq!(early, (-32602, "Failed to retrieve operation: Operation is still submitted".to_owned()));
    world.work().await;
    assert_eq!(word(&client, &world, "t1").await, "working");
    world.clock.advance_ms(60_000);
    world.work().await;
    // Another instance knows the token too, and the result can be fetched again and again.
    assert_eq!(status(&client, &second(&world), "t1").await["status"], "completed");
    for _ in 0..2 {
        let fetched = client.result(&second(&world), "tools/async/result", json!({"token": "t1"})).await;
        schema::is("operations", "GetOperationPayloadResult", &fetched);
        assert_eq!(fetched["result"]["content"][0]["text"], "attempt 2");
    }
}

/// Such a call once ran as a plain call, as if it had not asked for an operation.
#[tokio::test]
async fn a_call_that_cannot_be_read_starts_nothing() {
    let (world, client) = connected().await;
    for tool in ["add", "only_task"] {
        for operation in [json!({"token": 5}), json!({"token": ["t"]}), json!("t"), json!(true)] {
            let params = call(tool, json!({"a": 1, "b": 2}), operation);
            let (code, message) = error(&client, &world, "tools/call", params).await;
            assert_eq!(code, -32602, "{message}");
            assert!(message.contains("`operation`"), "{message}");
        }
        let params = json!({"name": tool, "arguments": [1, 2], "operation": {"token": "t"}});
        assert_eq!(error(&client, &world, "tools/call", params).await.0, -32602);
    }
    assert_eq!(error(&client, &world, "tools/async/status", json!({"token": "t"})).await.0, -32602);
}

#[tokio::test]
async fn a_client_that_sends_no_token_gets_one() {
    let (world, client) = connected().await;
    for params in [
        json!({"name": "add", "arguments": {"a": 1, "b": 2}}),
        call("add", json!({"a": 1, "b": 2}), json!({"keepAlive": 60})),
        json!({"request": {"name": "add", "arguments": {"a": 1, "b": 2}}, "operation": {"keepAlive": 3600}}),
    ] {
        let accepted = start(&client, &world, params).await;
        let token = accepted["operation"]["token"].as_str().unwrap().to_owned();
        assert_eq!(accepted["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], token);
        world.work().await;
        let fetched = client.result(&world.mcp, "tools/async/result", json!({"token": token})).await;
        assert_eq!(fetched["result"]["content"][0]["text"], "3");
    }
}

#[tokio::test]
async fn a_token_starts_one_operation_and_belongs_to_its_owner() {
    let (world, client) = connected().await;
    let params = call("add", json!({"a": 1, "b": 2}), json!({"token": "t"}));
    let id = start(&client, &world, params.clone()).await["_meta"]["io.modelcontextprotocol/related-task"]["taskId"]
        .as_str()
        .unwrap()
        .to_owned();
    let other = call("steps", json!({}), json!({"token": "t"}));
    for params in [params.clone(), other, call("add", json!({"a": 1, "b": 2}), json!({"token": id}))] {
        let (code, message) = error(&client, &world, "tools/call", params).await;
        assert_eq!((code, message.as_str()), (-32602, "Failed to start operation: the token was already used"));
    }
    for token in [json!(""), json!("x".repeat(257))] {
        let params = call("add", json!({"a": 1, "b": 2}), json!({"token": token}));
        assert_eq!(error(&client, &world, "tools/call", params).await.0, -32602);
    }
    let anonymous_caller = Older::connect_as(&world.mcp, "next", bob(), everything()).await;
    for method in ["tools/async/status", "tools/async/result"] {
        for (client, token) in [(&anonymous_caller, "t"), (&anonymous_caller, &*id), (&client, "u"), (&client, "")] {
            let (code, message) = error(client, &world, method, json!({"token": token})).await;
            assert_eq!((code, message.as_str()), (-32602, "Failed to retrieve operation: Operation not found"));
        }
        for params in [json!({}), json!({"token": 7})] {
            assert_eq!(error(&client, &world, method, params).await.0, -32602);
        }
    }
    start(&anonymous_caller, &world, params).await;
}

#[tokio::test]
async fn keep_alive_counts_from_the_end_and_the_negotiated_time_is_returned() {
    let (world, client) = connected().await;
    for (asked, negotiated) in [(json!(7200), 7_200), (json!(1), 1_800), (Value::Null, 86_400), (json!(1e12), 86_400)] {
        let params = call("sleeps", json!({"ms": 600_000}), json!({"keepAlive": asked}));
        assert_eq!(start(&client, &world, params).await["operation"]["keepAlive"], negotiated, "{asked}");
    }
    for wrong in [json!(-1), json!("1"), json!(1e300)] {
        let params = call("sleeps", json!({"ms": 1}), json!({"keepAlive": wrong}));
        assert_eq!(error(&client, &world, "tools/call", params).await.0, -32602, "{wrong}");
    }
    let params = call("sleeps", json!({"ms": 600_000}), json!({"token": "t", "keepAlive": 7_200}));
    start(&client, &world, params).await;
    world.work().await;
    world.clock.advance_ms(600_000);
    world.work().await;
    world.clock.advance_ms(7_199_000);
    assert_eq!(word(&client, &world, "t").await, "completed");
    world.clock.advance_ms(1_000);
    assert_eq!(error(&client, &world, "tools/async/result", json!({"token": "t"})).await.0, -32602);
}

#[tokio::test]
async fn an_operation_past_its_keep_alive_has_expired() {
    let (world, client) = connected().await;
    start(&client, &world, call("greets", json!({}), json!({"token": "t", "keepAlive": 1}))).await;
    world.work().await;
    world.clock.advance_ms(90_000);
    let expired = status(&client, &world.mcp, "t").await;
    assert_eq!((&expired["status"], &expired["error"]), (&json!("failed"), &json!("Operation has expired")));
    let (code, message) = error(&client, &world, "tools/async/result", json!({"token": "t"})).await;
    assert_eq!((code, message.as_str()), (-32602, "Failed to retrieve operation: Operation has expired"));
}

#[tokio::test]
async fn a_policy_may_have_immediate_content_and_delete_the_task_after_the_fetch() {
    let (world, client) = connected().await;
    let accepted = start(&client, &world, call("greets", json!({}), json!({"token": "t"}))).await;
    assert_eq!(accepted["content"], json!([{"type": "text", "text": "Greeting them now."}]));
    assert_eq!(accepted["operation"]["keepAlive"], 90);
    world.work().await;
    let fetched = client.result(&world.mcp, "tools/async/result", json!({"token": "t"})).await;
    assert_eq!(fetched["result"]["structuredContent"], json!({"greeting": "hello"}));
    assert_eq!(error(&client, &world, "tools/async/status", json!({"token": "t"})).await.0, -32602);
    start(&client, &world, call("greets", json!({}), json!({"token": "t"}))).await;
}

#[tokio::test]
async fn an_operation_that_fails_says_why() {
    let (world, client) = connected().await;
    for (tool, token, why) in [("fails", "a", "no such city"), ("tool_error", "b", "it did not work")] {
        start(&client, &world, call(tool, json!({}), json!({"token": token}))).await;
        world.work().await;
        let failed = status(&client, &world.mcp, token).await;
        assert_eq!((&failed["status"], &failed["error"]), (&json!("failed"), &json!(why)));
    }
    let fetched = client.result(&world.mcp, "tools/async/result", json!({"token": "b"})).await;
    assert_eq!(fetched["result"]["isError"], true);
    assert_eq!(error(&client, &world, "tools/async/result", json!({"token": "a"})).await.0, -32602);
    // The recorded value cannot be read.
    start(&client, &world, call("misreads", json!({}), json!({"token": "c"}))).await;
    world.work().await;
    let task = world.engine.list(&client.owner, None, 100).await.unwrap().tasks;
    let task = task.iter().find(|task| task.tool == "misreads").unwrap();
    let answer = [("go_on".to_owned(), json!({"action": "accept", "content": {}}).to_string())].into();
    world.engine.answer(&task.key(), &answer).await.unwrap();
    world.work().await;
    assert_eq!(word(&client, &world, "c").await, "unknown");
}

#[tokio::test]
async fn a_cancelled_request_is_a_canceled_operation() {
    let (world, client) = connected().await;
    let cancel = |id: Value| {
        let mut sent = client.sent("notifications/cancelled", json!({"requestId": id, "reason": "no"}));
        sent.body.as_object_mut().unwrap().remove("id");
        sent
    };
    let mut sent = client.sent("tools/call", call("sleeps", json!({"ms": 60_000}), json!({"token": "t"})));
    sent.body["id"] = json!("r1");
    world.result(&sent).await;
    world.work().await;
    for other in [json!(7), json!(1), json!("r2")] {
        assert_eq!(world.send(&cancel(other)).await.status, 202);
    }
    let mut of_another_session = cancel(json!("r1"));
    let other = connect(&world).await;
    of_another_session = of_another_session.with_header("mcp-session-id", &other.session);
    world.send(&of_another_session).await;
    assert_eq!(word(&client, &world, "t").await, "working");
    let request = cancel(json!("r1")).request();
    assert_eq!(second(&world).respond(request, client.owner).await.status(), 202);
    assert_eq!(word(&client, &world, "t").await, "canceled");
    let (code, message) = error(&client, &world, "tools/async/result", json!({"token": "t"})).await;
    assert_eq!((code, message.as_str()), (-32602, "Failed to retrieve operation: Operation was canceled"));
}

#[tokio::test]
async fn of_many_requests_of_one_id_the_latest_that_has_not_ended_is_cancelled() {
    let (world, client) = connected().await;
    let tokens = ["a", "b", "c", "d", "e", "f", "g"];
    for token in tokens {
        let params = call("sleeps", json!({"ms": 60_000}), json!({"token": token}));
        world.result(&client.sent("tools/call", params).without_header("mcp-session-id")).await;
        world.clock.advance_ms(1);
    }
    for (number, token) in tokens.into_iter().rev().enumerate() {
        let mut sent = client.sent("notifications/cancelled", json!({"requestId": 7})).without_header("mcp-session-id");
        sent.body.as_object_mut().unwrap().remove("id");
        world.send(&sent).await;
        assert_eq!(word(&client, &world, token).await, "canceled");
        let unfinished = tokens.len() - 1 - number;
        for other in &tokens[..unfinished] {
            assert_eq!(word(&client, &world, other).await, "submitted");
        }
    }
}

#[tokio::test]
async fn questions_of_an_operation_carry_its_token() {
    let (world, client) = connected().await;
    start(&client, &world, call("steps", json!({}), json!({"token": "t"}))).await;
    world.work().await;
    let sent = client.sent("tools/async/status", json!({"token": "t"}));
    let mut stream: Stream = client.stream(&world.mcp, &sent).await;
    let asked = stream.next().await.unwrap();
    schema::is("operations", "OperationRequest", &asked);
    assert_eq!(
        (&asked["method"], &asked["params"]["_operation"]),
        (&json!("elicitation/create"), &json!({"token": "t"}))
    );
    assert_eq!(stream.next().await.unwrap()["result"]["status"], "input_required");
    assert_eq!(stream.next().await, None);
    // The next request for the status does not ask again, until the question may have been lost.
    assert_eq!(word(&client, &world, "t").await, "input_required");
    world.clock.advance_ms(60_000);
    let mut again = client.stream(&world.mcp, &sent).await;
    assert_eq!(again.next().await.unwrap()["method"], "elicitation/create");
    let answer = json!({"action": "accept", "content": {"value": "Ann"}, "_operation": {"token": "t"}});
    assert_eq!(client.reply(&second(&world), &asked["id"], ("result", answer)).await, 202);
    world.work().await;
    let fetched = client.result(&world.mcp, "tools/async/result", json!({"token": "t"})).await;
    assert_eq!(fetched["result"]["content"][0]["text"], "Ann 1 2");
}

#[tokio::test]
async fn a_synchronous_tool_is_called_as_usual() {
    let (world, client) = connected().await;
    let result = client.result(&world.mcp, "tools/call", call("at_once", json!({}), json!({"token": "t"}))).await;
    schema::is("operations", "CallToolResult", &result);
    assert_eq!((&result["content"][0]["text"], result.get("operation")), (&json!("there"), None));
    let sent = Sent::new("tools/async/status", json!({"token": "t"}));
    assert_eq!(world.send(&sent).await.error().1, -32601, "a newer revision has no operations");
}
