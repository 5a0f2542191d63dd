//! Batches of messages, which only MCP `2025-03-26` has.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::older_client::{Older, Stream, initialize};
use crate::world::{Answer, Sent, World, alice, read};

const REVISION: &str = "2025-03-26";

fn batch(client: &Older, messages: Value) -> Sent {
    let mut sent = client.sent("x", json!({}));
    sent.body = messages;
    sent
}

async fn send(world: &World, client: &Older, messages: Value) -> Answer {
    world.served(&batch(client, messages)).await
}

fn request(id: i64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn call(id: i64, tool: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": arguments}))
}

fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

#[tokio::test]
async fn requests_of_a_batch_are_answered_in_one_array_in_their_order() {
    let (world, client) = Older::in_new_world(REVISION).await;
    let messages = json!([
        call(1, "add", json!({"a": 1, "b": 2})),
        initialized(),
        request(2, "ping", json!({})),
        call(3, "fails", json!({})),
        call(4, "add", json!({"a": "x"})),
        {"jsonrpc": "2.0", "id": 5},
        request(6, "no/such/method", json!({})),
        7,
        [request(8, "ping", json!({}))],
    ]);
    let answer = send(&world, &client, messages).await;
    assert_eq!((answer.status.as_u16(), &answer.headers["content-type"]), (200, &"application/json".parse().unwrap()));
    let answers = answer.json();
    let answers = answers.as_array().unwrap();
    let ids: Vec<_> = answers.iter().map(|answer| answer.get("id").and_then(Value::as_i64)).collect();
    assert_eq!(ids, [Some(1), Some(2), Some(3), Some(4), None, Some(6), None, None]);
    assert_eq!(answers[0]["result"]["content"][0]["text"], "3");
    assert_eq!(answers[1]["result"], json!({}));
    let codes: Vec<_> = answers[2..].iter().map(|answer| answer["error"]["code"].as_i64().unwrap()).collect();
    assert_eq!(codes, [-32602, -32602, -32600, -32601, -32600, -32600]);
    assert!(answers.iter().all(|answer| answer["jsonrpc"] == "2.0"));
}

#[tokio::test]
async fn a_batch_without_requests_is_only_accepted() {
    let (world, client) = Older::in_new_world(REVISION).await;
    let answer = send(&world, &client, json!([initialized(), initialized()])).await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (202, ""));
    let made_up = json!({"jsonrpc": "2.0", "id": "made.up", "result": {}});
    let answer = send(&world, &client, json!([initialized(), made_up])).await;
    assert_eq!((answer.status.as_u16(), &answer.json()[0]["error"]["code"]), (400, &json!(-32600)));
}

#[tokio::test]
async fn a_batch_is_not_empty_and_not_long_and_does_not_begin_a_session() {
    let (world, client) = Older::in_new_world(REVISION).await;
    let ping = |id| request(id, "ping", json!({}));
    let full: Vec<Value> = (0..50).map(ping).collect();
    assert_eq!(send(&world, &client, json!(full)).await.json().as_array().unwrap().len(), 50);
    let over: Vec<Value> = (0..51).map(ping).collect();
    for (messages, word) in [(json!([]), "at least one"), (json!(over), "at most 50")] {
        let (status, code, message) = send(&world, &client, messages).await.error();
        assert_eq!((status, code), (400, -32600));
        assert!(message.contains(word), "{message}");
    }
    let begin = initialize(REVISION, json!({})).body;
    let answers = send(&world, &client, json!([begin, ping(2)])).await.json();
    assert_eq!((&answers[0]["error"]["code"], &answers[1]["result"]), (&json!(-32600), &json!({})));
    assert!(answers[0]["error"]["message"].as_str().unwrap().contains("initialize"));
    let mut request = batch(&client, json!([])).request();
    *request.body_mut() = Bytes::from_static(b"[{]");
    assert_eq!(read(world.mcp.respond(request, alice()).await).await.error().1, -32700);
}

#[tokio::test]
async fn other_revisions_have_no_batches() {
    let world = World::new();
    for revision in ["2024-11-05", "2025-06-18", "2025-11-25", "next"] {
        let client = Older::connect(&world.mcp, revision).await;
        let (status, code, message) = send(&world, &client, json!([request(1, "ping", json!({}))])).await.error();
        assert_eq!((status, code), (400, -32600), "{revision}");
        assert!(message.contains("one message at a time"), "{message}");
    }
    let mut newest = Sent::new("tools/list", json!({}));
    newest.body = json!([newest.body]);
    assert_eq!(world.send(&newest).await.error().1, -32600);
    let client = Older::connect(&world.mcp, REVISION).await;
    let changed = batch(&client, json!([request(1, "ping", json!({}))])).with_header("mcp-session-id", "changed");
    assert_eq!(world.send(&changed).await.error().0, 404);
}

#[tokio::test]
async fn a_batch_whose_tool_asks_something_is_answered_by_a_stream_of_all_answers() {
    let world = World::plain();
    let client = Older::connect(&world.mcp, REVISION).await;
    let messages =
        json!([request(1, "ping", json!({})), call(2, "reports", json!({})), call(3, "add", json!({"a": 1, "b": 2})),]);
    let mut stream = Stream::of(world.mcp.respond(batch(&client, messages).request(), alice()).await);
    let mut answers = Vec::new();
    let asked = loop {
        let message = stream.next().await.unwrap();
        if message.get("method").is_some() {
            break message;
        }
        answers.push(message);
    };
    let answer = json!({"action": "accept", "content": {"value": "x"}});
    let reply = json!([{"jsonrpc": "2.0", "id": asked["id"], "result": answer}]);
    assert_eq!(world.send(&batch(&client, reply)).await.status, 202, "answers may come in a batch, too");
    while let Some(message) = world.while_time_passes(stream.next()).await {
        answers.push(message);
    }
    answers.sort_by_key(|answer| answer["id"].as_i64());
    let texts: Vec<_> = answers.iter().map(|answer| &answer["result"]["content"][0]["text"]).collect();
    assert_eq!(texts, [&Value::Null, &json!("reported"), &json!("3")]);
}

#[tokio::test]
async fn a_message_of_a_batch_that_panics_leaves_the_others_alone() {
    let world = World::plain();
    let client = Older::connect(&world.mcp, REVISION).await;
    let messages = json!([call(1, "panics_always", json!({})), call(2, "add", json!({"a": 1, "b": 2}))]);
    let answers = send(&world, &client, messages).await.json();
    assert_eq!((&answers[0]["error"]["code"], &answers[1]["id"]), (&json!(-32603), &json!(2)));
}
