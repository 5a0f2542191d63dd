//! The requests whose cost is counted, and a function that answers them on the thread that asks.

use std::collections::BTreeMap;
use std::sync::Arc;

use http_body_util::BodyExt;
use longhaul_core::Clock;
use longhaul_engine::Engine;
use longhaul_lambda::{Api, Auth, HttpEvent};
use longhaul_mcp::{McpServer, McpSettings, TaskContext, TaskPolicy};
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{ServerCapabilities, ServerConfig};
use rmcp::{ServerHandler, schemars, tool, tool_handler, tool_router};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

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
pub(crate) struct Function {
    api: Api,
    pub(crate) mcp: McpServer,
    pub(crate) runtime: Runtime,
}

impl Function {
    pub(crate) fn new(engine: Engine, clock: Arc<dyn Clock>) -> Self {
        let policies = BTreeMap::from([("countdown".to_owned(), TaskPolicy::optional())]);
        let tools = Tools(Tools::tool_router());
        let mcp = McpServer::new(move || tools.clone(), policies, engine, McpSettings::new([7; 32]));
        let api = Api::new(mcp.clone(), Auth::Anonymous, Vec::new(), clock);
        Self { api, mcp, runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap() }
    }

    /// The answer to an event, to its last byte.
    pub(crate) fn answer(&self, event: &[u8]) -> Vec<u8> {
        self.runtime.block_on(async {
            let request = HttpEvent::read(event).unwrap().into_inner();
            self.api.answer(request.into()).await.into_body().collect().await.unwrap().to_bytes().to_vec()
        })
    }
}

/// A call that becomes a task, as a sample event has it.
pub(crate) fn call() -> Value {
    crate::world::event("api-function-url-call")
}

/// The id of the task that the answer to [`call`] names.
pub(crate) fn task_id(answer: &Value) -> &str {
    answer["result"]["taskId"].as_str().unwrap_or_else(|| panic!("no task: {answer}"))
}

/// The same event with another method and parameters.
pub(crate) fn poll_of(task_id: &str) -> Value {
    let mut event = call();
    let mut body: Value = serde_json::from_str(event["body"].as_str().unwrap()).unwrap();
    body["method"] = "tasks/get".into();
    body["params"] = json!({"taskId": task_id, "_meta": body["params"]["_meta"]});
    event["body"] = body.to_string().into();
    event["headers"]["mcp-method"] = "tasks/get".into();
    event["headers"]["mcp-name"] = task_id.into();
    event
}
