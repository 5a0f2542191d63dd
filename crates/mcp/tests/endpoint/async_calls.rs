//! The draft of asynchronous tool calls, each message checked against the draft.

use longhaul_mcp::{McpServer, McpSettings};
use serde_json::{Value, json};

use crate::older_client::{Older, another_instance, everything};
use crate::schema;
use crate::world::{World, bob};

const REVISIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

async fn connect(world: &World) -> Older {
    Older::connect(&world.mcp, "2025-06-18").await
}

async fn connected() -> (World, Older) {
    let world = World::new();
    let client = connect(&world).await;
    (world, client)
}

fn second(world: &World) -> McpServer {
    another_instance(world, McpSettings::new([7; 32]))
}

async fn begin(client: &Older, world: &World, params: Value) -> Value {
    let accepted = client.result(&world.mcp, "tools/async/call", params).await;
    schema::is("async-calls", "CallToolAsyncResult", &accepted);
    accepted
}

async fn token(client: &Older, world: &World, tool: &str, arguments: Value) -> String {
    let accepted = begin(client, world, json!({"name": tool, "arguments": arguments})).await;
    assert_eq!(accepted["accepted"], true);
    accepted["token"].as_str().unwrap().to_owned()
}

async fn get(client: &Older, server: &McpServer, token: &str) -> Value {
    let result = client.result(server, "tools/async/get", json!({"token": token, "timeout": 0})).await;
    schema::is("async-calls", "CallToolResult", &result);
    result
}

#[tokio::test]
async fn the_handshake_says_how_long_results_can_be_kept() {
    let world = World::new();
    for revision in REVISIONS {
        let client = Older::connect(&world.mcp, revision).await;
        schema::is("async-calls", "ServerCapabilities", &client.initialized["capabilities"]);
        assert_eq!(client.initialized["capabilities"]["async"]["maxKeepAliveTime"], 86_400);
        let listed = client.result(&world.mcp, "tools/list", json!({})).await;
        let prefers = |name: &str| {
            let tool = listed["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
            tool["annotations"]["preferAsync"].clone()
        };
        assert_eq!((prefers("add"), prefers("at_once")), (json!(true), Value::Null));
    }
    let plain = World::plain();
    let client = Older::connect(&plain.mcp, "2025-06-18").await;
    assert_eq!(client.initialized["capabilities"].get("async"), None, "there is nothing to call asynchronously");
}

#[tokio::test]
async fn a_call_is_pending_and_then_has_its_result() {
    let (world, client) = connected().await;
    let accepted =
        begin(&client, &world, json!({"name": "sleeps", "arguments": {"ms": 60_000}, "keepAlive": 7_200})).await;
    assert_eq!((&accepted["accepted"], &accepted["keepAlive"]), (&json!(true), &json!(7_200)));
    assert_eq!(accepted["_meta"]["dev.longhaul/received"], world.now_ms() / 1_000);
    let token = accepted["token"].as_str().unwrap().to_owned();
    let pending = get(&client, &second(&world), &token).await;
    assert_eq!((&pending["isPending"], &pending["content"]), (&json!(true), &json!([])));
    world.work().await;
    world.clock.advance_ms(60_000);
    world.work().await;
    for _ in 0..2 {
        let result = get(&client, &second(&world), &token).await;
        assert_eq!((&result["content"][0]["text"], result.get("isPending")), (&json!("attempt 2"), None));
    }
}

#[tokio::test]
async fn a_get_waits_as_long_as_it_says_and_no_longer_than_the_server_allows() {
    let (world, client) = connected().await;
    let token = token(&client, &world, "sleeps", json!({"ms": 120_000})).await;
    let sent = client.sent("tools/async/get", json!({"token": token, "timeout": 10}));
    let before = world.now_ms();
    assert_eq!(world.served(&sent).await.result()["isPending"], true);
    assert!((10_000..11_000).contains(&(world.now_ms() - before)));
    let sent = client.sent("tools/async/get", json!({"token": token}));
    let events = world.served(&sent).await.events();
    assert_eq!(events.last().unwrap()["result"]["content"][0]["text"], "attempt 2");
}

#[tokio::test]
async fn a_call_that_failed_fails_as_the_plain_call_would() {
    let (world, client) = connected().await;
    let failing = token(&client, &world, "fails", json!({})).await;
    let erring = token(&client, &world, "tool_error", json!({})).await;
    world.work().await;
    let error = client.error(&world.mcp, "tools/async/get", json!({"token": failing, "timeout": 0})).await;
    assert_eq!(error, (-32602, "no such city".to_owned()));
    assert_eq!(get(&client, &world.mcp, &erring).await["isError"], true);
}

#[tokio::test]
async fn a_call_that_is_not_accepted_has_a_token_that_gives_the_reason() {
    let (world, client) = connected().await;
    let refused = begin(&client, &world, json!({"name": "at_once"})).await;
    assert_eq!(refused["accepted"], false);
    let token = refused["token"].as_str().unwrap();
    let explained = get(&client, &second(&world), token).await;
    assert_eq!(explained["isError"], true);
    assert!(explained["content"][0]["text"].as_str().unwrap().contains("synchronously"), "{explained}");
    let joined = client.result(&world.mcp, "tools/async/join", json!({"token": token})).await;
    assert_eq!(joined, json!({"accepted": false, "token": token}));
    let anonymous_caller = Older::connect_as(&world.mcp, "2025-06-18", bob(), everything()).await;
    assert_eq!(
        anonymous_caller.error(&world.mcp, "tools/async/get", json!({"token": token, "timeout": 0})).await.0,
        -32602
    );
    for params in [json!({"name": "no_such_tool"}), json!({}), json!({"name": "add", "keepAlive": -1})] {
        assert_eq!(client.error(&world.mcp, "tools/async/call", params).await.0, -32602);
    }
}

#[tokio::test]
async fn several_clients_join_and_may_extend_the_retention() {
    let world = World::new();
    let (first, other) = (connect(&world).await, Older::connect(&world.mcp, "2025-11-25").await);
    let token = token(&first, &world, "sleeps", json!({"ms": 60_000})).await;
    let join = async |client: &Older, keep_alive: Value| {
        let mut params = json!({"token": token});
        if !keep_alive.is_null() {
            params["keepAlive"] = keep_alive;
        }
        let joined = client.result(&world.mcp, "tools/async/join", params).await;
        schema::is("async-calls", "CallToolAsyncResult", &joined);
        assert_eq!((&joined["accepted"], &joined["token"]), (&json!(true), &json!(token)));
        joined["keepAlive"].as_u64().unwrap()
    };
    assert_eq!(join(&other, Value::Null).await, 1_800);
    assert_eq!(join(&other, json!(7_200)).await, 7_200);
    assert_eq!(join(&first, json!(60)).await, 7_200, "never shorter");
    assert_eq!(join(&first, json!(1_000_000_000)).await, 86_400, "no longer than the server allows");
    world.work().await;
    world.clock.advance_ms(60_000);
    world.work().await;
    world.clock.advance_ms(86_399_000);
    assert_eq!(get(&other, &world.mcp, &token).await["content"][0]["text"], "attempt 2");
    let anonymous_caller = Older::connect_as(&world.mcp, "2025-06-18", bob(), everything()).await;
    assert_eq!(anonymous_caller.error(&world.mcp, "tools/async/join", json!({"token": token})).await.0, -32602);
}

#[tokio::test]
async fn tokens_are_strings_or_integers() {
    let (world, client) = connected().await;
    for method in ["tools/async/join", "tools/async/get", "tools/async/cancel"] {
        for token in [json!(7), json!(-1), json!("x")] {
            let error = client.error(&world.mcp, method, json!({"token": token})).await;
            assert_eq!(error, (-32602, "there is no call with this token".to_owned()), "{method}");
        }
        for params in [json!({}), json!({"token": {}}), json!({"token": 1.5})] {
            let (code, message) = client.error(&world.mcp, method, params).await;
            assert_eq!(code, -32602);
            assert!(message.contains("a string or an integer"), "{message}");
        }
    }
}

#[tokio::test]
async fn a_waiting_client_is_notified_that_the_call_was_cancelled() {
    let (world, client) = connected().await;
    let token = token(&client, &world, "sleeps", json!({"ms": 600_000})).await;
    let sent = client.sent("tools/async/get", json!({"token": token}));
    let mut cancel = client.sent("tools/async/cancel", json!({"token": token}));
    cancel.body.as_object_mut().unwrap().remove("id");
    let (waiting, ()) = world
        .while_time_passes(async {
            tokio::join!(client.stream(&world.mcp, &sent), async {
                assert_eq!(world.send(&cancel).await.status, 202);
            })
        })
        .await;
    let mut waiting = waiting;
    let notified = waiting.next().await.unwrap();
    schema::is("async-calls", "CancelledNotification", &notified);
    assert_eq!(notified["params"]["requestId"], 7);
    assert_eq!(waiting.next().await.unwrap()["result"]["isError"], true);
    assert_eq!(client.result(&world.mcp, "tools/async/cancel", json!({"token": token})).await, json!({}));
}

#[tokio::test]
async fn progress_comes_with_a_resource_that_can_be_read_and_is_in_no_list() {
    let (world, client) = connected().await;
    let params = json!({"name": "remembers_and_reports", "_meta": {"progressToken": "p1"}});
    let accepted = begin(&client, &world, params).await;
    let token = accepted["token"].as_str().unwrap();
    world.work().await;
    for (meta, progress_token) in [(json!({}), "p1"), (json!({"progressToken": "p2"}), "p2")] {
        let params = json!({"token": token, "timeout": 0, "_meta": meta});
        let mut stream = client.stream(&world.mcp, &client.sent("tools/async/get", params)).await;
        let progress = stream.next().await.unwrap();
        schema::is("async-calls", "ProgressNotification", &progress);
        let params = &progress["params"];
        assert_eq!((&params["progressToken"], &params["progress"]), (&json!(progress_token), &json!(3.0)));
        let uri = params["resourceUri"].as_str().unwrap();
        let read = client.result(&second(&world), "resources/read", json!({"uri": uri})).await;
        schema::is("2025-11-25", "ReadResourceResult", &read);
        let state: Value = serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!((&state["status"], &state["variables"]), (&json!("input_required"), &json!({"seen": 1})));
        let anonymous_caller = Older::connect_as(&world.mcp, "2025-06-18", bob(), everything()).await;
        assert_eq!(anonymous_caller.error(&world.mcp, "resources/read", json!({"uri": uri})).await.0, -32002);
    }
    let other = client.result(&world.mcp, "resources/read", json!({"uri": "test://x"})).await;
    assert_eq!(other["contents"][0]["text"], "contents", "the server's own");
}

#[tokio::test]
async fn a_waiting_client_is_asked_the_questions_of_the_call() {
    let (world, client) = connected().await;
    let token = token(&client, &world, "steps", json!({})).await;
    world.work().await;
    let sent = client.sent("tools/async/get", json!({"token": token, "timeout": 30}));
    let mut stream = client.stream(&world.mcp, &sent).await;
    let asked = stream.next().await.unwrap();
    client.fill_in(&second(&world), &asked, "Ann").await;
    let last = world.while_working(stream.next()).await.unwrap();
    assert_eq!(last["result"]["content"][0]["text"], "Ann 1 2");
}

#[tokio::test]
async fn a_loop_of_gets_is_refused() {
    let (world, client) = connected().await;
    let token = token(&client, &world, "sleeps", json!({"ms": 60_000})).await;
    let params = json!({"token": token, "timeout": 0});
    let mut refused = 0;
    for _ in 0..30 {
        let answer = client.send(&world.mcp, "tools/async/get", params.clone()).await.json();
        if let Some(error) = answer.get("error") {
            assert_eq!(error["code"], -32600);
            assert!(error["data"]["retryAfterMs"].as_u64().unwrap() > 0);
            refused += 1;
        }
    }
    assert_eq!(refused, 20);
    world.clock.advance_ms(1_000);
    get(&client, &world.mcp, &token).await;
}
