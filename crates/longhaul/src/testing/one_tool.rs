//! A server with one tool, which is a function.

use std::sync::Arc;

use longhaul_mcp::TaskContext;
use rmcp::handler::server::tool::IntoCallToolResult;
use rmcp::model::{CallToolRequestParams, CallToolResponse, Tool};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

/// The name of the tool.
pub(super) const NAME: &str = "tool";

/// The server.
#[derive(Clone)]
pub(super) struct OneTool<F>(pub(super) F);

impl<F, Fut> ServerHandler for OneTool<F>
where
    F: Fn(TaskContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoCallToolResult> + Send + 'static,
{
    async fn call_tool(
        &self,
        _request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let task = context.extensions.get::<TaskContext>().cloned();
        let task = task.ok_or_else(|| ErrorData::internal_error("a task has a TaskContext", None))?;
        (self.0)(task).await.into_call_tool_result()
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let schema = serde_json::Map::from_iter([("type".to_owned(), "object".into())]);
        (name == NAME).then(|| Tool::new(NAME, "", Arc::new(schema)))
    }
}
