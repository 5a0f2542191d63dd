//! The console on a listener of its own.

use std::convert::Infallible;

use http::header::{HeaderValue, LOCATION};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::answer::Body;
use crate::clock;
use crate::console::Console;
use crate::limits::{ACCEPT_PAUSE, CONNECTIONS_MAX, HEAD_TIME_MAX};

/// Serves a console until the future is dropped, which closes its connections.
pub async fn serve(listener: TcpListener, console: Console) {
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= CONNECTIONS_MAX {
            drop(connections.join_next().await);
        }
        while connections.try_join_next().is_some() {}
        let Ok((stream, _peer)) = listener.accept().await else {
            clock::pause(ACCEPT_PAUSE).await;
            continue;
        };
        let console = console.clone();
        let service = service_fn(move |request| answer(console.clone(), request));
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX);
        connections.spawn(http.serve_connection(TokioIo::new(stream), service));
    }
}

/// Redirects `/` to the first page, and answers all other unknown paths with 404.
async fn answer(console: Console, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path();
    if Console::has(path) {
        return Ok(console.respond(request).await);
    }
    let mut answer = Response::new(Full::default().boxed_unsync());
    *answer.status_mut() = if path == "/" { StatusCode::SEE_OTHER } else { StatusCode::NOT_FOUND };
    if path == "/" {
        answer.headers_mut().insert(LOCATION, HeaderValue::from_static(crate::PATH));
    }
    Ok(answer)
}
