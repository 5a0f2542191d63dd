//! Who may do what: capabilities, owners, headers, names, revisions.

use longhaul_core::{Identity, OwnerId};
use serde_json::{Value, json};

use crate::schema;
use crate::world::{Sent, World, no_tasks};

fn listen(ids: Value) -> Sent {
    Sent::new("subscriptions/listen", json!({"notifications": {"taskIds": ids}}))
}

#[tokio::test]
async fn a_client_that_did_not_declare_tasks_is_told_so_before_any_task_is_looked_up() {
    let world = World::new();
    for request in [listen(json!(["no such task"])), Sent::call("only_task", json!({}))] {
        let answer = world.send(&request.clone().declaring(no_tasks())).await;
        let (status, code, _) = answer.error();
        assert_eq!((status, code), (400, -32021), "{}", request.body["method"]);
        let required = &answer.json()["error"]["data"]["requiredCapabilities"];
        assert_eq!(*required, json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}));
    }
}

/// The same of `tasks/get`, `tasks/update` and `tasks/cancel` is in `tasks_parity.rs`.
#[tokio::test]
async fn a_subscription_and_a_call_are_checked_like_every_request() {
    let world = World::new();
    let version = "io.modelcontextprotocol/protocolVersion";
    let unknown = listen(json!([])).with_meta(version, "2999-01-01".into());
    let mut bare = listen(json!([]));
    bare.body["params"]["_meta"].as_object_mut().unwrap().remove("io.modelcontextprotocol/clientCapabilities");
    for (what, sent, expected) in [
        ("another method", listen(json!([])).with_header("mcp-method", "tools/list"), (400, -32020)),
        ("no method", listen(json!([])).without_header("mcp-method"), (400, -32020)),
        ("another method", Sent::call("add", json!({})).with_header("mcp-method", "tools/list"), (400, -32020)),
        ("no method", Sent::call("add", json!({})).without_header("mcp-method"), (400, -32020)),
        ("two versions", unknown.clone(), (400, -32020)),
        ("an unknown version", unknown.with_header("mcp-protocol-version", "2999-01-01"), (400, -32022)),
        ("no capabilities", bare, (400, -32602)),
        ("no tool", Sent::new("tools/call", json!({})), (200, -32602)),
    ] {
        let (status, code, _) = world.send(&sent).await.error();
        assert_eq!((status, code), expected, "{what}: {}", sent.body);
    }
}

#[tokio::test]
async fn a_tool_that_does_not_exist_is_refused_and_leaves_no_task() {
    let world = World::new();
    for unknown in ["gone", "never_heard_of"] {
        let (_, code, _) = world.send(&Sent::call(unknown, json!({}))).await.error();
        assert_eq!(code, -32602, "{unknown}");
    }
}

#[tokio::test]
async fn the_server_declares_tasks_with_an_empty_object() {
    let world = World::new();
    let discovered = world.result(&Sent::new("server/discover", json!({}))).await;
    schema::is("2026-07-28", "DiscoverResult", &discovered);
    let capabilities = &discovered["capabilities"];
    assert_eq!(capabilities["extensions"]["io.modelcontextprotocol/tasks"], json!({}));
    assert_eq!(capabilities.get("tasks"), None);
}

#[tokio::test]
async fn idempotency_keys_are_declared_to_those_who_may_use_them() {
    let world = World::new();
    let declares = async |sent: Sent| {
        let discovered = world.result(&sent).await;
        discovered.pointer("/capabilities/extensions/dev.longhaul~1idempotencyKeys").is_some()
    };
    let discover = || Sent::new("server/discover", json!({}));
    assert!(declares(discover()).await);
    assert!(!declares(discover().of(OwnerId::of(Identity::Anonymous))).await, "anonymous callers share their owner");
}

#[tokio::test]
async fn methods_that_the_revision_does_not_have_are_not_found() {
    let world = World::new();
    let removed = ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];
    let older = ["tasks/list", "tasks/result", "tools/async/call", "tools/async/join", "tools/async/get"];
    for method in removed.into_iter().chain(older).chain(["tools/async/cancel", "unknown/method"]) {
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let (status, code, _) = world.send(&Sent::new(method, params)).await.error();
        assert_eq!((status, code), (404, -32601), "{method}");
    }
}

#[tokio::test]
async fn an_older_client_gets_plain_calls_and_no_task_handles() {
    let world = World::new();
    let mut initialize = Sent::new("initialize", json!({})).legacy("2025-11-25").without_header("mcp-protocol-version");
    // The Inspector declares the extension here, in a revision that has no task handles.
    initialize.body["params"] = json!({
        "protocolVersion": "2025-11-25", "clientInfo": {"name": "t", "version": "1"},
        "capabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    });
    let initialized = world.result(&initialize).await;
    assert_eq!(initialized["protocolVersion"], "2025-11-25");
    assert_eq!(initialized["capabilities"].get("extensions"), None);
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let result = world.served(&Sent::call("add", json!({"a": 1, "b": 2})).legacy(version)).await.result();
        assert_eq!(result["content"][0]["text"], "3");
        assert_eq!(result.get("resultType"), None, "older revisions do not know it");
    }
    for version in ["2025-03-26", "2025-06-18"] {
        let answer = world.send(&Sent::call("only_task", json!({})).legacy(version)).await;
        assert_eq!(answer.error().1, -32600, "a tool that only runs as a task cannot be called by {version}");
    }
    let answer = world.served(&Sent::call("reports", json!({})).legacy("2025-11-25")).await;
    assert_eq!(answer.error().1, -32600, "a client that declared nothing cannot be asked");
}

#[tokio::test]
async fn notifications_are_accepted_without_a_body() {
    let world = World::new();
    let mut initialized = Sent::new("notifications/initialized", json!({})).legacy("2025-11-25");
    initialized.body.as_object_mut().unwrap().remove("id");
    let answer = world.send(&initialized).await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (202, ""));
}
