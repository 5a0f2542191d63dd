//! A worker that gets a task whose tool it does not have: two servers on one table, or two versions of one.

use std::collections::BTreeMap;

use longhaul_mcp::{McpServer, McpSettings, TaskPolicy};
use rmcp::model::{JsonObject, ListToolsResult, PaginatedRequestParams, Tool};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;

use crate::world::World;

/// A server with one tool, which is none of the world's. It may list its tools, or return them by name only.
struct Other {
    lists: bool,
}

fn other() -> Tool {
    Tool::new("other", "", JsonObject::new())
}

impl ServerHandler for Other {
    fn get_tool(&self, name: &str) -> Option<Tool> {
        (name == "other").then(other)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.lists.then(other).into_iter().collect()))
    }
}

/// More attempts than a task may fail.
const ATTEMPTS: usize = 7;

#[tokio::test]
async fn a_task_is_left_for_a_worker_that_has_its_tool() {
    for lists in [true, false] {
        let world = World::new();
        let policies = BTreeMap::from([("other".to_owned(), TaskPolicy::optional())]);
        let server = McpServer::new(move || Other { lists }, policies, world.engine.clone(), McpSettings::new([7; 32]));
        let id = world.start("add", json!({"a": 1, "b": 2})).await;
        for _ in 0..ATTEMPTS {
            world.calls.take();
            world.work_with(&*server.runner()).await;
            assert_eq!(world.calls.take().last().map(String::as_str), Some("send"), "it has a message again");
            assert_eq!(world.get(&id).await["status"], "working");
            world.clock.advance_ms(world.engine.settings().lease_ms);
        }
        world.work().await;
        let done = world.get(&id).await;
        assert_eq!(done["status"], "completed", "{done}");
    }
}

/// A handler that names no tool may have every one.
#[tokio::test]
async fn a_handler_that_names_no_tools_is_called() {
    struct Silent;
    impl ServerHandler for Silent {}
    let world = World::new();
    let server = McpServer::new(|| Silent, BTreeMap::new(), world.engine.clone(), McpSettings::new([7; 32]));
    let id = world.start("add", json!({"a": 1, "b": 2})).await;
    world.work_with(&*server.runner()).await;
    assert_eq!(world.get(&id).await["status"], "failed", "the handler itself refuses");
}
