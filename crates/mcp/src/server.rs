//! One MCP server: its endpoint for clients, and its tools for workers.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use longhaul_core::Principal;
use longhaul_core::ports::StoreError;
use longhaul_engine::{Engine, ToolRunner};
use rmcp::ServerHandler;

use crate::router::Router;
use crate::runner::Runner;
use crate::shared::Shared;
use crate::{Body, McpSettings, Policies};
use rmcp_backend::RmcpBackend;

mod rmcp_backend;

/// One MCP server. Clones are the same server.
///
/// It has no state between two requests: any instance can answer any of them.
#[derive(Clone)]
pub struct McpServer {
    router: Arc<Router>,
    runner: Arc<dyn ToolRunner>,
    shared: Arc<Shared>,
}

impl McpServer {
    /// A server whose calls are answered by what `make_handler` makes: one handler for each request, and one for each
    /// leg of a task. Calls of the tools in `policies` become tasks.
    pub fn new<H: ServerHandler>(
        make_handler: impl Fn() -> H + Send + Sync + 'static,
        policies: impl Into<Policies>,
        engine: Engine,
        settings: McpSettings,
    ) -> Self {
        let policies = policies.into();
        let tools = policies.named().map(|(tool, _)| tool.clone()).collect();
        let cleaners = policies.cleaners().clone();
        let shared = Arc::new(Shared::new(engine, policies, settings));
        let make_handler: Arc<dyn Fn() -> H + Send + Sync> = Arc::new(make_handler);
        let runner = Arc::new(Runner::new(Arc::clone(&make_handler), tools, cleaners, Arc::clone(&shared.memory)));
        let backend = Arc::new(RmcpBackend::new(make_handler, Arc::clone(&shared)));
        Self { router: Arc::new(Router::new(backend, Arc::clone(&shared))), runner, shared }
    }

    /// Answers a request to the MCP endpoint, of any HTTP method. `caller` is who sent it, as the HTTP frontend verified
    /// it; host and origin are checked before. Never panics. To say that the client has left, drop the future, or the
    /// body of the answer.
    pub async fn respond(&self, request: Request<Bytes>, caller: impl Into<Principal>) -> Response<Body> {
        self.router.respond(request, caller.into()).await
    }

    /// Reads the keys that sign what clients carry between their requests, and makes them if no instance has. Every
    /// request does so if it has not been done; doing it first makes the first request quicker.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn ready(&self) -> Result<(), StoreError> {
        self.shared.signer.ready().await
    }

    /// What runs the tools of tasks.
    #[must_use]
    pub fn runner(&self) -> Arc<dyn ToolRunner> {
        Arc::clone(&self.runner)
    }

    /// Ends open subscription streams properly, with a last message, and every later one at once.
    pub fn close(&self) {
        self.shared.closing.cancel();
    }
}
