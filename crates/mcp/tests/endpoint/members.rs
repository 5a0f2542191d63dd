//! Every method, every member of its parameters, in every form in which some client writes it, in every revision: a
//! request is answered, or refused with `-32602` and the member's name. No method that the revision has is answered as
//! one that it has not, because its parameters could not be read.

use bytes::Bytes;
use harness::members::{REVISIONS, faults};
use http::Request;
use longhaul_mcp::McpSettings;
use serde_json::{Value, json};

use crate::older_client::{Older, another_instance};
use crate::world::{Sent, VERSION, World, alice, read};

async fn post(world: &World, headers: Vec<(&'static str, String)>, body: Value) -> (u16, Value) {
    let mut request = Request::post("/mcp").header("host", "localhost");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(Bytes::from(body.to_string())).unwrap();
    let answer = read(world.mcp.respond(request, alice()).await).await;
    (answer.status.as_u16(), answer.json())
}

#[tokio::test]
async fn every_member_of_every_method_is_read_or_named_in_every_revision() {
    let mut all = Vec::new();
    for revision in REVISIONS {
        let world = World::new();
        let session = if revision == VERSION { None } else { Some(Older::connect(&world.mcp, revision).await.session) };
        all.extend(faults(revision, session.as_deref(), "at_once", |headers, body| post(&world, headers, body)).await);
    }
    assert!(all.is_empty(), "{} faults:\n{}", all.len(), all.join("\n"));
}

/// A member that is there twice is one that two readers understand differently.
#[tokio::test]
async fn a_member_that_is_there_twice_is_refused() {
    let world = World::new();
    let body = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","name":"echo"}}"#;
    let request = Request::post("/mcp").header("content-type", "application/json").body(Bytes::from(body)).unwrap();
    let answer = read(world.mcp.respond(request, alice()).await).await;
    assert_eq!((answer.error().0, answer.error().1), (400, -32602));
    assert!(answer.error().2.contains("`name` is there twice"), "{:?}", answer.error());
}

#[tokio::test]
async fn two_values_of_a_header_that_must_be_single_are_refused() {
    let (world, older) = Older::in_new_world("2025-06-18").await;
    let usual = Sent::new("tools/list", json!({}));
    for (sent, header, other) in [
        (usual.clone(), "mcp-protocol-version", "2025-06-18"),
        (usual.clone(), "mcp-protocol-version", VERSION),
        (usual.clone(), "mcp-method", "tools/list"),
        (usual.clone(), "content-type", "application/json"),
        (older.sent("tools/list", json!({})), "mcp-protocol-version", "2026-07-28"),
        (older.sent("tools/list", json!({})), "mcp-session-id", "x"),
        (Sent::call("add", json!({"a": 1, "b": 2})), "mcp-name", "add"),
        (Sent::call("add", json!({"a": 1, "b": 2})).with_header("idempotency-key", "a"), "idempotency-key", "b"),
    ] {
        let mut twice = sent;
        twice.headers.push((header, other.to_owned()));
        let answer = world.send(&twice).await;
        assert_eq!(answer.error().0, 400, "{header} {other}");
        assert_eq!(answer.json()["id"], 7, "{header} {other}");
    }
}

/// A client that reads no streams gets JSON for whatever the tool does, or 406.
#[tokio::test]
async fn a_client_that_accepts_json_only_gets_json() {
    let (world, older) = Older::in_new_world("2025-11-25").await;
    let asks = older.call("asks_choices", json!({})).with_header("accept", "application/json");
    let answer = world.send(&asks).await;
    assert_eq!((answer.status.as_u16(), &answer.headers["content-type"]), (200, &"application/json".parse().unwrap()));
    assert_eq!(answer.json()["id"], 7);
    let id = world.start("sleeps", json!({"ms": 60_000})).await;
    let listens = Sent::new("subscriptions/listen", json!({"notifications": {"taskIds": [id]}}));
    for accept in ["application/json", "application/json, text/event-stream;q=0"] {
        assert_eq!(world.send(&listens.clone().with_header("accept", accept)).await.error().0, 406, "{accept}");
    }
}

/// Such an answer was taken before, and nobody read it: neither on the instance that asked nor on another one.
#[tokio::test]
async fn an_answer_for_which_nobody_waits_is_refused() {
    let (world, older) = Older::in_new_world("2025-11-25").await;
    let other = another_instance(&world, McpSettings::new([7; 32]));
    for server in [&world.mcp, &other] {
        let mut stream = older.stream(&world.mcp, &older.call("asks_choices", json!({}))).await;
        let asked = stream.next().await.unwrap();
        drop(stream);
        let answer = ("result", json!({"action": "decline"}));
        let refused = async { assert_eq!(older.reply(server, &asked["id"], answer).await, 400) };
        world.while_time_passes(refused).await;
    }
}

/// The answer reaches the call, and its sender hears that only then.
#[tokio::test]
async fn an_answer_that_comes_to_another_instance_is_confirmed() {
    let (world, older) = Older::in_new_world("2025-11-25").await;
    let other = another_instance(&world, McpSettings::new([7; 32]));
    let mut stream = older.stream(&world.mcp, &older.call("asks_choices", json!({}))).await;
    let asked = stream.next().await.unwrap();
    let answer = ("result", json!({"action": "decline"}));
    let answered = async {
        let (status, end) = tokio::join!(older.reply(&other, &asked["id"], answer.clone()), stream.next());
        assert_eq!(status, 202);
        assert!(end.is_some_and(|end| end["id"] == 7), "the call goes on");
    };
    world.while_time_passes(answered).await;
    // A repetition of the answer is no other answer; a different one is, and comes too late.
    assert_eq!(older.reply(&other, &asked["id"], answer).await, 202);
    let second = ("result", json!({"action": "cancel"}));
    assert_eq!(older.reply(&other, &asked["id"], second).await, 400);
}
