//! Callers whom nobody identified, and who share one owner: whoever knows a task's id sees the task, and nothing else
//! is shared. What a client chooses itself belongs to its session.

use longhaul_core::{IdSource, Identity, OwnerId, Timestamp};
use longhaul_mcp::{AnonymousCallers, McpServer, McpSettings};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::older_client::{Older, another_instance, everything};
use crate::world::{Answer, Sent, World, alice, no_tasks, read};

fn anonymous_caller() -> OwnerId {
    OwnerId::of(Identity::Anonymous)
}

async fn connect(server: &McpServer, revision: &str) -> Older {
    Older::connect_as(server, revision, anonymous_caller(), everything()).await
}

fn operation(token: &str) -> Value {
    json!({"name": "sleeps", "arguments": {"ms": 60_000}, "operation": {"token": token}})
}

fn task_id(accepted: &Value) -> String {
    let related = &accepted["_meta"]["io.modelcontextprotocol/related-task"]["taskId"];
    related.as_str().unwrap_or_else(|| panic!("{accepted}")).to_owned()
}

async fn start(client: &Older, world: &World, token: &str) -> String {
    task_id(&client.result(&world.mcp, "tools/call", operation(token)).await)
}

async fn word(client: &Older, world: &World, token: &str) -> String {
    let status = client.result(&world.mcp, "tools/async/status", json!({"token": token})).await;
    status["status"].as_str().unwrap().to_owned()
}

fn notification(client: &Older, request_id: Value) -> Sent {
    let mut sent = client.sent("notifications/cancelled", json!({"requestId": request_id}));
    sent.body.as_object_mut().unwrap().remove("id");
    sent
}

async fn open_tasks(world: &World, owner: OwnerId) -> usize {
    world.engine.list(&owner, None, 100).await.unwrap().tasks.len()
}

/// A guessed token once gave the result of another session's operation.
#[tokio::test]
async fn a_token_belongs_to_the_session_that_chose_it() {
    let world = World::new();
    let (first, second) = (connect(&world.mcp, "next").await, connect(&world.mcp, "next").await);
    let id = start(&first, &world, "1").await;
    for method in ["tools/async/status", "tools/async/result"] {
        let (code, message) = second.error(&world.mcp, method, json!({"token": "1"})).await;
        assert_eq!((code, message.as_str()), (-32602, "Failed to retrieve operation: Operation not found"));
    }
    // Nobody takes a token first: the other session has its own.
    let other = start(&second, &world, "1").await;
    assert_ne!(id, other);
    second.send(&world.mcp, "tools/async/cancel", json!({"token": "1"})).await;
    assert_eq!(word(&first, &world, "1").await, "submitted");
    // The id is the capability.
    assert_eq!(word(&second, &world, &id).await, "submitted");
}

/// The id of an operation was once the hash of its token.
#[tokio::test]
async fn an_id_cannot_be_computed_from_a_token() {
    struct Hashed([u8; 32]);
    impl IdSource for Hashed {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.copy_from_slice(&self.0[..bytes.len()]);
        }
    }
    let computed = |parts: &[&[u8]]| {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Hashed(hash.finalize().into()).task_id(Timestamp::from_ms(0)).to_string()
    };
    for owner in [anonymous_caller(), alice()] {
        let world = World::new();
        let client = Older::connect_as(&world.mcp, "next", owner, everything()).await;
        let id = start(&client, &world, "t").await;
        for guess in [computed(&[b"operation", b"t"]), computed(&[b"operation", b"", b"t"])] {
            assert_ne!(guess, id);
            let sent = Sent::new("tasks/get", json!({"taskId": guess})).of(owner);
            assert_eq!(world.send(&sent).await.error().1, -32602);
        }
        world.result(&Sent::new("tasks/get", json!({"taskId": id})).of(owner)).await;
    }
}

/// Such a notification once cancelled the latest request of that id, whoever had sent it.
#[tokio::test]
async fn a_request_is_cancelled_by_its_own_session_only() {
    let world = World::new();
    let (client, other) = (connect(&world.mcp, "next").await, connect(&world.mcp, "next").await);
    let mut sent = client.sent("tools/call", operation("t"));
    sent.body["id"] = json!(1);
    world.result(&sent).await;
    world.send(&notification(&other, json!(1))).await;
    world.send(&notification(&client, json!(1)).without_header("mcp-session-id")).await;
    assert_eq!(word(&client, &world, "t").await, "submitted");
    world.send(&notification(&client, json!(1))).await;
    assert_eq!(word(&client, &world, "t").await, "canceled");
}

/// A call that the server accepts without a session cannot be cancelled by the next one to come without a session.
#[tokio::test]
async fn a_request_without_a_session_is_not_cancelled_by_its_id() {
    let world = World::new();
    let client = connect(&world.mcp, "next").await;
    let params = json!({"name": "sleeps", "arguments": {"ms": 60_000}, "operation": {}});
    let id = task_id(&world.result(&client.sent("tools/call", params).without_header("mcp-session-id")).await);
    world.send(&notification(&client, json!(7)).without_header("mcp-session-id")).await;
    assert_eq!(word(&client, &world, &id).await, "submitted");
}

fn refused(answer: &Answer) {
    let (_, code, message) = answer.error();
    assert_eq!(code, -32600, "{message}");
    assert!(message.contains("does not identify its callers") && message.contains("session"), "{message}");
    assert!(message.contains("send `initialize` first") || message.contains("call without it"), "{message}");
}

#[tokio::test]
async fn what_a_client_chooses_is_refused_without_a_session() {
    let world = World::new();
    let next = connect(&world.mcp, "next").await;
    for (method, params) in [
        ("tools/call", operation("t")),
        ("tools/async/status", json!({"token": "t"})),
        ("tools/async/result", json!({"token": "t"})),
    ] {
        refused(&world.send(&next.sent(method, params).without_header("mcp-session-id")).await);
    }
    let older = connect(&world.mcp, "2025-11-25").await;
    let call = json!({"name": "add", "arguments": {"a": 1, "b": 2}});
    let mut as_task = call.clone();
    as_task["task"] = json!({});
    for (client, method, params) in [
        (&older, "tools/call", call.clone()),
        (&older, "tools/call", as_task),
        (&older, "tools/async/call", call.clone()),
        (&next, "tools/call", call),
    ] {
        let sent = client.sent(method, params).with_header("idempotency-key", "k").without_header("mcp-session-id");
        refused(&world.send(&sent).await);
    }
    let newest = Sent::call("add", json!({"a": 1, "b": 2})).of(anonymous_caller());
    for sent in
        [newest.clone(), newest.clone().declaring(no_tasks()), Sent::call("who", json!({})).of(anonymous_caller())]
    {
        refused(&world.send(&sent.clone().with_header("idempotency-key", "k")).await);
        refused(&world.send(&sent.with_meta("dev.longhaul/idempotencyKey", "k".into())).await);
    }
    assert_eq!(open_tasks(&world, anonymous_caller()).await, 0, "nothing was begun");
    assert_eq!(world.result(&newest).await["resultType"], "task", "without a key it is an ordinary call");
}

/// A key once gave a caller the task of another one that happened to send the same key.
#[tokio::test]
async fn an_idempotency_key_belongs_to_the_session_that_chose_it() {
    let world = World::new();
    let call = json!({"name": "sleeps", "arguments": {"ms": 60_000}});
    let mut as_task = call.clone();
    as_task["task"] = json!({});
    for (revision, method, params) in [
        ("2025-11-25", "tools/call", as_task),
        ("2025-06-18", "tools/async/call", call.clone()),
        ("next", "tools/call", call),
    ] {
        let ids = async |client: &Older| {
            let sent = client.sent(method, params.clone()).with_header("idempotency-key", "k");
            let (first, again) = (world.result(&sent).await, world.result(&sent).await);
            let id = |accepted: &Value| match accepted["task"]["taskId"].as_str() {
                Some(id) => id.to_owned(),
                None => task_id(accepted),
            };
            assert_eq!(id(&first), id(&again), "{revision}");
            id(&first)
        };
        let (first, second) = (connect(&world.mcp, revision).await, connect(&world.mcp, revision).await);
        assert_ne!(ids(&first).await, ids(&second).await, "{revision}");
    }
}

#[tokio::test]
async fn the_key_that_a_plain_tool_sees_belongs_to_its_session() {
    let world = World::plain();
    let key = async |client: &Older| {
        let sent = client.call("who", json!({})).with_header("idempotency-key", "k");
        world.result(&sent).await["content"][0]["text"].as_str().unwrap().to_owned()
    };
    let (first, second) = (connect(&world.mcp, "2025-06-18").await, connect(&world.mcp, "2025-06-18").await);
    assert_eq!(key(&first).await, key(&first).await);
    assert_ne!(key(&first).await, key(&second).await);
}

#[tokio::test]
async fn the_only_user_of_a_server_finds_tasks_by_name_from_any_session_and_without_one() {
    let world = World::new();
    let settings = McpSettings { anonymous_callers: AnonymousCallers::OneUser, ..McpSettings::new([7; 32]) };
    let server = another_instance(&world, settings);
    let (first, second) = (connect(&server, "next").await, connect(&server, "next").await);
    first.result(&server, "tools/call", operation("t")).await;
    let status = second.result(&server, "tools/async/status", json!({"token": "t"})).await;
    assert_eq!(status["status"], "submitted");
    let sent = first.sent("tools/async/status", json!({"token": "t"})).without_header("mcp-session-id");
    assert_eq!(read(server.respond(sent.request(), anonymous_caller()).await).await.result()["status"], "submitted");
    let call = Sent::call("add", json!({"a": 1, "b": 2})).of(anonymous_caller()).with_header("idempotency-key", "k");
    let id = async || read(server.respond(call.request(), anonymous_caller()).await).await.result()["taskId"].clone();
    assert_eq!(id().await, id().await);
}
