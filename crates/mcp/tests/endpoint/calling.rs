//! Tools that call other tools of their server.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use futures::future::{join_all, try_join_all};
use longhaul_core::Status;
use longhaul_mcp::{McpServer, McpSettings, TaskContext};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock};
use rmcp::{ErrorData, ServerHandler, schemars, tool, tool_handler, tool_router};
use serde_json::{Value, json};

use crate::tools::{form, short};
use crate::world::{Sent, World, alice, no_tasks};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Count {
    count: u32,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Number {
    n: u32,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Called {
    tool: String,
    arguments: Value,
}

const HOUR_MS: u64 = 3_600_000;

#[derive(Clone)]
struct Family;

#[tool_router]
impl Family {
    /// Adds squares, each of which another tool computes.
    #[tool]
    async fn squares(
        &self,
        Parameters(Count { count }): Parameters<Count>,
        task: TaskContext,
    ) -> Result<CallToolResult, ErrorData> {
        let squares = (0..count).map(|n| {
            let task = task.clone();
            async move { task.call(&format!("square {n}"), "square", json!({"n": n})).await }
        });
        let squares = try_join_all(squares).await?;
        let sum: u32 = squares
            .iter()
            .map(|square| square.structured_content.as_ref().unwrap()["square"].as_u64())
            .map(|square| u32::try_from(square.unwrap()).unwrap())
            .sum();
        Ok(CallToolResult::structured(json!({"sum": sum})))
    }

    #[tool]
    async fn square(&self, Parameters(Number { n }): Parameters<Number>) -> CallToolResult {
        CallToolResult::structured(json!({"square": n * n}))
    }

    /// Calls any tool once, and says what came of it.
    #[tool]
    async fn calls(
        &self,
        Parameters(Called { tool, arguments }): Parameters<Called>,
        task: TaskContext,
    ) -> CallToolResult {
        let called = task.call("the call", &tool, arguments).await;
        let said = match called {
            Ok(result) => json!({"result": result}),
            Err(error) => json!({"code": error.code.0, "message": error.message, "data": error.data}),
        };
        CallToolResult::structured(said)
    }

    #[tool]
    async fn refuses(&self) -> Result<CallToolResult, ErrorData> {
        Err(ErrorData::invalid_params("never", Some(json!({"by": "refuses"}))))
    }

    #[tool]
    async fn cannot(&self) -> CallToolResult {
        CallToolResult::error(vec![ContentBlock::text("could not")])
    }

    #[tool]
    async fn asks(&self, task: TaskContext) -> Result<CallToolResult, ErrorData> {
        drop(task.request_input("really", form("Really?")).await?);
        Ok(CallToolResult::structured(json!({})))
    }

    /// Has a tool called an hour after a fixed moment, fails the first time, and says which task that makes.
    #[tool]
    async fn reminds(
        &self,
        Parameters(Called { tool, arguments }): Parameters<Called>,
        task: TaskContext,
    ) -> CallToolResult {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(longhaul_testkit::given::NOW.as_ms() + HOUR_MS);
        let made = task.call_later("the reminder", &tool, arguments, at).await;
        if task.attempt() == 1 && made.is_ok() {
            panic!("its worker dies here");
        }
        CallToolResult::structured(match made {
            Ok(id) => json!({"id": id}),
            Err(error) => json!({"code": error.code.0, "message": error.message}),
        })
    }

    #[tool]
    async fn plain(&self) -> CallToolResult {
        CallToolResult::structured(json!({}))
    }
}

#[tool_handler]
impl ServerHandler for Family {}

fn family() -> World {
    let mut world = World::new();
    let names = ["squares", "square", "calls", "refuses", "cannot", "asks", "reminds"];
    let policies: BTreeMap<_, _> = names.map(|name| (name.to_owned(), short())).into();
    world.mcp = McpServer::new(|| Family, policies, world.engine.clone(), McpSettings::new([7; 32]));
    world
}

/// What came of a call of `tool` by another one.
async fn said(tool: &str, arguments: Value) -> Value {
    let world = family();
    let id = world.start("calls", json!({"tool": tool, "arguments": arguments})).await;
    world.work().await;
    world.get(&id).await["result"]["structuredContent"].clone()
}

#[tokio::test]
async fn parent_and_child_are_shown_with_each_other() {
    let world = family();
    let id = world.start("squares", json!({"count": 1})).await;
    world.work().await;
    let shown = async |id: &str| world.result(&Sent::new("dev.longhaul/tasks/inspect", json!({"taskId": id}))).await;
    let parent = shown(&id).await;
    assert_eq!(parent.get("parent"), None);
    let journal = parent["journal"].as_array().unwrap();
    let call = journal.iter().find(|entry| entry["kind"] == "step").unwrap();
    let child = shown(call["child"].as_str().unwrap()).await;
    assert_eq!((&child["tool"], &child["parent"]), (&json!("square"), &json!(id)));
}

#[tokio::test]
async fn calls_are_tasks_of_the_same_owner_and_bring_their_results() {
    let world = family();
    let id = world.start("squares", json!({"count": 20})).await;
    world.work().await;
    let task = world.get(&id).await;
    assert_eq!(task["result"]["structuredContent"], json!({"sum": 2_470}), "{task}");
    let tasks = world.engine.list(&alice(), None, 100).await.unwrap().tasks;
    assert_eq!(tasks.iter().filter(|task| task.tool == "square").count(), 20);
    assert!(tasks.iter().all(|task| task.status() == Status::Completed));
}

#[tokio::test]
async fn an_error_of_the_called_tool_is_the_error_of_the_call() {
    let error = said("refuses", json!({})).await;
    assert_eq!(error, json!({"code": -32602, "message": "never", "data": {"by": "refuses"}}));
    let result = said("cannot", Value::Null).await;
    assert_eq!(result["result"]["isError"], true, "{result}");
}

#[tokio::test]
async fn what_cannot_be_called_is_said() {
    for (tool, arguments, code, said_of_it) in [
        ("plain", json!({}), -32602, "name it with `Server::task`"),
        ("nothing", json!({}), -32602, "name it with `Server::task`"),
        ("square", json!({"n": "two"}), -32602, "The arguments of `square` are not valid"),
        ("square", json!([2]), -32602, "have to be a JSON object"),
        ("asks", json!({}), -32021, ""),
    ] {
        let said = said(tool, arguments).await;
        assert_eq!(said["code"], code, "{said}");
        assert!(said["message"].as_str().unwrap().contains(said_of_it), "{said}");
    }
}

#[tokio::test]
async fn a_call_for_later_is_one_task_that_starts_then_and_outlives_its_maker() {
    let world = family();
    let id = world.start("reminds", json!({"tool": "square", "arguments": {"n": 3}})).await;
    let maker = world.work_until(&id, "completed").await;
    let reminder = maker["result"]["structuredContent"]["id"].as_str().unwrap().to_owned();
    let tasks = world.engine.list(&alice(), None, 10).await.unwrap().tasks;
    assert_eq!(tasks.len(), 2, "there is one, although its maker's tool ran twice");
    let waiting = tasks.iter().find(|task| task.id.to_string() == reminder).unwrap();
    let start = longhaul_testkit::given::NOW.plus_ms(HOUR_MS);
    assert_eq!((waiting.awaited_start(), waiting.parent), (Some(start), None));
    world.clock.advance_to(start);
    world.work().await;
    assert_eq!(world.get(&reminder).await["result"]["structuredContent"], json!({"square": 9}));
}

#[tokio::test]
async fn what_cannot_be_called_later_is_said() {
    for (tool, arguments, said) in
        [("plain", json!({}), "name it with `Server::task`"), ("square", json!({"n": "two"}), "not valid")]
    {
        let world = family();
        let id = world.start("reminds", json!({"tool": tool, "arguments": arguments})).await;
        let answer = world.work_until(&id, "completed").await["result"]["structuredContent"].clone();
        assert_eq!(answer["code"], -32602, "{answer}");
        assert!(answer["message"].as_str().unwrap().contains(said), "{answer}");
    }
}

#[tokio::test]
async fn a_plain_call_calls_nothing() {
    let mut world = family();
    world.mcp = McpServer::new(|| Family, BTreeMap::new(), world.engine.clone(), McpSettings::new([7; 32]));
    let call = Sent::call("calls", json!({"tool": "square", "arguments": {"n": 2}})).declaring(no_tasks());
    let said = world.result(&call).await["structuredContent"].clone();
    assert_eq!(said["code"], -32600, "{said}");
    assert!(said["message"].as_str().unwrap().contains("`Server::task`"), "{said}");
}

/// The names of calls are those of steps: whatever is run again, each is made once.
#[tokio::test]
async fn a_crash_makes_no_second_child() {
    let world = family();
    let ids = join_all((0..3).map(|_| world.start("squares", json!({"count": 5})))).await;
    for _ in 0..3 {
        // A worker takes a delivery and dies before it does anything with it.
        drop(world.engine.ports().queue.receive(1, 0, 0).await.unwrap());
    }
    world.work().await;
    for id in ids {
        assert_eq!(world.get(&id).await["status"], "completed");
    }
    let tasks = world.engine.list(&alice(), None, 100).await.unwrap().tasks;
    assert_eq!(tasks.iter().filter(|task| task.tool == "square").count(), 15);
}
