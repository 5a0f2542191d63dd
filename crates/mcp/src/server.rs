//! One MCP server: its endpoint for clients, and its tools for workers.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use longhaul_core::Principal;
use longhaul_core::ports::StoreError;
use longhaul_engine::{Engine, ToolRunner};
use rmcp::ServerHandler;
use rmcp_backend::RmcpBackend;

use crate::backend::Backend;
use crate::router::Router;
use crate::runner::Runner;
use crate::schedule::Schedule;
use crate::schedules::{Looked, Schedules};
use crate::signing::signer::KeyTexts;
use crate::state::Shared;
use crate::{Body, McpSettings, Policies, callbacks};

mod rmcp_backend;

/// One MCP server. Clones are the same server.
///
/// It has no state between two requests: any instance can answer any of them.
#[derive(Clone)]
pub struct McpServer {
    router: Arc<Router>,
    runner: Arc<dyn ToolRunner>,
    shared: Arc<Shared>,
    schedules: Arc<Schedules>,
}

impl McpServer {
    /// A server whose calls are answered by the handlers that `make_handler` makes: one for each request, and one for
    /// each attempt of a task. Calls of the tools in `policies` become tasks.
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
        let backend: Arc<dyn Backend> = Arc::new(RmcpBackend::new(Arc::clone(&make_handler), Arc::clone(&shared)));
        let runner = Runner::new(make_handler, tools, cleaners, Arc::clone(&backend), Arc::clone(&shared));
        let schedules = Arc::new(Schedules::new(Arc::clone(&shared), &[]));
        Self {
            router: Arc::new(Router::new(backend, Arc::clone(&shared))),
            runner: Arc::new(runner),
            shared,
            schedules,
        }
    }

    /// The same server, which makes the calls of these schedules when it is asked to check them.
    #[must_use]
    pub fn with_schedules(mut self, schedules: &[Schedule]) -> Self {
        self.schedules = Arc::new(Schedules::new(Arc::clone(&self.shared), schedules));
        self
    }

    /// Whether there is anything to look at.
    #[must_use]
    pub fn has_schedules(&self) -> bool {
        !self.schedules.are_none()
    }

    /// Accepts a task for each schedule that is due, unless the task exists. It may be called at any time, any number
    /// of times, and in many processes at once: each run is one task. A run that was missed starts late, so a check
    /// once a minute, and soon after the time that [`Looked::next_at`] says, is enough.
    pub async fn look_at_schedules(&self) -> Looked {
        self.schedules.look().await
    }

    /// Answers a request to the MCP endpoint, of any HTTP method. `caller` is who sent it, as the HTTP frontend
    /// verified it; host and origin are checked before. Never panics. To say that the client has left, drop the future,
    /// or the body of the answer.
    pub async fn respond(&self, request: Request<Bytes>, caller: impl Into<Principal>) -> Response<Body> {
        self.router.respond(request, caller.into()).await
    }

    /// Takes the value that a sender with this token of a callback sends: the token is the right to send it. The HTTP
    /// frontend has checked the rest of the request.
    pub async fn call_back(&self, token: &str, value: &[u8]) -> Response<Body> {
        callbacks::answer(&self.shared, token, value).await
    }

    /// Reads the keys that sign what clients carry between their requests, and makes them if no instance has. Every
    /// request does so if it has not been done; doing it first makes the first request quicker. Mailboxes of
    /// [`key_mailboxes`](crate::key_mailboxes) that were `read` already are not read again.
    pub async fn ready(&self, read: &KeyTexts) -> Result<(), StoreError> {
        self.shared.signer.ready(read).await
    }

    /// The runner of the tools of tasks.
    #[must_use]
    pub fn runner(&self) -> Arc<dyn ToolRunner> {
        Arc::clone(&self.runner)
    }

    /// Ends open subscription streams properly, with a last message, and every later one at once.
    pub fn close(&self) {
        self.shared.closing.cancel();
    }
}
