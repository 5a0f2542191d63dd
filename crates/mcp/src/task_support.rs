//! Tools that say themselves that their calls may become tasks.

use std::collections::BTreeMap;

use rmcp::ServerHandler;
use rmcp::model::{JsonObject, MetaObject, Tool};
use serde_json::Value;

use crate::tools::handler::catch;
use crate::{TaskPolicy, ToolError, tools};

/// The key in a tool's `_meta`, with the values of `execution.taskSupport` in MCP `2025-11-25`.
const KEY: &str = "dev.longhaul/taskSupport";

/// The `meta` of a tool whose calls may become tasks: [`TaskPolicy::optional`], without its name in `Server::task`.
///
/// ```
/// # use longhaul_mcp as longhaul;
/// use longhaul::{TaskContext, task_support};
/// use rmcp::{ServerHandler, tool, tool_handler, tool_router};
///
/// #[derive(Clone)]
/// struct Reports;
///
/// #[tool_router]
/// impl Reports {
///     #[tool(meta = task_support::optional())]
///     async fn sales(&self, task: TaskContext) -> String {
///         task.step("add up", async || "1,000 sold".to_owned()).await
///     }
/// }
///
/// #[tool_handler]
/// impl ServerHandler for Reports {}
/// ```
///
/// A policy that names the tool counts instead, or a function that decides about all tools.
#[must_use]
pub fn optional() -> MetaObject {
    declaring("optional")
}

/// The `meta` of a tool whose calls become tasks always: [`TaskPolicy::required`].
#[must_use]
pub fn required() -> MetaObject {
    declaring("required")
}

fn declaring(support: &str) -> MetaObject {
    MetaObject(JsonObject::from_iter([(KEY.to_owned(), support.into())]))
}

/// The tools that say themselves that their calls may become tasks, among those that the handler lists to a caller
/// about whom it knows nothing.
///
/// # Errors
/// [`ToolError::Policy`] for a tool that says something else.
pub async fn declared<H: ServerHandler>(
    make_handler: impl FnOnce() -> H,
) -> Result<BTreeMap<String, TaskPolicy>, ToolError> {
    let listed = catch(async { tools::list_whole(&make_handler()).await.unwrap_or_default() }).await;
    listed.unwrap_or_default().iter().filter_map(|tool| Some((tool, said_by(tool)?))).map(policy_of).collect()
}

fn said_by(tool: &Tool) -> Option<&Value> {
    tool.meta.as_ref()?.0.get(KEY)
}

fn policy_of((tool, said): (&Tool, &Value)) -> Result<(String, TaskPolicy), ToolError> {
    let tool = tool.name.to_string();
    match said.as_str() {
        Some("optional") => Ok((tool, TaskPolicy::optional())),
        Some("required") => Ok((tool, TaskPolicy::required())),
        Some(_) | None => {
            let why = format!("`{KEY}` is {said} in its `_meta`: say \"optional\" or \"required\", or leave it out");
            Err(ToolError::Policy { tool, why })
        }
    }
}
