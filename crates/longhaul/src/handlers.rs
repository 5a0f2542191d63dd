//! The handlers of a server, without their type.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use longhaul_engine::Engine;
use longhaul_mcp::{
    McpServer, McpSettings, Policies, Schedule, TaskPolicy, ToolError, check_schedules, check_schemas, check_tools,
    task_support,
};
use rmcp::ServerHandler;

/// The name of a server that has none: that of its program.
pub(crate) fn program() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&path).file_stem();
    name.map_or_else(|| "server".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Creates the author's handlers; hides their type.
#[async_trait]
pub(crate) trait Handlers: Send + Sync {
    fn build(&self, tasks: Policies, engine: Engine, settings: McpSettings) -> McpServer;

    async fn declared(&self) -> Result<BTreeMap<String, TaskPolicy>, ToolError>;

    async fn check(
        &self,
        tasks: &Policies,
        scopes: &BTreeMap<String, BTreeSet<String>>,
        schedules: &[Schedule],
    ) -> Result<(), ToolError>;

    async fn check_schemas(&self, tasks: &Policies) -> Result<(), ToolError>;

    #[cfg(feature = "serve")]
    async fn outline(&self) -> longhaul_mcp::Outline;
}

/// A function that makes them.
pub(crate) struct Made<F>(pub(crate) F);

#[async_trait]
impl<H, F> Handlers for Made<F>
where
    H: ServerHandler,
    F: Fn() -> H + Clone + Send + Sync + 'static,
{
    fn build(&self, tasks: Policies, engine: Engine, settings: McpSettings) -> McpServer {
        McpServer::new(self.0.clone(), tasks, engine, settings)
    }

    async fn declared(&self) -> Result<BTreeMap<String, TaskPolicy>, ToolError> {
        task_support::declared(&self.0).await
    }

    async fn check(
        &self,
        tasks: &Policies,
        scopes: &BTreeMap<String, BTreeSet<String>>,
        schedules: &[Schedule],
    ) -> Result<(), ToolError> {
        check_tools(&self.0, tasks, scopes).await?;
        Ok(check_schedules(&self.0, tasks, schedules).await?)
    }

    async fn check_schemas(&self, tasks: &Policies) -> Result<(), ToolError> {
        check_schemas(&self.0, tasks).await
    }

    #[cfg(feature = "serve")]
    async fn outline(&self) -> longhaul_mcp::Outline {
        longhaul_mcp::outline(&self.0).await
    }
}
