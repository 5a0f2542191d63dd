//! The backend that runs the author's handler in `rmcp`, with what `rmcp` needs in a request and what clients need in
//! its answers.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use longhaul_core::limits;
use rmcp::model::{
    ClientJsonRpcMessage, InitializeRequestParams, JsonObject, ProtocolVersion, RequestId, SubscriptionFilter,
};
use rmcp::service::serve_directly;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tracing::Span;

use crate::Body;
use crate::backend::{Backend, Conversation};
use crate::durable::Durable;
use crate::revision::{VERSION_HEADER, own_revision};
use crate::shared::caller::RequestSpan;
use crate::shared::handler::Wire;
use crate::shared::{Shared, reply};

/// The handlers that `make_handler` makes, each inside a [`Durable`].
pub(super) struct RmcpBackend<H: ServerHandler> {
    make_handler: Arc<dyn Fn() -> H + Send + Sync>,
    shared: Arc<Shared>,
    service: StreamableHttpService<Durable<H>, NeverSessionManager>,
    /// Read from the first handler: all of them are the same.
    revisions: OnceLock<Cow<'static, [ProtocolVersion]>>,
}

impl<H: ServerHandler> RmcpBackend<H> {
    pub(super) fn new(make_handler: Arc<dyn Fn() -> H + Send + Sync>, shared: Arc<Shared>) -> Self {
        let durable = {
            let (make_handler, shared) = (Arc::clone(&make_handler), Arc::clone(&shared));
            move || Ok(Durable::new(make_handler(), Arc::clone(&shared)))
        };
        let service = StreamableHttpService::new(durable, Arc::new(NeverSessionManager::default()), config());
        Self { make_handler, shared, service, revisions: OnceLock::new() }
    }
}

#[async_trait]
impl<H: ServerHandler> Backend for RmcpBackend<H> {
    async fn answer(&self, mut request: Request<Bytes>, id: Option<&RequestId>) -> Response<Body> {
        widen_accept(request.headers_mut());
        serve_as_known(request.headers_mut());
        request.extensions_mut().insert(RequestSpan(Span::current()));
        let answer = self.service.handle(request.map(Full::new)).await.map(BodyExt::boxed_unsync);
        if reply::speaks_json_rpc(&answer) { answer } else { reply::as_json_rpc(answer, id).await }
    }

    fn converse(&self, message: ClientJsonRpcMessage, client: InitializeRequestParams) -> Conversation {
        let (wire, pipes) = Wire::new();
        let durable = Durable::new((self.make_handler)(), Arc::clone(&self.shared));
        let running = serve_directly::<RoleServer, _, _, _, _>(durable, wire, Some(client));
        // The other end was created a few lines above and is still open.
        drop(pipes.to_tool.send(message));
        Conversation::new(pipes, Box::new(running))
    }

    fn has_tool(&self, tool: &str) -> bool {
        (self.make_handler)().get_tool(tool).is_some()
    }

    async fn must_have(&self, tool: &str) -> Result<(), ErrorData> {
        self.shared.tools.must_have(&(self.make_handler)(), &self.shared.policies, tool).await
    }

    async fn check_arguments(&self, tool: &str, arguments: &mut Option<JsonObject>) -> Result<(), ErrorData> {
        let (handler, shared) = ((self.make_handler)(), &self.shared);
        let checked = shared.tools.check_arguments(&handler, &shared.policies, tool, arguments).await;
        checked.map_err(|faults| ErrorData::invalid_params(faults, None))
    }

    fn tells_of_changes(&self, resource: Option<&str>) -> bool {
        let handler = (self.make_handler)();
        let resources = handler.get_info().capabilities.resources;
        if resources.and_then(|resources| resources.subscribe) != Some(true) {
            return false;
        }
        let Some(resource) = resource else { return true };
        let wanted = SubscriptionFilter::builder().resource_subscription(resource).build();
        let accepted =
            handler.accepted_subscription_filter(&wanted).and_then(|accepted| accepted.resource_subscriptions);
        accepted.is_some_and(|accepted| accepted.iter().any(|accepted| accepted == resource))
    }

    fn revisions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.revisions.get_or_init(|| (self.make_handler)().supported_protocol_versions()).clone()
    }
}

fn config() -> StreamableHttpServerConfig {
    StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        // The HTTP frontend checks the host.
        .disable_allowed_hosts()
        .with_max_request_body_bytes(limits::BODY_BYTES_MAX)
}

/// `rmcp` requires that a client accepts both JSON and event streams. Here every client counts as accepting both: it
/// asked for an answer, and there are only these two kinds.
fn widen_accept(headers: &mut HeaderMap) {
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
}

/// Replaces a revision that `rmcp` does not know with one that it knows.
fn serve_as_known(headers: &mut HeaderMap) {
    let named = headers.get(VERSION_HEADER).and_then(|value| value.to_str().ok());
    if let Some(own) = named.and_then(own_revision) {
        headers.insert(VERSION_HEADER, HeaderValue::from_static(own.served_as));
    }
}
