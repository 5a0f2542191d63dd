//! A proxy between a function and the emulator: it records every call, and holds back the one that a test asks for.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::serving::serve;

/// The operation's name in AWS's JSON protocols: `DynamoDB_20120810.UpdateItem`.
const TARGET: &str = "x-amz-target";

/// Where a call is held for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Before AWS receives it.
    BeforeEffect,
    /// After AWS has done it, and before the function gets the answer.
    AfterEffect,
}

/// A call that went through.
#[derive(Clone, Debug)]
pub struct Call {
    /// The operation, such as `UpdateItem`.
    pub operation: String,
    /// The request.
    pub body: String,
}

/// The proxy. Functions get its URL as the endpoint of AWS.
#[derive(Clone)]
pub struct Gate {
    url: String,
    inner: Arc<Inner>,
    _serving: Arc<Serving>,
}

struct Inner {
    http: reqwest::Client,
    endpoint: String,
    calls: Mutex<Vec<Call>>,
    trap: Mutex<Option<Trap>>,
}

struct Trap {
    operation: &'static str,
    mentions: &'static str,
    held: Held,
    caught: oneshot::Sender<()>,
}

struct Serving(JoinHandle<()>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Gate {
    /// Starts a proxy to the emulator at `endpoint`, which holds nothing back.
    pub async fn open(endpoint: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let (calls, trap) = (Mutex::default(), Mutex::default());
        let http = reqwest::Client::new();
        let inner = Arc::new(Inner { http, endpoint: endpoint.to_owned(), calls, trap });
        let answer = |inner: Arc<Inner>, request| async move { inner.answer(request).await };
        let serving = tokio::spawn(serve(listener, Arc::clone(&inner), answer));
        Self { url, inner, _serving: Arc::new(Serving(serving)) }
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Holds the next call of `operation` whose body contains `mentions`. The receiver reports when it is held.
    pub fn hold(&self, operation: &'static str, mentions: &'static str, held: Held) -> oneshot::Receiver<()> {
        let (caught, is_caught) = oneshot::channel();
        *self.inner.trap.lock().unwrap() = Some(Trap { operation, mentions, held, caught });
        is_caught
    }

    /// The calls so far.
    pub fn calls(&self) -> Vec<Call> {
        self.inner.calls.lock().unwrap().clone()
    }

    /// How many calls of one operation so far contain `mentions`.
    pub fn calls_of(&self, operation: &str, mentions: &str) -> usize {
        let calls = self.calls();
        calls.iter().filter(|call| call.operation == operation && call.body.contains(mentions)).count()
    }
}

impl Inner {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let target = head.headers.get(TARGET).and_then(|target| target.to_str().ok()).unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let text = String::from_utf8_lossy(&body).into_owned();
        let trap = self.take_trap(&operation, &text);
        if trap.as_ref().is_some_and(|trap| trap.held == Held::BeforeEffect) {
            return hold(trap).await;
        }
        let url = format!("{}{}", self.endpoint, head.uri);
        let mut forwarded = self.http.request(head.method, url).body(body);
        for (name, value) in head.headers.iter().filter(|(name, _)| *name != "content-length") {
            forwarded = forwarded.header(name, value);
        }
        self.calls.lock().unwrap().push(Call { operation, body: text });
        let Ok(answer) = forwarded.send().await else { return plain(StatusCode::BAD_GATEWAY, Bytes::new()) };
        let (status, headers) = (answer.status(), answer.headers().clone());
        let mut passed = plain(status, answer.bytes().await.unwrap_or_default());
        for (name, value) in headers.iter().filter(|(name, _)| name.as_str().starts_with("x-amz")) {
            passed.headers_mut().insert(name, value.clone());
        }
        if let Some(kind) = headers.get("content-type") {
            passed.headers_mut().insert("content-type", kind.clone());
        }
        if trap.is_some() { hold(trap).await } else { passed }
    }

    /// The trap, if it is for this call.
    fn take_trap(&self, operation: &str, body: &str) -> Option<Trap> {
        let mut trap = self.trap.lock().unwrap();
        trap.take_if(|trap| trap.operation == operation && body.contains(trap.mentions))
    }
}

/// Reports that a call is held, and never answers it.
async fn hold(trap: Option<Trap>) -> Response<Full<Bytes>> {
    if let Some(trap) = trap {
        // If the test has ended, there is no receiver any more.
        trap.caught.send(()).ok();
    }
    std::future::pending().await
}

fn plain(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    answer
}
