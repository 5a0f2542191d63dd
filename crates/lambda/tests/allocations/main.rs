//! How often a request allocates memory, from its event to the last byte of its answer: a number that is the same on every
//! machine, unlike a time. What the threads of the store allocate is not counted.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test panics")]

use std::collections::BTreeMap;
use std::sync::Arc;

use allocation_counter::measure;
use http_body_util::BodyExt;
use longhaul_lambda::{Api, Auth, HttpEvent};
use longhaul_mcp::{McpServer, McpSettings, TaskContext, TaskPolicy};
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{ServerCapabilities, ServerConfig};
use rmcp::{ServerHandler, schemars, tool, tool_handler, tool_router};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

#[path = "../function/world.rs"]
#[expect(dead_code, reason = "the other tests need more of it")]
mod world;

use world::World;

/// The least of so many requests counts: some allocate for those that follow.
const REQUESTS: usize = 20;

/// Less than a tenth above what they are today: 457 of an accepted call, 174 of a poll.
const POLL_MAX: u64 = 190;
const ACCEPT_MAX: u64 = 500;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Countdown {
    seconds: u32,
}

/// The tool that the sample events call.
#[derive(Clone)]
struct Tools(ToolRouter<Self>);

#[tool_router]
impl Tools {
    #[tool(description = "Counts down")]
    async fn countdown(&self, Parameters(Countdown { seconds }): Parameters<Countdown>, _task: TaskContext) -> String {
        seconds.to_string()
    }
}

#[tool_handler(router = self.0)]
impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}

/// A function and the thread that it runs on.
struct Function {
    api: Api,
    runtime: Runtime,
}

impl Function {
    fn new() -> Self {
        let world = World::new();
        let policies = BTreeMap::from([("countdown".to_owned(), TaskPolicy::optional())]);
        let tools = Tools(Tools::tool_router());
        let mcp = McpServer::new(move || tools.clone(), policies, world.engine.clone(), McpSettings::new([7; 32]));
        let api = Api::new(mcp, Auth::Anonymous, Vec::new(), Arc::clone(&world.clock) as _);
        Self { api, runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap() }
    }

    fn answer(&self, event: &[u8]) -> Vec<u8> {
        self.runtime.block_on(async {
            let request = HttpEvent::read(event).unwrap().into_inner();
            self.api.answer(request.into()).await.into_body().collect().await.unwrap().to_bytes().to_vec()
        })
    }

    /// The least number of allocations of a request, and one of its answers.
    fn allocations(&self, event: &Value) -> (u64, Value) {
        let (event, mut answer) = (event.to_string(), Vec::new());
        let counts = (0..REQUESTS).map(|_| measure(|| answer = self.answer(event.as_bytes())).count_total);
        (counts.min().unwrap(), serde_json::from_slice(&answer).unwrap())
    }
}

/// The sample event with another method and parameters.
fn poll_of(task_id: &str) -> Value {
    let mut event = world::event("api-function-url-call");
    let mut body: Value = serde_json::from_str(event["body"].as_str().unwrap()).unwrap();
    body["method"] = "tasks/get".into();
    body["params"] = json!({"taskId": task_id, "_meta": body["params"]["_meta"]});
    event["body"] = body.to_string().into();
    event["headers"]["mcp-method"] = "tasks/get".into();
    event["headers"]["mcp-name"] = task_id.into();
    event
}

#[test]
fn an_accepted_call_and_a_poll_allocate_as_often_as_they_did() {
    let function = Function::new();
    let (accept, accepted) = function.allocations(&world::event("api-function-url-call"));
    let task_id = accepted["result"]["taskId"].as_str().unwrap_or_else(|| panic!("no task: {accepted}"));
    let (poll, polled) = function.allocations(&poll_of(task_id));
    assert_eq!(polled["result"]["status"], "working", "{polled}");
    println!("allocations: {accept} of an accepted call, {poll} of a poll");
    assert!(accept <= ACCEPT_MAX && poll <= POLL_MAX, "{accept} of an accepted call, {poll} of a poll");
}
