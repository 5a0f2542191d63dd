//! A durable server: an `rmcp` handler, and which of its tools may become tasks.

use std::collections::BTreeMap;
use std::sync::Arc;

use longhaul_engine::Engine;
use longhaul_mcp::{McpServer, McpSettings, TaskPolicy};
use rmcp::ServerHandler;

/// A durable server, not yet running anywhere.
pub struct Server {
    tasks: BTreeMap<String, TaskPolicy>,
    build: Arc<Build>,
}

type Build = dyn Fn(BTreeMap<String, TaskPolicy>, Engine, McpSettings) -> McpServer + Send + Sync;

impl Server {
    /// A server whose calls are answered by what `make_handler` makes. It is called often, in the process that answers
    /// requests and in the one that works: keep shared state behind an `Arc`, and durable state elsewhere.
    pub fn new<H, F>(make_handler: F) -> Self
    where
        H: ServerHandler,
        F: Fn() -> H + Clone + Send + Sync + 'static,
    {
        let build = move |tasks, engine, settings| McpServer::new(make_handler.clone(), tasks, engine, settings);
        Self { tasks: BTreeMap::new(), build: Arc::new(build) }
    }

    /// Says that calls of `tool` may become tasks, and on which terms. Tools that are not named here are answered as
    /// plain calls.
    #[must_use]
    pub fn task(mut self, tool: impl Into<String>, policy: TaskPolicy) -> Self {
        self.tasks.insert(tool.into(), policy);
        self
    }

    pub(crate) fn build(&self, engine: Engine, settings: McpSettings) -> McpServer {
        (self.build)(self.tasks.clone(), engine, settings)
    }
}
