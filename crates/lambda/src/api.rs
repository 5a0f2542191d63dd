//! The API function: an event in, an MCP response out. Nothing runs after the response.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Either, select};
use http::header::{ACCESS_CONTROL_REQUEST_METHOD, HeaderName, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use lambda_http::request::{LambdaRequest, RequestContext};
use lambda_http::{Adapter, LambdaEvent, RequestExt};
use lambda_runtime::tower::ServiceBuilder;
use longhaul_core::{Clock, Timestamp};
use longhaul_http::{HttpFrontend, Identify, OriginPolicy, Rejection, Sender, WebOrigin, audited};
use longhaul_mcp::{Body, McpServer};
use tracing::field::Empty;
use tracing::{Instrument, Span};

use crate::buffered::{self, Whole};
use crate::caller::{AwsCaller, source_address};
use crate::metrics::EmbeddedMetrics;
use crate::{ApiConfig, Auth, HttpEvent, Responses, streamed};

/// How long before the function's deadline a request is abandoned, so that there is time to tell the client.
const RESERVE_MS: u64 = 500;

/// A second header for a challenge. Function URLs and REST APIs rename `WWW-Authenticate`, and a proxy in front of the
/// function can restore the name from this one.
const SECOND_CHALLENGE: HeaderName = HeaderName::from_static("x-longhaul-www-authenticate");

/// Whether web pages may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pages {
    /// The listed origins may. A function URL and an HTTP API know the list too. They answer preflight requests, and
    /// name the allowed origin in each answer. A second such header would make browsers refuse the answer.
    Listed,
    None,
}

/// The API function of one sandbox. Clones are the same function.
#[derive(Clone)]
pub struct Api {
    frontend: HttpFrontend,
    pages: Pages,
    mcp: McpServer,
    clock: Arc<dyn Clock>,
    metrics: Option<Arc<EmbeddedMetrics>>,
}

impl Api {
    /// A function that answers with `mcp`, for callers that are identified by `auth`, and for web pages from
    /// `allow_origins`.
    #[must_use]
    pub fn new(mcp: McpServer, auth: Auth, allow_origins: Vec<WebOrigin>, clock: Arc<dyn Clock>) -> Self {
        let pages = if allow_origins.is_empty() { Pages::None } else { Pages::Listed };
        let caller = AwsCaller::new(auth, Arc::clone(&clock));
        let frontend = HttpFrontend::new(OriginPolicy::behind_router(allow_origins)).identified_by(Arc::new(caller));
        Self { frontend, pages, mcp, clock, metrics: None }
    }

    /// The same function, whose callers are identified by `caller`.
    #[must_use]
    pub fn identified_by(mut self, caller: Arc<dyn Identify>) -> Self {
        self.frontend = self.frontend.identified_by(caller);
        self
    }

    /// The same function, which counts its answers.
    #[must_use]
    pub fn measured_by(mut self, metrics: Arc<EmbeddedMetrics>) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Answers one request as a whole. If Lambda cannot deliver the answer that way, the client gets an error.
    pub async fn answer_whole(&self, request: lambda_http::Request) -> Response<Body> {
        let request = request.map(bytes_of);
        let asked = request.body().clone();
        buffered::deliverable(self.answer_bytes(request).await, &asked).await
    }

    /// Answers one request. If the response is not ready before the function's deadline, the client gets an error. A
    /// tool that is still running is dropped, as if its client had left, and an open stream is closed.
    pub async fn answer(&self, request: lambda_http::Request) -> Response<Body> {
        self.answer_bytes(request.map(bytes_of)).await
    }

    async fn answer_bytes(&self, request: Request<Bytes>) -> Response<Body> {
        let adds_cors = self.pages == Pages::Listed && comes_from_http_api(&request);
        // An HTTP API passes preflight requests on, and adds to the answer what the page may do. Nothing is done for
        // them.
        if adds_cors && is_preflight(&request) {
            return preflight();
        }
        let began_at = self.clock.now();
        let mut answer = self.answer_in_time(request).await;
        challenge_twice(answer.headers_mut());
        if adds_cors {
            without_cors(answer.headers_mut());
        }
        if let Some(metrics) = &self.metrics {
            metrics.answered(&answer, self.clock.now().since_ms(began_at));
        }
        longhaul_core::spans::flush();
        answer
    }

    async fn answer_in_time(&self, mut request: Request<Bytes>) -> Response<Body> {
        let deadline = request.lambda_context_ref().map(|context| Timestamp::from_ms(context.deadline));
        let request_id = request.lambda_context_ref().map(|context| context.request_id.clone());
        let address = source_address(request.extensions());
        let audited = audited(&mut request, address, request_id.as_deref());
        let span = tracing::info_span!(
            parent: &audited,
            "request",
            request_id,
            owner = Empty,
            task_id = Empty,
            attempt = Empty,
            trace = Empty
        );
        // The span of the audit log is there even if the filter of the other lines drops this one.
        let answered = self.answer_whenever(request, &span).instrument(span.clone());
        let answered = pin!(answered.instrument(audited.clone()));
        let Some(left_ms) = time_left_ms(deadline, self.clock.now()) else { return answered.await };
        let gives_up_at = self.clock.now().plus_ms(left_ms);
        match select(answered, self.clock.sleep_ms(left_ms)).await {
            Either::Left((answer, _)) => answer.map(|body| until(gives_up_at, &self.clock, &span, body)),
            Either::Right(_) => {
                span.in_scope(|| tracing::warn!("a request took too long and was abandoned"));
                Rejection::TooSlow.into_response()
            }
        }
    }

    async fn answer_whenever(&self, request: Request<Bytes>, span: &Span) -> Response<Body> {
        let server = async |request: Request<Bytes>, sender: Sender| match sender {
            Sender::Caller(caller) => {
                span.record("owner", tracing::field::display(caller.owner));
                self.mcp.respond(request, *caller).await
            }
            Sender::Holder { token } => self.mcp.call_back(&token, request.body()).await,
        };
        let answer = self.frontend.answer(request.map(Full::new), server).await;
        tracing::info!(status = answer.status().as_u16(), "answered");
        answer
    }

    /// Answers requests until the sandbox ends.
    #[expect(clippy::future_not_send, reason = "a sandbox has one thread for requests; bodies of answers need no more")]
    pub async fn run(self, config: &ApiConfig) -> Result<(), lambda_runtime::Error> {
        let api = &self;
        match config.responses {
            Responses::Buffered => {
                let answer = |request| async move { Ok::<_, Infallible>(Whole(api.answer_whole(request).await)) };
                let adapter = Adapter::from(lambda_http::service_fn(answer));
                lambda_runtime::run(ServiceBuilder::new().map_request(read).service(adapter)).await
            }
            Responses::Streamed => streamed::run(|request| api.answer(request)).await,
        }
    }
}

fn read(event: LambdaEvent<HttpEvent>) -> LambdaEvent<LambdaRequest> {
    LambdaEvent::new(event.payload.into_inner(), event.context)
}

/// Whether a function URL or an HTTP API sent this request, and not a REST API.
fn comes_from_http_api(request: &Request<Bytes>) -> bool {
    matches!(request.request_context_ref(), Some(RequestContext::ApiGatewayV2(_)))
}

fn challenge_twice(headers: &mut HeaderMap) {
    if let Some(challenge) = headers.get(WWW_AUTHENTICATE).cloned() {
        headers.insert(SECOND_CHALLENGE, challenge);
    }
}

fn without_cors(headers: &mut HeaderMap) {
    let said: Vec<_> = headers.keys().filter(|name| name.as_str().starts_with("access-control-")).cloned().collect();
    for name in said {
        headers.remove(name);
    }
}

/// Whether a browser asks if a web page may send a request.
fn is_preflight(request: &Request<Bytes>) -> bool {
    request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight() -> Response<Body> {
    let mut answer = Response::new(Full::default().boxed_unsync());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer
}

/// How long a request may take. A deadline that has passed when the request arrives is ignored: some development hosts
/// send a constant.
fn time_left_ms(deadline: Option<Timestamp>, now: Timestamp) -> Option<u64> {
    let left_ms = deadline?.since_ms(now);
    (left_ms > 0).then(|| left_ms.saturating_sub(RESERVE_MS.min(left_ms / 4)))
}

/// The body of an event, without copying it.
fn bytes_of(body: lambda_http::Body) -> Bytes {
    match body {
        lambda_http::Body::Text(text) => text.into(),
        lambda_http::Body::Binary(bytes) => bytes.into(),
        _ => Bytes::new(),
    }
}

/// The body, ended at `gives_up_at` unless it has ended on its own; it is polled within `span`. A body of known size is
/// complete already and is returned as it is.
pub(crate) fn until(gives_up_at: Timestamp, clock: &Arc<dyn Clock>, span: &Span, body: Body) -> Body {
    if body.size_hint().exact().is_some() {
        return body;
    }
    let clock = Arc::clone(clock);
    let gives_up = async move {
        let left_ms = gives_up_at.since_ms(clock.now());
        clock.sleep_ms(left_ms).await;
    };
    Bounded { body, gives_up: gives_up.boxed(), span: span.clone() }.boxed_unsync()
}

struct Bounded {
    body: Body,
    gives_up: BoxFuture<'static, ()>,
    span: Span,
}

impl http_body::Body for Bounded {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let span = self.span.clone();
        let _entered = span.enter();
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        self.gives_up.poll_unpin(context).map(|()| {
            tracing::warn!("a stream was still open shortly before the function's deadline, and was closed");
            None
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
