//! A server that is a part of another program, which has a listener, paths, layers and callers of its own.

use std::convert::Infallible;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::Bytes;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use longhaul_core::{Identity, OwnerId, Principal, Scopes, VerifiedIdentity};
use longhaul_http::{Body, CALLBACKS_PATH, Challenge, Identified, Identify, MCP_PATH, Rejection, audited};
use tower_service::Service;
use tracing::Instrument;

use super::http_server::Endpoint;
use super::{Running, health};

impl Running {
    /// The MCP endpoint as a `tower` service, with the callers that the options say: one user, unless they say
    /// otherwise. It answers at every path at which the program mounts it, so that `/mcp` stays free for a route of the
    /// program's own. The allowed `Host` and `Origin` headers are those of the options. The program limits connections
    /// and the time that a body may take.
    ///
    /// ```
    /// use axum::Router;
    /// use axum::routing::get;
    /// use longhaul::serve::{self, Options};
    /// # use longhaul::rmcp::{self, ServerHandler, tool, tool_handler, tool_router};
    /// # use longhaul::{Server, TaskPolicy};
    /// # #[derive(Clone)]
    /// # struct Reports;
    /// # #[tool_router]
    /// # impl Reports {
    /// #     #[tool]
    /// #     async fn report(&self) -> String { String::new() }
    /// # }
    /// # #[tool_handler]
    /// # impl ServerHandler for Reports {}
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("tasks.db");
    ///
    /// let server = Server::new(|| Reports).task("report", TaskPolicy::optional());
    /// let running = serve::start(&server, &Options::default().database(file).mounted()).await?;
    /// let router: Router = Router::new()
    ///     .route("/version", get(async || "1.0"))
    ///     .nest_service("/reports/mcp", running.service());
    /// # drop(router);
    /// // … axum::serve(listener, router).with_graceful_shutdown(…).await?;
    /// running.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn service(&self) -> McpService {
        McpService { endpoint: self.endpoint().cloned() }
    }

    /// The MCP endpoint for callers that the program has verified. A layer of its own puts a [`Caller`] into the
    /// extensions of each request; a request without one is refused with 401.
    ///
    /// ```
    /// use axum::{Extension, Router};
    /// use longhaul::serve::{Caller, Running};
    ///
    /// fn for_alice(running: &Running) -> Router {
    ///     let alice = Caller::new("https://login.example.com", "alice");
    ///     Router::new().nest_service("/mcp", running.service_for_callers()).layer(Extension(alice))
    /// }
    /// ```
    #[must_use]
    pub fn service_for_callers(&self) -> McpService {
        let endpoint = self.endpoint().cloned();
        let endpoint = endpoint
            .map(|Endpoint { frontend, mcp }| Endpoint { frontend: frontend.identified_by(Arc::new(ByHost)), mcp });
        McpService { endpoint }
    }
}

/// The MCP endpoint as a `tower` service, for the routers of `axum` and others.
#[derive(Clone)]
pub struct McpService {
    /// None in a process that only runs tasks.
    endpoint: Option<Endpoint>,
}

impl<B> Service<Request<B>> for McpService
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>> + Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let Some(endpoint) = self.endpoint.clone() else {
            return Box::pin(std::future::ready(Ok(health::nothing_else())));
        };
        below_its_own_root(request.uri_mut());
        let audited = audited(&mut request, None::<&str>, None);
        Box::pin(async move { Ok(endpoint.answer(request).await) }.instrument(audited))
    }
}

/// The path that the endpoint has when nothing is around it: that of a callback, or else that of MCP.
fn below_its_own_root(uri: &mut Uri) {
    let path = uri.path();
    let own = path.find(CALLBACKS_PATH).and_then(|at| path.get(at..)).unwrap_or(MCP_PATH);
    let mut parts = uri.clone().into_parts();
    if let Ok(own) = PathAndQuery::try_from(own) {
        parts.path_and_query = Some(own);
        *uri = Uri::from_parts(parts).unwrap_or_default();
    }
}

/// The verified caller of a request to a mounted server.
///
/// ```
/// use longhaul::serve::Caller;
///
/// let caller = Caller::new("https://login.example.com", "alice").scopes(["reports:read"]);
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(caller);
/// ```
#[derive(Clone, Debug)]
pub struct Caller(Principal);

impl Caller {
    /// A caller who may do everything with its own tasks. `subject` is unique at `issuer`, and never given to another
    /// caller: tasks belong to both together.
    #[must_use]
    pub fn new(issuer: impl Into<String>, subject: impl Into<String>) -> Self {
        let identity = VerifiedIdentity::new(issuer, subject);
        let VerifiedIdentity { issuer, subject, .. } = &identity;
        let owner = OwnerId::of(Identity::Verified { issuer, subject, tenant: "" });
        Self(Principal { owner, identity: Some(identity), scopes: Scopes::Unrestricted })
    }

    /// Only with these scopes: tools that need others are refused.
    #[must_use]
    pub fn scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.0.scopes = Scopes::Granted(scopes.into_iter().map(Into::into).collect());
        self
    }

    /// With a claim, which tools read by [`VerifiedCaller`](crate::VerifiedCaller).
    #[must_use]
    pub fn claim(mut self, name: impl Into<String>, value: impl Into<serde_json::Value>) -> Self {
        if let Some(identity) = &mut self.0.identity {
            identity.claims.insert(name.into(), value.into());
        }
        self
    }
}

/// Identifies callers by the extension that the host has put into the request.
struct ByHost;

#[async_trait]
impl Identify for ByHost {
    async fn identify(&self, request: &Parts) -> Result<Identified, Rejection> {
        let Some(Caller(principal)) = request.extensions.get() else {
            return Err(Rejection::Unauthorized {
                reason: "the server does not know the caller: its own program has to verify it".into(),
                challenge: Challenge::default().unauthorized(None, ""),
            });
        };
        Ok(Identified { principal: principal.clone(), challenge: Challenge::default() })
    }
}
