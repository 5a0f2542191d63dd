//! A reverse proxy in front of a server under test. Its address is known before the server starts, so that the server
//! can be configured with the URL that its clients use. It may remove headers, as some front doors do.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{HOST, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

use crate::serving::serve;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Answer = Response<Either<Incoming, Full<Bytes>>>;

/// The proxy. It has threads of its own, so that tests may block.
pub struct Proxy {
    url: String,
    inner: Arc<Inner>,
    runtime: Option<Runtime>,
}

#[derive(Default)]
struct Inner {
    /// The server.
    target: Mutex<Option<Target>>,
    /// The answers that do not reach clients.
    hidden: Option<HeaderName>,
}

/// Where a server is.
#[derive(Clone)]
struct Target {
    authority: String,
    /// The prefix of the server's own paths: the emulator has many functions at one address.
    prefix: String,
}

impl Proxy {
    /// A proxy that removes a header from every answer, or nothing.
    pub fn hiding(hidden: Option<HeaderName>) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a thread starts");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        listener.set_nonblocking(true).expect("a socket can be so");
        let in_runtime = runtime.enter();
        let listener = TcpListener::from_std(listener).expect("it listens");
        drop(in_runtime);
        let url = format!("http://{}/mcp", listener.local_addr().expect("it is bound"));
        let inner = Arc::new(Inner { hidden, ..Inner::default() });
        let answer = |inner: Arc<Inner>, request| async move { inner.answer(request).await };
        runtime.spawn(serve(listener, Arc::clone(&inner), answer));
        Self { url, inner, runtime: Some(runtime) }
    }

    /// The MCP endpoint, as clients see it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sends everything to the server with this MCP endpoint from now on.
    pub fn lead_to(&self, url: &str) {
        let server = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp"));
        let server = server.expect("it is an MCP endpoint without a certificate");
        let (authority, prefix) = server.split_at(server.find('/').unwrap_or(server.len()));
        *self.inner.target.lock().unwrap() =
            Some(Target { authority: authority.to_owned(), prefix: prefix.to_owned() });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Not by its own destructor, which would block.
        self.runtime.take().expect("it is taken here only").shutdown_background();
    }
}

impl Inner {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        self.forward(request).await.unwrap_or_else(|error| {
            let mut failed = Response::new(Either::Right(Full::from(error.to_string())));
            *failed.status_mut() = StatusCode::BAD_GATEWAY;
            failed
        })
    }

    async fn forward(&self, mut request: Request<Incoming>) -> Result<Answer, Error> {
        let Target { authority, prefix } = self.target.lock().unwrap().clone().ok_or("it leads nowhere yet")?;
        let (_, port) = authority.rsplit_once(':').ok_or("the server's URL has no port")?;
        let connection = TcpStream::connect(("127.0.0.1", port.parse()?)).await?;
        connection.set_nodelay(true)?;
        let (mut sender, driver) = hyper::client::conn::http1::handshake(TokioIo::new(connection)).await?;
        tokio::spawn(driver);
        let path = request.uri().path_and_query().ok_or("it has no path")?;
        *request.uri_mut() = format!("{prefix}{path}").parse()?;
        request.headers_mut().insert(HOST, HeaderValue::from_str(&authority)?);
        let mut answer = sender.send_request(request).await?;
        if let Some(hidden) = &self.hidden {
            answer.headers_mut().remove(hidden);
        }
        Ok(answer.map(Either::Left))
    }
}
