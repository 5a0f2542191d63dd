//! The HTTP server: accepts connections and serves them.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, OnceLock};

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;
use longhaul_console::Console;
use longhaul_core::Clock;
use longhaul_http::{Body, HttpFrontend, Sender, audited};
use longhaul_mcp::McpServer;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::connections::{
    Admission, AnswerBody, Connection, ConnectionLimits, Connections, Exchange, Expired, Incidents, RequestBody, Slot,
    Watched,
};
use super::health::{self, Health};
use super::metrics::Metrics;
use crate::SystemClock;
use crate::serve::limits::{ACCEPT_BACKOFF_MS, DRAIN_WAIT, GOODBYE_WAIT, HEAD_BYTES_MAX, RESETS_MAX, STREAMS_MAX};

/// The answer to a client when the server has all connections that it may have. It is written without waiting.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n\
    Content-Type: text/plain\r\nContent-Length: 64\r\n\r\n\
    too many connections are open: close some of them, or try again\n";

/// The handlers of requests.
pub(crate) struct Service {
    pub(crate) health: Arc<Health>,
    /// Unless the process answers questions about its health only.
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) console: Option<Console>,
    /// On the port of the metrics only.
    pub(crate) metrics: Option<Arc<Metrics>>,
}

/// The MCP endpoint.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) frontend: HttpFrontend,
    /// Once it has its store and its queue.
    pub(crate) mcp: Arc<OnceLock<McpServer>>,
}

/// Serves until `stop` fires, then lets open answers end.
pub(crate) async fn serve(listener: TcpListener, service: Service, limits: ConnectionLimits, stop: CancellationToken) {
    let connections = Connections::new(limits);
    let server = Server { builder: builder(&limits), service, stop };
    let tasks = TaskTracker::new();
    accept(&listener, &connections, &Arc::new(server), &tasks).await;
    drop(listener);
    tasks.close();
    if tokio::time::timeout(DRAIN_WAIT, tasks.wait()).await.is_err() {
        tracing::warn!("some answers were cut off");
        connections.close_all();
    }
}

/// The state that all connections share.
struct Server {
    builder: auto::Builder<TokioExecutor>,
    service: Service,
    stop: CancellationToken,
}

/// The limits of HTTP itself. The time for heads is watched by [`Connection`], from before the protocol is known.
fn builder(limits: &ConnectionLimits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    let head_bytes = usize::try_from(HEAD_BYTES_MAX).unwrap_or(usize::MAX);
    builder.http1().max_buf_size(head_bytes).timer(TokioTimer::new()).header_read_timeout(None);
    builder
        .http2()
        .max_header_list_size(HEAD_BYTES_MAX)
        .max_concurrent_streams(STREAMS_MAX)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.times.ping)
        .keep_alive_timeout(limits.times.ping);
    builder
}

async fn accept(listener: &TcpListener, connections: &Arc<Connections>, server: &Arc<Server>, tasks: &TaskTracker) {
    let mut incidents = Incidents::default();
    let mut pause_ms = ACCEPT_BACKOFF_MS.0;
    loop {
        let accepted = tokio::select! {
            biased;
            () = server.stop.cancelled() => return,
            () = incidents.due() => {
                incidents.log();
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                incidents.failed(error);
                // Such as too many open files: give others time to close, and have one closed that nobody needs.
                connections.close_one();
                SystemClock.sleep_ms(pause_ms).await;
                pause_ms = ACCEPT_BACKOFF_MS.1.min(pause_ms * 2);
                continue;
            }
        };
        pause_ms = ACCEPT_BACKOFF_MS.0;
        let slot = match connections.admit(peer.ip()).await {
            Admission::Served(slot) => slot,
            Admission::InPlaceOfAnother(slot) => {
                incidents.closed_for_another();
                slot
            }
            Admission::Full => {
                incidents.refused();
                refuse(&stream);
                continue;
            }
        };
        tasks.spawn(Arc::clone(server).serve(stream, peer.ip(), slot));
    }
}

/// A client that has sent nothing yet reads this; one that has may find its connection reset.
fn refuse(stream: &TcpStream) {
    if let Err(error) = stream.try_write(FULL) {
        tracing::debug!(%error, "a client was not told that there are too many connections");
    }
}

impl Server {
    /// Serves one connection to its end. Its place is free once the socket is closed.
    async fn serve(self: Arc<Self>, stream: TcpStream, peer: IpAddr, slot: Slot) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        Arc::clone(&self).converse(stream, peer, slot.connection()).await;
        drop(slot);
    }

    async fn converse(self: Arc<Self>, stream: TcpStream, peer: IpAddr, connection: &Arc<Connection>) {
        let (server, requests) = (Arc::clone(&self), Arc::clone(connection));
        let service = service_fn(move |request| Arc::clone(&server).answer(request, peer, requests.begin()));
        let stream = Watched::new(stream, Arc::clone(connection));
        let mut serving = pin!(self.builder.serve_connection(stream, service));
        let mut expired = pin!(connection.expired());
        let mut is_stopping = false;
        let expired = loop {
            tokio::select! {
                biased;
                () = connection.closing() => return,
                () = self.stop.cancelled(), if !is_stopping => {
                    if connection.is_unused() {
                        return;
                    }
                    is_stopping = true;
                    serving.as_mut().graceful_shutdown();
                }
                served = serving.as_mut() => return log(served),
                expired = expired.as_mut() => break expired,
            }
        };
        tracing::debug!(?expired, "the time of a connection has elapsed");
        if expired == Expired::Idle {
            // An HTTP/2 client learns in this way which of its requests are not answered.
            serving.as_mut().graceful_shutdown();
            drop(tokio::time::timeout(GOODBYE_WAIT, serving).await);
        }
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: IpAddr,
        exchange: Exchange,
    ) -> Result<Response<AnswerBody>, Infallible> {
        let Service { health, endpoint, console, metrics } = &self.service;
        let (method, path) = (request.method(), request.uri().path());
        let console = console.as_ref().filter(|_| Console::has(path));
        let read = health.answer(method, path).await;
        let read = match (read, metrics) {
            (None, Some(metrics)) => Some(metrics.answer(method, request.uri(), request.headers(), health).await),
            (read, _) => read,
        };
        let answer = match (read, console, endpoint) {
            (Some(answer), ..) => answer,
            (None, Some(console), _) => console.respond(request.map(|body| RequestBody::new(body, &exchange))).await,
            (None, None, None) => health::nothing_else(),
            (None, None, Some(endpoint)) => {
                let mut request = request.map(|body| RequestBody::new(body, &exchange));
                let audited = audited(&mut request, Some(peer.to_canonical()), None);
                endpoint.answer(request).instrument(audited).await
            }
        };
        Ok(answer.map(|body| AnswerBody::new(body, exchange)))
    }
}

impl Endpoint {
    /// Answers a request for one of the endpoint's paths.
    pub(crate) async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: hyper::body::Body<Data = bytes::Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let answer = async move |request: Request<bytes::Bytes>, sender| match (self.mcp.get(), sender) {
            (Some(mcp), Sender::Caller(caller)) => mcp.respond(request, *caller).await,
            (Some(mcp), Sender::Holder { token }) => mcp.call_back(&token, request.body()).await,
            (None, _) => health::starting(),
        };
        self.frontend.answer(request, answer).await
    }
}

fn log(served: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = served {
        tracing::debug!(error, "a connection broke");
    }
}
