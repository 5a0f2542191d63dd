//! One MCP server: its endpoint for clients, and its tools for workers.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use longhaul_core::{OwnerId, limits};
use longhaul_engine::{Engine, ToolRunner};
use rmcp::model::{ClientJsonRpcMessage, InitializeRequestParams};
use rmcp::service::serve_directly;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio_util::sync::CancellationToken;

use crate::dialects::async_calls::rate::Rate;
use crate::durable::{Durable, Shared, must_have};
use crate::front::Front;
use crate::runner::Runner;
use crate::sealed::Sealer;
use crate::wire::{Pipes, Wire};
use crate::{Body, McpSettings, TaskPolicy};

/// Bytes that a request has besides the arguments that are kept: names, capabilities, the answers of earlier rounds.
const ENVELOPE_BYTES_MAX: usize = 1024 * 1024;

/// One MCP server. Clones are the same server.
///
/// It keeps nothing between two requests: any instance answers any of them.
#[derive(Clone)]
pub struct McpServer {
    front: Arc<Front>,
    runner: Arc<dyn ToolRunner>,
    closing: CancellationToken,
}

impl McpServer {
    /// A server whose calls are answered by what `make_handler` makes: one handler for each request, and one for each
    /// leg of a task. Calls of the tools in `policies` become tasks.
    pub fn new<H: ServerHandler>(
        make_handler: impl Fn() -> H + Send + Sync + 'static,
        policies: BTreeMap<String, TaskPolicy>,
        engine: Engine,
        settings: McpSettings,
    ) -> Self {
        let closing = CancellationToken::new();
        let sealer = Sealer::new(settings.state_key);
        let shared =
            Arc::new(Shared { engine, policies, settings, sealer, rate: Rate::default(), closing: closing.clone() });
        let make_handler: Arc<dyn Fn() -> H + Send + Sync> = Arc::new(make_handler);
        let runner = Arc::new(Runner::new(Arc::clone(&make_handler)));
        let inner = Arc::new(Served::new(make_handler, Arc::clone(&shared)));
        Self { front: Arc::new(Front::new(inner, shared)), runner, closing }
    }

    /// Answers a request to the MCP endpoint, of any HTTP method. `owner` is who calls, as the front door verified it;
    /// host and origin are checked before. Never panics. Dropping the future, or the body of its answer, is how a
    /// client leaves.
    pub async fn respond(&self, request: Request<Bytes>, owner: OwnerId) -> Response<Body> {
        self.front.respond(request, owner).await
    }

    /// What runs the tools of tasks.
    #[must_use]
    pub fn runner(&self) -> Arc<dyn ToolRunner> {
        Arc::clone(&self.runner)
    }

    /// Ends open subscription streams in order, and every later one at once.
    pub fn close(&self) {
        self.closing.cancel();
    }
}

/// The handler as the front sees it, whatever its type.
#[async_trait]
pub(crate) trait Inner: Send + Sync {
    /// What `rmcp` and the handler answer to an HTTP request.
    async fn answer(&self, request: Request<Bytes>) -> Response<Body>;

    /// Speaks with the handler past HTTP: its answer to `message`, and all that it says before. `client` is what a
    /// handshake would have told it.
    fn converse(&self, message: ClientJsonRpcMessage, client: InitializeRequestParams) -> Conversation;

    /// Refuses a tool that is not there (`-32602`).
    fn must_have(&self, tool: &str) -> Result<(), ErrorData>;
}

/// An exchange with the handler. Dropping it drops whatever the handler is at.
pub(crate) struct Conversation {
    pub(crate) pipes: Pipes,
    /// The service that drives the handler, whatever its type.
    _running: Box<dyn Any + Send + Sync>,
}

struct Served<H: ServerHandler> {
    make_handler: Arc<dyn Fn() -> H + Send + Sync>,
    shared: Arc<Shared>,
    service: StreamableHttpService<Durable<H>, NeverSessionManager>,
}

impl<H: ServerHandler> Served<H> {
    fn new(make_handler: Arc<dyn Fn() -> H + Send + Sync>, shared: Arc<Shared>) -> Self {
        let durable = {
            let (make_handler, shared) = (Arc::clone(&make_handler), Arc::clone(&shared));
            move || Ok(Durable::new(make_handler(), Arc::clone(&shared)))
        };
        let service = StreamableHttpService::new(durable, Arc::new(NeverSessionManager::default()), config());
        Self { make_handler, shared, service }
    }
}

#[async_trait]
impl<H: ServerHandler> Inner for Served<H> {
    async fn answer(&self, request: Request<Bytes>) -> Response<Body> {
        self.service.handle(request.map(Full::new)).await.map(BodyExt::boxed_unsync)
    }

    fn converse(&self, message: ClientJsonRpcMessage, client: InitializeRequestParams) -> Conversation {
        let (wire, pipes) = Wire::new();
        let durable = Durable::new((self.make_handler)(), Arc::clone(&self.shared));
        let running = serve_directly::<RoleServer, _, _, _, _>(durable, wire, Some(client));
        // The other end was made a line above and is still there.
        drop(pipes.to_tool.send(message));
        Conversation { pipes, _running: Box::new(running) }
    }

    fn must_have(&self, tool: &str) -> Result<(), ErrorData> {
        must_have(&(self.make_handler)(), &self.shared, tool)
    }
}

fn config() -> StreamableHttpServerConfig {
    StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        // The front door knows which hosts are ours.
        .disable_allowed_hosts()
        .with_max_request_body_bytes(limits::REQUEST_BYTES_MAX + ENVELOPE_BYTES_MAX)
}
