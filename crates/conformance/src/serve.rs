//! The fixtures over `rmcp`'s own HTTP service, without Longhaul: shows what a plain server answers.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::{Bytes, Incoming};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use tokio::net::TcpListener;

use crate::fixtures::Fixtures;

type Service = StreamableHttpService<Fixtures, LocalSessionManager>;
type Reply = Response<BoxBody<Bytes, Infallible>>;

/// Serves until the process is told to stop.
///
/// # Errors
///
/// If the address cannot be listened on.
pub(crate) async fn serve(listen: SocketAddr, fixtures: Fixtures) -> anyhow::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    tracing::info!(address = %listener.local_addr()?, "listening");
    let config = StreamableHttpServerConfig::default().with_legacy_session_mode(false).with_json_response(true);
    let service =
        StreamableHttpService::new(move || Ok(fixtures.clone()), Arc::new(LocalSessionManager::default()), config);
    tokio::select! {
        ended = accept(listener, service) => ended,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

async fn accept(listener: TcpListener, service: Service) -> anyhow::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let service = service.clone();
        let connection = async move {
            let answer = hyper::service::service_fn(move |request| answer(service.clone(), request));
            let served = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer).await;
            if let Err(error) = served {
                tracing::debug!(error, "connection ended");
            }
        };
        #[expect(clippy::disallowed_methods, reason = "one task per connection, as long as it is open")]
        tokio::spawn(connection);
    }
}

async fn answer(service: Service, request: Request<Incoming>) -> Result<Reply, Infallible> {
    if request.method() == Method::GET && request.uri().path() == "/healthz" {
        return Ok(Response::new(Full::from("ok").boxed()));
    }
    if request.uri().path() != "/mcp" {
        let mut reply = Response::new(Full::default().boxed());
        *reply.status_mut() = StatusCode::NOT_FOUND;
        return Ok(reply);
    }
    Ok(service.handle(request).await)
}
