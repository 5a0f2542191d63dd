//! One client on standard input and output. Each of its lines becomes a request to the endpoint in the same process,
//! and the answers become lines. Revisions, sessions and tasks are those of HTTP.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use longhaul_core::{Clock, strict_json};
use rmcp::ErrorData;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio_util::sync::CancellationToken;

use crate::Body;
use crate::reply::{self, sse};
use crate::request::incoming::{Message, OverStdio};
use crate::revision::{Generation, VERSION_HEADER};
use crate::signing::session;
use crate::tool_calls::{caller, cancelling};

/// So many messages of the client may be worked on at a time.
const MESSAGES_MAX: usize = 1_000;

/// How long the last answers may take after the client has closed its end.
const LAST_ANSWERS_MS: u64 = 2_000;

/// How long the endpoint is left alone after a stream that ended at once, or a request without an answer.
const STREAM_PAUSE_MS: u64 = 1_000;

/// The calls for which the client still waited when it left. As long as this exists, the calls do not know that it has.
#[must_use = "calls end when this is dropped"]
pub struct Unanswered(
    #[expect(dead_code, reason = "it is there to be dropped")] FuturesUnordered<BoxFuture<'static, ()>>,
);

/// Marks a request as one that came over standard input. An endpoint in another process does this: extensions do not
/// travel.
pub fn mark_over_stdio(request: &mut Request<Bytes>) {
    request.extensions_mut().insert(OverStdio);
}

/// Serves the client whose messages are `lines` until there are no more, or until `out` is closed. `respond` is the
/// endpoint. A request whose answer does not come is sent again. For a call of a tool, `may_repeat` decides by the name
/// of the tool. Such a call has a key by which the endpoint finds the task of the first one.
pub async fn converse_over_stdio<F>(
    respond: impl Fn(Request<Bytes>) -> F + Send + Sync + 'static,
    may_repeat: impl Fn(&str) -> bool + Send + Sync + 'static,
    clock: Arc<dyn Clock>,
    mut lines: Receiver<Bytes>,
    out: Sender<Bytes>,
) -> Unanswered
where
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let respond = move |request| -> BoxFuture<'static, Response<Body>> { Box::pin(respond(request)) };
    let (respond, may_repeat) = (Box::new(respond), Box::new(may_repeat));
    let stdio = Arc::new(Stdio { respond, may_repeat, clock, out, state: Mutex::default() });
    let mut running: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
    let mut listening: BoxFuture<'static, ()> = Box::pin(std::future::pending());
    loop {
        let line = tokio::select! {
            biased;
            () = stdio.out.closed() => return Unanswered(running),
            Some(()) = running.next(), if !running.is_empty() => continue,
            () = &mut listening => {
                listening = Box::pin(std::future::pending());
                continue;
            }
            line = lines.recv(), if running.len() < MESSAGES_MAX => line,
        };
        let Some(line) = line else { break };
        match stdio.read(&line) {
            Read::Begins => Arc::clone(&stdio).exchange(line, None).await,
            Read::Request { id, until } => running.push(Box::pin(Arc::clone(&stdio).request(line, id, until))),
            Read::OneWay { has_begun } => {
                if has_begun {
                    listening = Box::pin(Arc::clone(&stdio).listen());
                }
                running.push(Box::pin(Arc::clone(&stdio).exchange(line, None)));
            }
        }
    }
    let mut late = stdio.clock.sleep_ms(LAST_ANSWERS_MS);
    loop {
        tokio::select! {
            biased;
            next = running.next() => if next.is_none() { break },
            () = &mut late => break,
        }
    }
    Unanswered(running)
}

struct Stdio {
    respond: Box<dyn Fn(Request<Bytes>) -> BoxFuture<'static, Response<Body>> + Send + Sync>,
    may_repeat: Box<dyn Fn(&str) -> bool + Send + Sync>,
    clock: Arc<dyn Clock>,
    out: Sender<Bytes>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The session, once the handshake has begun one.
    session: Option<HeaderValue>,
    /// The revision of a client without a session.
    revision: Option<HeaderValue>,
    /// The requests that are neither answered nor cancelled yet, by their ids.
    open: HashMap<String, CancellationToken>,
    /// The calls that may be sent again.
    repeatable: u64,
}

/// The kinds of lines.
enum Read {
    /// A request that begins a session: what comes after it belongs to the session.
    Begins,
    Request {
        id: String,
        until: CancellationToken,
    },
    /// A notification, an answer, or something that is neither and is refused.
    OneWay {
        /// Whether the client may receive notifications from now on.
        has_begun: bool,
    },
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<Meta<'a>>,
    #[serde(borrow, default, rename = "requestId")]
    request_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    name: Option<std::borrow::Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default, rename = "io.modelcontextprotocol/protocolVersion")]
    revision: Option<std::borrow::Cow<'a, str>>,
}

fn read_params(params: Option<&RawValue>) -> Option<Params<'_>> {
    strict_json::from_str(params?.get()).ok()
}

impl Stdio {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, line: &[u8]) -> Read {
        match Message::read(line) {
            Ok(Message::Request { method, .. }) if method == "initialize" => Read::Begins,
            Ok(Message::Request { id, .. }) => {
                let (id, until) = (reply::id_text(&id).to_string(), CancellationToken::new());
                self.state().open.insert(id.clone(), until.clone());
                Read::Request { id, until }
            }
            Ok(Message::Notification { method, params }) => {
                let mut state = self.state();
                if method == cancelling::METHOD {
                    let id = read_params(params).and_then(|params| Some(params.request_id?.get().to_owned()));
                    let open = id.and_then(|id| state.open.remove(&id));
                    // A session finds the cancellation where other instances would. Without one, to leave is to cancel.
                    open.filter(|_| state.session.is_none()).into_iter().for_each(|open| open.cancel());
                }
                Read::OneWay { has_begun: method == "notifications/initialized" && state.session.is_some() }
            }
            Ok(Message::Reply { .. }) | Err(_) => Read::OneWay { has_begun: false },
        }
    }

    async fn request(self: Arc<Self>, line: Bytes, id: String, until: CancellationToken) {
        until.run_until_cancelled(Arc::clone(&self).exchange(line, Some(&id))).await;
        self.state().open.remove(&id);
    }

    /// The request with this message.
    fn http(&self, line: Bytes) -> Request<Bytes> {
        let headers = self.headers(&line);
        let mut request = Request::new(line);
        *request.method_mut() = Method::POST;
        *request.headers_mut() = headers;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.extensions_mut().insert(OverStdio);
        request
    }

    /// The headers that a client would have sent over HTTP.
    fn headers(&self, line: &[u8]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let (method, params) = match Message::read(line) {
            Ok(Message::Request { method, params, .. } | Message::Notification { method, params }) => {
                (Some(method), read_params(params))
            }
            Ok(Message::Reply { .. }) | Err(_) => (None, None),
        };
        let named =
            params.and_then(|params| params.meta?.revision).and_then(|named| HeaderValue::from_str(&named).ok());
        let mut state = self.state();
        let is_per_request =
            |named: &&HeaderValue| Generation::of_version(named.to_str().ok()) == Generation::PerRequest;
        if let Some(named) = named.as_ref().filter(is_per_request) {
            state.revision = Some(named.clone());
        }
        match (&state.session, &state.revision) {
            (Some(session), None) => {
                headers.insert(HeaderName::from_static(session::HEADER), session.clone());
                named.map(|named| headers.insert(VERSION_HEADER, named));
            }
            (_, Some(revision)) => {
                headers.insert(VERSION_HEADER, named.unwrap_or_else(|| revision.clone()));
                let method = method.and_then(|method| HeaderValue::from_str(&method).ok());
                method.map(|method| headers.insert("mcp-method", method));
            }
            (None, None) => drop(named.map(|named| headers.insert(VERSION_HEADER, named))),
        }
        headers
    }

    /// Passes a message on, and writes what comes back. `id` is that of a request that is answered.
    async fn exchange(self: Arc<Self>, line: Bytes, id: Option<&str>) {
        let (request_id, method, tool) = match Message::read(&line) {
            Ok(Message::Request { id, method, params }) => {
                (Some(id), method.into_owned(), read_params(params).and_then(|params| params.name))
            }
            Ok(Message::Notification { .. } | Message::Reply { .. }) => (None, String::new(), None),
            // It may have been meant to be a request.
            Err(_) => (None, "unknown".to_owned(), None),
        };
        let mut request = self.http(line.clone());
        let is_repeatable = if method == "tools/call" {
            self.give_key(&mut request, tool.as_deref().unwrap_or_default())
        } else {
            request_id.is_some()
        };
        loop {
            let answer = (self.respond)(request.clone()).await;
            if method == "initialize"
                && let Some(session) = answer.headers().get(session::HEADER)
            {
                let mut state = self.state();
                (state.session, state.revision) = (Some(session.clone()), None);
            }
            if method.is_empty() && !sse::is_stream(&answer) {
                return warn_if_refused(answer.status());
            }
            let is_cancelled = || id.is_some_and(|id| !self.state().open.contains_key(id));
            if self.write(answer).await || method.is_empty() || is_cancelled() {
                return;
            }
            if !is_repeatable {
                let why = "the process that worked on this request ended before the answer";
                let error = ErrorData::internal_error(why, None);
                return self.write_line(reply::error_text(request_id.as_ref(), &error).into()).await;
            }
            self.clock.sleep_ms(STREAM_PAUSE_MS).await;
        }
    }

    /// Gives a call a key if it may be sent again. Without a session, a client that leaves cancels its call, which is
    /// not sent again then.
    fn give_key(&self, request: &mut Request<Bytes>, tool: &str) -> bool {
        let mut state = self.state();
        if state.session.is_none() || state.revision.is_some() || !(self.may_repeat)(tool) {
            return false;
        }
        state.repeatable += 1;
        request.headers_mut().insert(caller::KEY_HEADER, state.repeatable.into());
        true
    }

    /// Opens the stream on which a session receives notifications of changes, again and again.
    async fn listen(self: Arc<Self>) {
        loop {
            let mut request = self.http(Bytes::new());
            *request.method_mut() = Method::GET;
            let answer = (self.respond)(request).await;
            if !sse::is_stream(&answer) {
                return;
            }
            self.write(answer).await;
            self.clock.sleep_ms(STREAM_PAUSE_MS).await;
        }
    }

    /// Writes what comes back, but for a message that is cut off. Says whether the answer was there.
    async fn write(&self, answer: Response<Body>) -> bool {
        let is_stream = sse::is_stream(&answer);
        let (mut body, mut unread, mut is_answered) = (answer.into_body(), Vec::new(), false);
        while let Some(Ok(frame)) = body.frame().await {
            unread.extend_from_slice(&frame.into_data().unwrap_or_default());
            if is_stream {
                is_answered |= self.write_events(&mut unread).await;
            }
        }
        is_answered || (!is_stream && self.write_message(&unread).await)
    }

    /// Writes the messages of a stream that are whole.
    async fn write_events(&self, unread: &mut Vec<u8>) -> bool {
        let Some(end) = unread.iter().rposition(|byte| *byte == b'\n') else { return false };
        let rest = unread.split_off(end + 1);
        let mut is_answered = false;
        for line in std::mem::replace(unread, rest).split(|byte| *byte == b'\n') {
            is_answered |= self.write_message(line.strip_prefix(b"data:").unwrap_or_default()).await;
        }
        is_answered
    }

    /// Says whether it was the answer.
    async fn write_message(&self, message: &[u8]) -> bool {
        let message = message.trim_ascii();
        if strict_json::from_slice::<IgnoredAny>(message).is_err() {
            return false;
        }
        self.write_line(message.to_vec().into()).await;
        !matches!(Message::read(message), Ok(Message::Request { .. } | Message::Notification { .. }))
    }

    async fn write_line(&self, line: Bytes) {
        // If the reader has gone, the conversation ends.
        drop(self.out.send(line).await);
    }
}

fn warn_if_refused(status: StatusCode) {
    if !status.is_success() {
        tracing::warn!(status = status.as_u16(), "a notification or an answer of the client was refused");
    }
}
