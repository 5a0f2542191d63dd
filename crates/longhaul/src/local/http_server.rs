//! The HTTP server: accepts connections and serves them.

use std::sync::Arc;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use longhaul_core::Clock;
use longhaul_http::HttpFrontend;
use longhaul_mcp::McpServer;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::SystemClock;

/// Bytes of a request's head.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// How long an accepted connection may take to send a request's head.
const HEAD_WAIT: std::time::Duration = std::time::Duration::from_secs(30);

/// How long open answers may take after the server was asked to stop.
const DRAIN_WAIT: std::time::Duration = std::time::Duration::from_secs(5);

/// How long to wait after a connection could not be accepted.
const ACCEPT_BACKOFF_MS: u64 = 50;

/// Serves `mcp` behind `frontend` until `stop` fires, then lets open answers end.
pub(crate) async fn serve(listener: TcpListener, frontend: HttpFrontend, mcp: McpServer, stop: CancellationToken) {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().max_buf_size(HEAD_BYTES_MAX).timer(TokioTimer::new()).header_read_timeout(HEAD_WAIT);
    builder.http2().max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX)).timer(TokioTimer::new());
    let (builder, frontend) = (Arc::new(builder), Arc::new(frontend));
    let open = GracefulShutdown::new();
    loop {
        let stream = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    // Such as too many open files: give others time to close.
                    SystemClock.sleep_ms(ACCEPT_BACKOFF_MS).await;
                    continue;
                }
            },
        };
        connect(stream, &builder, &open, Arc::clone(&frontend), mcp.clone());
    }
    if tokio::time::timeout(DRAIN_WAIT, open.shutdown()).await.is_err() {
        tracing::warn!("some answers were cut off");
    }
}

#[expect(clippy::disallowed_methods, reason = "connections run concurrently, in a process that keeps running")]
fn connect(
    stream: TcpStream,
    builder: &Arc<auto::Builder<TokioExecutor>>,
    open: &GracefulShutdown,
    frontend: Arc<HttpFrontend>,
    mcp: McpServer,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let service = service_fn(move |request| {
        let (frontend, mcp) = (Arc::clone(&frontend), mcp.clone());
        async move {
            let answer = frontend.answer(request, async move |request, owner| mcp.respond(request, owner).await).await;
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let builder = Arc::clone(builder);
    let watcher = open.watcher();
    tokio::spawn(async move {
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        if let Err(error) = watcher.watch(connection).await {
            tracing::debug!(error, "a connection broke");
        }
    });
}
