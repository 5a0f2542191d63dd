//! Tools that run on workers and are answered as plain calls.

use longhaul_mcp::TaskPolicy;
use serde_json::json;

use crate::older_client::Older;
use crate::world::{Sent, World, alice, everything, no_tasks};

fn on_worker(_policy: TaskPolicy) -> TaskPolicy {
    TaskPolicy::on_worker()
}

#[tokio::test]
async fn every_client_gets_the_result_and_the_tool_runs_as_a_task() {
    let world = World::with_policies(on_worker);
    for capabilities in [everything(), no_tasks()] {
        let sent = Sent::call("add", json!({"a": 1, "b": 2})).declaring(capabilities);
        let result = world.served(&sent).await.result();
        assert_eq!((&result["resultType"], &result["content"][0]["text"]), (&json!("complete"), &json!("3")));
    }
    let page = world.engine.list(&alice(), None, 10).await.unwrap();
    assert_eq!(page.tasks.iter().filter(|task| task.tool == "add").count(), 2, "they ran on a worker");
}

#[tokio::test]
async fn a_client_of_core_tasks_sees_that_the_tool_makes_no_tasks() {
    let world = World::with_policies(on_worker);
    let client = Older::connect(&world.mcp, "2025-11-25").await;
    let listed = client.result(&world.mcp, "tools/list", json!({})).await;
    let add = listed["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "add").unwrap();
    assert_eq!(add["execution"]["taskSupport"], "forbidden");
}
