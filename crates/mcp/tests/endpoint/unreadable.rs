//! A stored result that cannot be read is an error in every protocol version, never an empty result. A task whose
//! record cannot be read has failed, and one of a newer version is said to be that.

use async_trait::async_trait;
use longhaul_core::{ResultKind, TaskKey};
use longhaul_engine::{Attempt, AttemptEnd, ToolRunner};
use longhaul_testkit::Damage;
use serde_json::json;

use crate::older_client::Older;
use crate::world::{Sent, World, no_tasks};

const UNREADABLE: &str = "the stored result of this task cannot be read";

/// Damaged results: cut off, not JSON, and JSON that no tool returns.
const DAMAGED: [&str; 5] = [r#"{"content":[{"type":"text","te"#, "not JSON", "", "[]", "7"];

/// Ends every task with this text in place of a result.
struct Damages(&'static str, ResultKind);

#[async_trait]
impl ToolRunner for Damages {
    async fn run(&self, _attempt: Attempt) -> AttemptEnd {
        AttemptEnd::Completed { result: self.0.to_owned(), kind: self.1 }
    }
}

/// A task that has ended with a damaged result, created by a call with the idempotency key `k`.
async fn damaged(world: &World, text: &'static str, kind: ResultKind) -> String {
    let call = Sent::call("add", json!({"a": 1, "b": 2})).with_header("idempotency-key", "k");
    let id = world.result(&call).await["taskId"].as_str().unwrap().to_owned();
    world.work_with(&Damages(text, kind)).await;
    id
}

#[tokio::test]
async fn each_protocol_version_says_so() {
    let call = Sent::call("add", json!({"a": 1, "b": 2})).with_header("idempotency-key", "k").declaring(no_tasks());
    let both_kinds = |text| [(text, ResultKind::Success), (text, ResultKind::ToolError)];
    for (text, kind) in DAMAGED.into_iter().flat_map(both_kinds) {
        let world = World::new();
        let id = damaged(&world, text, kind).await;
        let get = Sent::new("tasks/get", json!({"taskId": id}));
        for (what, sent) in [("the Tasks extension", &get), ("a call that waits for its result", &call)] {
            assert_eq!(world.send(sent).await.error(), (200, -32603, UNREADABLE.to_owned()), "{what}: {text}");
        }
        for (revision, method, params) in [
            ("2025-11-25", "tasks/result", json!({"taskId": id})),
            ("next", "tools/async/result", json!({"token": id})),
            ("2025-06-18", "tools/async/get", json!({"token": id})),
        ] {
            let client = Older::connect(&world.mcp, revision).await;
            let error = client.error(&world.mcp, method, params).await;
            assert_eq!(error, (-32603, UNREADABLE.to_owned()), "{method}: {text}");
        }
        let status = Sent::call("get_job_status", json!({"job_id": id})).declaring(no_tasks());
        let envelope = world.result(&status).await["structuredContent"]["data"].clone();
        assert_eq!((&envelope["status"], &envelope["error"]["message"]), (&json!("failed"), &json!(UNREADABLE)));
    }
}

/// In these the message of the status comes from the result.
#[tokio::test]
async fn the_status_of_a_tool_error_says_so() {
    for text in DAMAGED {
        let world = World::new();
        let id = damaged(&world, text, ResultKind::ToolError).await;
        let client = Older::connect(&world.mcp, "2025-11-25").await;
        let error = client.error(&world.mcp, "tasks/get", json!({"taskId": id})).await;
        assert_eq!(error, (-32603, UNREADABLE.to_owned()), "{text}");
        let client = Older::connect(&world.mcp, "next").await;
        let status = client.result(&world.mcp, "tools/async/status", json!({"token": id})).await;
        assert_eq!((&status["status"], &status["error"]), (&json!("failed"), &json!(UNREADABLE)), "{text}");
    }
}

#[tokio::test]
async fn a_damaged_task_is_a_failed_one_in_every_protocol_version_and_the_others_are_listed() {
    for damage in Damage::LOST {
        let (world, store) = World::with_fake_store();
        let call = Sent::call("add", json!({"a": 1, "b": 2}));
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(world.result(&call).await["taskId"].as_str().unwrap().to_owned());
        }
        let damaged = TaskKey::new(call.owner, ids[1].parse().unwrap());
        store.damage(&damaged, damage);
        let got = world.result(&Sent::new("tasks/get", json!({"taskId": ids[1]}))).await;
        assert_eq!((&got["status"], &got["statusMessage"]), (&json!("failed"), &json!(UNREADABLE_RECORD)), "{got}");
        let client = Older::connect(&world.mcp, "2025-11-25").await;
        let listed = client.result(&world.mcp, "tasks/list", json!({})).await;
        let mut listed: Vec<_> =
            listed["tasks"].as_array().unwrap().iter().map(|task| (&task["taskId"], &task["status"])).collect();
        listed.sort_by_key(|(id, _)| ids.iter().position(|known| *id == known));
        assert_eq!(
            listed,
            [
                (&json!(ids[0]), &json!("working")),
                (&json!(ids[1]), &json!("failed")),
                (&json!(ids[2]), &json!("working"))
            ]
        );
        let error = client.error(&world.mcp, "tasks/result", json!({"taskId": ids[1]})).await;
        assert_eq!(error, (-32603, UNREADABLE_RECORD.to_owned()));
    }
}

const UNREADABLE_RECORD: &str = "the stored record of this task cannot be read";

#[tokio::test]
async fn a_task_of_a_newer_version_is_said_to_be_that_and_is_in_no_list() {
    let (world, store) = World::with_fake_store();
    let call = Sent::call("add", json!({"a": 1, "b": 2}));
    let id = world.result(&call).await["taskId"].as_str().unwrap().to_owned();
    store.damage(&TaskKey::new(call.owner, id.parse().unwrap()), Damage::NewerVersion);
    let (_, code, message) = world.send(&Sent::new("tasks/get", json!({"taskId": id}))).await.error();
    assert_eq!(code, -32603);
    assert!(
        message.starts_with("a newer version of the server wrote this task") && message.ends_with("ask again later")
    );
    let client = Older::connect(&world.mcp, "2025-11-25").await;
    assert_eq!(client.result(&world.mcp, "tasks/list", json!({})).await["tasks"], json!([]));
}
