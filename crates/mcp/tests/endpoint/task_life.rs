//! A task from its call to its end.

use serde_json::json;

use crate::schema;
use crate::world::{Sent, World};

#[tokio::test]
async fn a_call_becomes_a_task_that_completes_with_the_result_of_the_tool() {
    let world = World::new();
    let created = world.result(&Sent::call("add", json!({"a": 2, "b": 3}))).await;
    schema::is("tasks-extension", "CreateTaskResult", &created);
    let id = created["taskId"].as_str().unwrap();
    assert_eq!(created["status"], "working");

    let before = world.get(id).await;
    assert_eq!(before["status"], "working");
    world.work().await;
    let task = world.get(id).await;
    assert_eq!(task["status"], "completed");
    schema::is("2026-07-28", "CallToolResult", &task["result"]);
    assert_eq!(task["result"]["content"][0]["text"], "5");
}
