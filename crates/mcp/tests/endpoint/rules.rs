//! Who may do what: capabilities, owners, headers, names, revisions.

use longhaul_core::{Identity, OwnerId};
use serde_json::{Value, json};

use crate::schema;
use crate::world::{Sent, World, bob, no_tasks};

fn about(id: &str) -> [Sent; 3] {
    [
        Sent::new("tasks/get", json!({"taskId": id})),
        Sent::new("tasks/update", json!({"taskId": id, "inputResponses": {}})),
        Sent::new("tasks/cancel", json!({"taskId": id})),
    ]
}

fn listen(ids: Value) -> Sent {
    Sent::new("subscriptions/listen", json!({"notifications": {"taskIds": ids}}))
}

#[tokio::test]
async fn a_client_that_did_not_declare_tasks_is_told_so_before_any_task_is_looked_up() {
    let world = World::new();
    let mut requests = about("no such task").to_vec();
    requests.push(listen(json!(["no such task"])));
    requests.push(Sent::call("only_task", json!({})));
    for request in requests {
        let answer = world.send(&request.clone().declaring(no_tasks())).await;
        let (status, code, _) = answer.error();
        assert_eq!((status, code), (400, -32021), "{}", request.body["method"]);
        let required = &answer.json()["error"]["data"]["requiredCapabilities"];
        assert_eq!(*required, json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}));
    }
    world.work().await;
}

#[tokio::test]
async fn a_task_that_does_not_exist_and_one_that_is_anothers_get_the_same_answer() {
    let world = World::new();
    let id = world.start("add", json!({"a": 1, "b": 1})).await;
    let unknown = "0199aaaa-0000-7000-8000-000000000000";
    let mut answers = Vec::new();
    for request in about(&id) {
        answers.push(world.send(&request.of(bob())).await.error());
    }
    for wrong in [unknown, "no uuid", "", "786512e2-9e0d-44bd-8f29-789f320fe840", &id.to_uppercase()] {
        for request in about(wrong) {
            answers.push(world.send(&request).await.error());
        }
    }
    answers.dedup();
    assert_eq!(answers, [(200, -32602, "task not found".to_owned())]);
    world.work().await;
    assert_eq!(world.get(&id).await["status"], "completed", "the other owner did not cancel it");
}

#[tokio::test]
async fn a_missing_mcp_name_is_accepted_and_a_wrong_one_refused() {
    let world = World::new();
    let id = world.start("add", json!({"a": 1, "b": 1})).await;
    for request in about(&id) {
        let answer = world.send(&request.clone().with_header("mcp-name", "another")).await;
        assert_eq!((answer.error().0, answer.error().1), (400, -32020), "{}", request.body["method"]);
        world.send(&request.without_header("mcp-name")).await.result();
    }
    for strange in ["ünïcode", "=?base64?AAAA?=", " padded ", "line\nbreak"] {
        let request = Sent::new("tasks/get", json!({})).with_param("taskId", strange.into());
        assert_eq!(world.send(&request).await.error(), (200, -32602, "task not found".to_owned()), "{strange}");
    }
}

#[tokio::test]
async fn a_wrong_mcp_method_is_refused() {
    let world = World::new();
    for request in about("x").into_iter().chain([listen(json!([])), Sent::call("add", json!({}))]) {
        for wrong in [request.clone().with_header("mcp-method", "tools/list"), request.without_header("mcp-method")] {
            let (status, code, _) = world.send(&wrong).await.error();
            assert_eq!((status, code), (400, -32020), "{}", wrong.body["method"]);
        }
    }
}

#[tokio::test]
async fn every_request_says_its_version_and_capabilities() {
    let world = World::new();
    for request in about("x").into_iter().chain([listen(json!([]))]) {
        let method = request.body["method"].clone();
        let unknown = request.clone().with_meta("io.modelcontextprotocol/protocolVersion", "2999-01-01".into());
        let (status, code, _) = world.send(&unknown).await.error();
        assert_eq!((status, code), (400, -32020), "{method}: header and body differ");
        let answer = world.send(&unknown.with_header("mcp-protocol-version", "2999-01-01")).await;
        assert_eq!((answer.error().0, answer.error().1), (400, -32022), "{method}");
        assert_eq!(answer.json()["error"]["data"]["requested"], "2999-01-01");
        let mut bare = request;
        bare.body["params"]["_meta"].as_object_mut().unwrap().remove("io.modelcontextprotocol/clientCapabilities");
        let (status, code, _) = world.send(&bare).await.error();
        assert_eq!((status, code), (400, -32602), "{method}: no capabilities");
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
async fn malformed_params_are_invalid_params() {
    let world = World::new();
    for (method, params) in
        [("tools/call", json!({})), ("tasks/get", json!({"taskId": 1})), ("tasks/update", json!({}))]
    {
        let (_, code, message) = world.send(&Sent::new(method, params)).await.error();
        assert_eq!((code, message), (-32602, format!("the params of {method} are malformed")));
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
    for method in removed.into_iter().chain(["tasks/list", "tasks/result", "unknown/method"]) {
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
