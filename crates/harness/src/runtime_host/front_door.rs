//! The HTTP frontend of an API function: HTTP in, events to sandboxes in turn, and their answers out as they arrive.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::{Bytes, BytesMut};
use futures::future::select_all;
use futures::stream::{self, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::JoinHandle;

use super::{Answer, Idle, NoAnswer, Sandbox};
use crate::serving::serve;

mod door;

pub use door::Door;

/// The longest request.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The largest answer that Lambda takes without a stream, in bytes.
const ANSWER_BYTES_MAX: usize = 6_291_556;

/// The separator of the head of a streamed answer from its body.
const HEAD_ENDS: [u8; 8] = [0; 8];

type Body = UnsyncBoxBody<Bytes, NoAnswer>;

/// How the function is configured to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As a whole.
    Buffered,
    /// Piece by piece, as it is produced.
    Streamed,
}

/// An API function that can be called over HTTP. Each request goes to the next of its sandboxes that is idle.
pub struct HttpFrontend {
    url: String,
    sandboxes: Arc<Sandboxes>,
    serving: JoinHandle<()>,
}

struct Sandboxes {
    all: Vec<Arc<Mutex<Sandbox>>>,
    turn: AtomicUsize,
    mode: Mode,
}

impl HttpFrontend {
    /// Starts `number` sandboxes of `program`.
    pub async fn open(program: &Path, env: &[(String, String)], idle: Idle, mode: Mode, number: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        Self::open_at(listener, program, env, idle, mode, number).await
    }

    /// The same at an address of the caller's choice.
    pub async fn open_at(
        listener: TcpListener,
        program: &Path,
        env: &[(String, String)],
        idle: Idle,
        mode: Mode,
        number: usize,
    ) -> Self {
        let mut env = env.to_vec();
        let responses = if mode == Mode::Streamed { "streamed" } else { "buffered" };
        env.push(("LONGHAUL_RESPONSES".to_owned(), responses.to_owned()));
        let mut all = Vec::new();
        for _ in 0..number {
            all.push(Arc::new(Mutex::new(Sandbox::start(program, &env, idle).await)));
        }
        let sandboxes = Arc::new(Sandboxes { all, turn: AtomicUsize::new(0), mode });
        let url = format!("http://{}/mcp", listener.local_addr().expect("it is bound"));
        let answer = |sandboxes: Arc<Sandboxes>, request| async move { sandboxes.answer(request).await };
        let serving = tokio::spawn(serve(listener, Arc::clone(&sandboxes), answer));
        Self { url, sandboxes, serving }
    }

    /// The MCP endpoint.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The MCP endpoint behind something else than a function URL.
    pub fn url_through(&self, door: Door) -> String {
        self.url.replace("/mcp", &format!("{}/mcp", door.prefix()))
    }

    /// One of the sandboxes, as soon as it is idle.
    pub async fn sandbox(&self, number: usize) -> OwnedMutexGuard<Sandbox> {
        Arc::clone(&self.sandboxes.all[number]).lock_owned().await
    }
}

impl Drop for HttpFrontend {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Sandboxes {
    /// The next in turn; one that holds a stream open is skipped while another one is idle.
    async fn next_idle(&self) -> OwnedMutexGuard<Sandbox> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.all.len();
        let (before, after) = self.all.split_at(turn);
        let in_turn = after.iter().chain(before).map(|sandbox| Box::pin(Arc::clone(sandbox).lock_owned()));
        select_all(in_turn).await.0
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (door, _path) = Door::of(request.uri().path());
        let event = door.event_of(request).await;
        let sandbox = self.next_idle().await;
        let answer = sandbox.invoke(&event, TIMEOUT).await;
        let answered = match self.mode {
            Mode::Buffered => buffered(answer).await,
            Mode::Streamed => streamed(answer, sandbox).await,
        };
        let mut answered = answered.unwrap_or_else(|error| {
            let mut failed = Response::new(full(format!("{error:?}")));
            *failed.status_mut() = StatusCode::BAD_GATEWAY;
            failed
        });
        door.remap(answered.status(), answered.headers_mut());
        answered
    }
}

async fn buffered(answer: Answer) -> Result<Response<Body>, NoAnswer> {
    let answer = answer.whole().await?;
    if answer.len() > ANSWER_BYTES_MAX {
        return Err(NoAnswer::Failed(json!({"errorType": "Function.ResponseSizeTooLarge", "bytes": answer.len()})));
    }
    let answer: Value = serde_json::from_slice(&answer).expect("an answer is JSON");
    let text = answer["body"].as_str().unwrap_or_default();
    let body = match answer["isBase64Encoded"].as_bool() {
        Some(true) => BASE64_STANDARD.decode(text).expect("it says that it is base64"),
        Some(false) | None => text.as_bytes().to_vec(),
    };
    Ok(with_head(&answer, full(body)))
}

/// The head as soon as it is there, and then each piece of the body. The sandbox is free when the body has ended.
async fn streamed(mut answer: Answer, sandbox: OwnedMutexGuard<Sandbox>) -> Result<Response<Body>, NoAnswer> {
    let mut begun = BytesMut::new();
    let ends_at = loop {
        if let Some(at) = begun.windows(HEAD_ENDS.len()).position(|bytes| bytes == HEAD_ENDS) {
            break at;
        }
        let chunk = answer.chunk().await?.expect("an answer has a head");
        begun.extend_from_slice(&chunk);
    };
    let head: Value = serde_json::from_slice(&begun[..ends_at]).expect("the head is JSON");
    let first = begun.split_off(ends_at + HEAD_ENDS.len()).freeze();
    let rest = stream::unfold((answer, sandbox), |(mut answer, sandbox)| async move {
        let chunk = answer.chunk().await.transpose()?;
        Some((chunk, (answer, sandbox)))
    });
    let chunks = stream::iter((!first.is_empty()).then_some(Ok(first))).chain(rest);
    Ok(with_head(&head, StreamBody::new(chunks.map(|chunk| chunk.map(Frame::data))).boxed_unsync()))
}

fn with_head(head: &Value, body: Body) -> Response<Body> {
    let status = head["statusCode"].as_u64().and_then(|code| u16::try_from(code).ok()).expect("an answer has a status");
    let mut answer = Response::builder().status(status);
    for (name, value) in head["headers"].as_object().into_iter().flatten() {
        answer = answer.header(name, value.as_str().expect("a header is text"));
    }
    // A REST API takes a list of values.
    for (name, values) in head["multiValueHeaders"].as_object().into_iter().flatten() {
        for value in values.as_array().expect("a header has a list of values") {
            answer = answer.header(name, value.as_str().expect("a header is text"));
        }
    }
    answer.body(body).expect("these are headers")
}

fn full(body: impl Into<Bytes>) -> Body {
    Full::new(body.into()).map_err(|never| match never {}).boxed_unsync()
}
