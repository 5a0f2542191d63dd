//! A stored result that cannot be read is an error in every protocol version, never an empty result.

use async_trait::async_trait;
use longhaul_core::ResultKind;
use longhaul_engine::{Attempt, AttemptEnd, ToolRunner};
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
async fn in_the_tasks_extension() {
    for text in DAMAGED {
        let world = World::new();
        let id = damaged(&world, text, ResultKind::Success).await;
        let answer = world.send(&Sent::new("tasks/get", json!({"taskId": id}))).await;
        assert_eq!(answer.error(), (200, -32603, UNREADABLE.to_owned()), "{text}");
    }
}

#[tokio::test]
async fn in_the_tasks_of_2025_11_25() {
    for text in DAMAGED {
        for kind in [ResultKind::Success, ResultKind::ToolError] {
            let world = World::new();
            let id = damaged(&world, text, kind).await;
            let client = Older::connect(&world.mcp, "2025-11-25").await;
            let error = client.error(&world.mcp, "tasks/result", json!({"taskId": id})).await;
            assert_eq!(error, (-32603, UNREADABLE.to_owned()), "{text}");
        }
        let world = World::new();
        let id = damaged(&world, text, ResultKind::ToolError).await;
        let client = Older::connect(&world.mcp, "2025-11-25").await;
        let error = client.error(&world.mcp, "tasks/get", json!({"taskId": id})).await;
        assert_eq!(error, (-32603, UNREADABLE.to_owned()), "its status message comes from the result: {text}");
    }
}

#[tokio::test]
async fn in_operations() {
    for text in DAMAGED {
        let world = World::new();
        let id = damaged(&world, text, ResultKind::ToolError).await;
        let client = Older::connect(&world.mcp, "next").await;
        let error = client.error(&world.mcp, "tools/async/result", json!({"token": id})).await;
        assert_eq!(error, (-32603, UNREADABLE.to_owned()), "{text}");
        let status = client.result(&world.mcp, "tools/async/status", json!({"token": id})).await;
        assert_eq!((&status["status"], &status["error"]), (&json!("failed"), &json!(UNREADABLE)), "{text}");
    }
}

#[tokio::test]
async fn in_asynchronous_calls() {
    for text in DAMAGED {
        let world = World::new();
        let id = damaged(&world, text, ResultKind::Success).await;
        let client = Older::connect(&world.mcp, "2025-06-18").await;
        let error = client.error(&world.mcp, "tools/async/get", json!({"token": id})).await;
        assert_eq!(error, (-32603, UNREADABLE.to_owned()), "{text}");
    }
}

#[tokio::test]
async fn in_jobs() {
    for text in DAMAGED {
        let world = World::new();
        let id = damaged(&world, text, ResultKind::Success).await;
        let status = Sent::call("get_job_status", json!({"job_id": id})).declaring(no_tasks());
        let envelope = world.result(&status).await["structuredContent"]["data"].clone();
        assert_eq!(envelope["status"], "failed", "{text}");
        assert_eq!(envelope["error"]["message"], UNREADABLE, "{text}");
    }
}

#[tokio::test]
async fn in_calls_that_wait_for_their_result() {
    for text in DAMAGED {
        let world = World::new();
        let _id = damaged(&world, text, ResultKind::Success).await;
        let call = Sent::call("add", json!({"a": 1, "b": 2})).with_header("idempotency-key", "k");
        let answer = world.send(&call.declaring(no_tasks())).await;
        assert_eq!(answer.error(), (200, -32603, UNREADABLE.to_owned()), "{text}");
    }
}
