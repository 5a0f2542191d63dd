//! Responses to messages over HTTP. An answer that cannot be understood still counts as an answer: the request was
//! carried out, or refused, and is not made again.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, iter};
use http::header::{CONTENT_TYPE, HeaderMap, LOCATION, WWW_AUTHENTICATE};
use longhaul_client::retry_after;
use longhaul_core::strict_json;
use reqwest::{Response, StatusCode};
use rmcp::ErrorData;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use serde::de::IgnoredAny;
use serde_json::Value;
use sse_stream::{Sse, SseStream};

use crate::limits;
use crate::upstream::incoming::{Incoming, Open, Reader};

/// Why a message has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error(transparent)]
    Client(reqwest::Error),
    /// The server is too busy now, and has not carried it out.
    #[error("the server is busy (status {status})")]
    Busy { status: u16, after: Option<Duration> },
    /// The server refuses it.
    #[error("{0}")]
    Refused(String),
    /// Something is wrong with the server, which may have carried it out.
    #[error("{0}")]
    Broken(String),
}

/// The requests that were refused because of their sessions: they are sent again once. Clones are the same.
pub(super) type Refused = Arc<Mutex<VecDeque<RequestId>>>;

/// So many of them are remembered.
const REFUSED_MAX: usize = 64;

/// So many bytes are read of a response that is not a message.
const DIAGNOSTIC_BYTES: usize = 64 << 10;
const DIAGNOSTIC_CHARACTERS: usize = 256;

/// The JSON-RPC errors that are about the request, and not about its session.
const ABOUT_THE_REQUEST: [i64; 2] = [-32601, -32602];

/// One message, and the expected response.
pub(super) struct Exchange<'m> {
    server: &'m str,
    reader: Reader,
    /// If it is a request.
    asked: Option<Open>,
    session: Option<&'m str>,
    renewed: &'m Refused,
    limits: StreamableHttpResponseLimits,
}

/// Why there is no answer, for `rmcp`.
pub(super) type Failed = StreamableHttpError<Trouble>;
pub(super) type Events = BoxStream<'static, Result<Sse, sse_stream::Error>>;
type Chunks = BoxStream<'static, Result<Bytes, reqwest::Error>>;

impl<'m> Exchange<'m> {
    pub(super) fn new(
        server: &'m str,
        message: &ClientJsonRpcMessage,
        session: Option<&'m str>,
        renewed: &'m Refused,
        limits: StreamableHttpResponseLimits,
    ) -> Self {
        let asked = match message {
            JsonRpcMessage::Request(request) => {
                Some(Open { id: request.id.clone(), method: request.request.method().to_owned() })
            }
            _ => None,
        };
        Self { server, reader: Reader::of(server), asked, session, renewed, limits }
    }

    /// Reads the response.
    pub(super) async fn read(&self, response: Response) -> Result<StreamableHttpPostResponse, Failed> {
        let status = response.status();
        if status.is_success() {
            return self.read_answer(response).await;
        }
        let location = response.url().join(header(response.headers(), LOCATION.as_str()).unwrap_or_default());
        if let (true, Ok(location)) = (status.is_redirection(), location) {
            let (origin, path) = (location.origin().ascii_serialization(), location.path());
            return self.refused(&format!(
                "it redirects (status {}) to `{origin}{path}`, where nothing is sent: write that URL into the \
                 configuration if it is right",
                status.as_u16()
            ));
        }
        let (after, challenge) =
            (retry_after(response.headers()), header(response.headers(), WWW_AUTHENTICATE.as_str()).map(str::to_owned));
        let body = self.diagnostic(response).await;
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            return Err(Failed::Client(Trouble::Busy { status: status.as_u16(), after }));
        }
        let said: Value = strict_json::from_slice(&body).unwrap_or_default();
        if self.is_about_the_session(status, &said, &body) {
            return Err(Failed::SessionExpired);
        }
        let words = said.pointer("/error/message").and_then(Value::as_str).map(str::to_owned);
        let words = words.or_else(|| Some(text(&body)).filter(|text| !text.is_empty())).or(challenge);
        let words = words.map_or_else(String::new, |words| format!(": {words}"));
        let status_words = format!("status {}{words}", status.as_u16());
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return self.refused(&format!(
                "it refuses the gateway's credentials ({status_words}): check the headers of `{}` in the configuration",
                self.server
            ));
        }
        match &self.asked {
            // No request waits for it.
            None => {
                tracing::warn!(server = self.server, status_words, "a server refuses a notification");
                Ok(StreamableHttpPostResponse::Accepted)
            }
            Some(asked) if said.get("error").is_some_and(|error| !error.is_null()) => {
                Ok(StreamableHttpPostResponse::Json(self.answer_in(&body, asked), None))
            }
            Some(asked) if status.is_client_error() => {
                let error =
                    ErrorData::invalid_request(format!("`{}` refuses the request ({status_words})", self.server), None);
                Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, Some(asked.id.clone())), None))
            }
            Some(_) => Err(Failed::Client(Trouble::Broken(status_words))),
        }
    }

    /// The error for a message that the server did not take. It becomes the answer to a request. A request that begins
    /// a connection fails instead.
    fn refused(&self, why: &str) -> Result<StreamableHttpPostResponse, Failed> {
        match &self.asked {
            Some(asked) if !matches!(asked.method.as_str(), "initialize" | "server/discover") => {
                let error = internal(format!("`{}` was not asked: {why}", self.server));
                Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, Some(asked.id.clone())), None))
            }
            _ => Err(Failed::Client(Trouble::Refused(why.to_owned()))),
        }
    }

    /// Whether the server has forgotten the session. Servers say so in many ways. A request that is refused in a
    /// session is therefore sent again, one time only, in a new session, unless the refusal names the request. The next
    /// request finds out after a notification.
    fn is_about_the_session(&self, status: StatusCode, said: &Value, body: &[u8]) -> bool {
        let (Some(asked), Some(_)) = (&self.asked, self.session) else { return false };
        let code = said.pointer("/error/code").and_then(Value::as_i64);
        if code.is_some_and(|code| ABOUT_THE_REQUEST.contains(&code)) {
            return false;
        }
        let names_it = status.is_client_error() && text(body).to_ascii_lowercase().contains("session");
        let usual = matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::GONE);
        if !(usual || names_it) {
            return false;
        }
        let mut renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        if renewed.contains(&asked.id) {
            return false;
        }
        renewed.push_back(asked.id.clone());
        if renewed.len() > REFUSED_MAX {
            renewed.pop_front();
        }
        true
    }

    async fn read_answer(&self, response: Response) -> Result<StreamableHttpPostResponse, Failed> {
        // A notification needs no answer, so any response will do.
        let Some(asked) = &self.asked else { return Ok(StreamableHttpPostResponse::Accepted) };
        let status = response.status().as_u16();
        let session = header(response.headers(), "mcp-session-id").map(str::to_owned);
        let kind = header(response.headers(), CONTENT_TYPE.as_str()).unwrap_or_default().to_owned();
        let has_length = response.content_length().is_some();
        let mut bytes: Chunks = response.bytes_stream().boxed();
        if is(&kind, "text/event-stream") {
            return Ok(StreamableHttpPostResponse::Sse(self.events(bytes, asked), session));
        }
        let mut body = Vec::new();
        if !is(&kind, "application/json") {
            let first = bytes.next().await.transpose().map_err(lost)?.unwrap_or_default();
            if begins_as_events(&first) {
                let bytes = iter([Ok(first)]).chain(bytes).boxed();
                return Ok(StreamableHttpPostResponse::Sse(self.events(bytes, asked), session));
            }
            body = first.to_vec();
        }
        let answer = if read_rest(&mut bytes, &mut body, has_length, self.limits.max_json_response_size).await? {
            self.too_large(asked, self.limits.max_json_response_size)
        } else if body.trim_ascii().is_empty() {
            let why = format!("the answer of `{}` cannot be read: it is empty (status {status})", self.server);
            ServerJsonRpcMessage::error(internal(why), Some(asked.id.clone()))
        } else {
            self.answer_in(&body, asked)
        };
        Ok(StreamableHttpPostResponse::Json(answer, session))
    }

    /// The answer among the messages of a body.
    fn answer_in(&self, body: &[u8], asked: &Open) -> ServerJsonRpcMessage {
        let messages = self.reader.read_body(body, asked);
        let answer = messages.into_iter().find(is_answer);
        answer.unwrap_or_else(|| {
            let why = format!("the answer of `{}` cannot be read: it answers nothing", self.server);
            ServerJsonRpcMessage::error(internal(why), Some(asked.id.clone()))
        })
    }

    fn too_large(&self, asked: &Open, bytes_max: usize) -> ServerJsonRpcMessage {
        let why = format!(
            "the answer of `{}` cannot be read: it exceeded the maximum size of {} MiB",
            self.server,
            bytes_max >> 20
        );
        ServerJsonRpcMessage::error(internal(why), Some(asked.id.clone()))
    }

    /// The events of a stream, whose messages `rmcp` can read.
    fn events(&self, bytes: Chunks, asked: &Open) -> Events {
        let (reader, open) = (self.reader.clone(), vec![asked.clone()]);
        let length = Arc::new(AtomicUsize::new(0));
        let (so_far, bytes_max) = (Arc::clone(&length), self.limits.max_sse_event_size);
        let bytes = complete(bytes).map(move |chunk| {
            let chunk = chunk.map_err(|error| io::Error::other(error.without_url()))?;
            if so_far.fetch_add(chunk.len(), Ordering::Relaxed) > bytes_max {
                return Err(io::Error::other("an event is too long"));
            }
            Ok::<_, io::Error>(chunk)
        });
        let too_large = self.too_large(asked, bytes_max);
        let events = SseStream::from_bytes_stream(bytes).flat_map(move |event| {
            let read = match event {
                Ok(event) => {
                    length.store(0, Ordering::Relaxed);
                    readable(&reader, &open, event)
                }
                Err(_) if length.load(Ordering::Relaxed) > bytes_max => vec![with_message(Sse::default(), &too_large)],
                Err(error) => return iter(vec![Err(error)]),
            };
            iter(read.into_iter().map(Ok).collect::<Vec<_>>())
        });
        events.boxed()
    }

    /// The beginning of a body, for people.
    async fn diagnostic(&self, mut response: Response) -> Vec<u8> {
        let mut body = Vec::new();
        let read = async {
            while body.len() <= DIAGNOSTIC_BYTES
                && let Ok(Some(chunk)) = response.chunk().await
            {
                body.extend_from_slice(&chunk);
            }
        };
        drop(tokio::time::timeout(limits::REST_OF_MESSAGE, read).await);
        body
    }
}

/// Reads a body to its end. Without a length, it ends when it is complete and nothing follows for a while.
/// Whether it is too large.
async fn read_rest(bytes: &mut Chunks, body: &mut Vec<u8>, has_length: bool, bytes_max: usize) -> Result<bool, Failed> {
    loop {
        if body.len() > bytes_max {
            return Ok(true);
        }
        let chunk = match tokio::time::timeout(limits::REST_OF_MESSAGE, bytes.next()).await {
            Ok(chunk) => chunk,
            Err(_pause) if !has_length && strict_json::from_slice::<IgnoredAny>(body).is_ok() => return Ok(false),
            Err(_pause) => continue,
        };
        match chunk {
            Some(chunk) => body.extend_from_slice(&chunk.map_err(lost)?),
            None => return Ok(false),
        }
    }
}

fn internal(why: String) -> ErrorData {
    ErrorData::internal_error(why, None)
}

fn lost(error: reqwest::Error) -> Failed {
    Failed::Client(Trouble::Client(error.without_url()))
}

/// An event as `rmcp` reads it: several if it has several messages.
fn readable(reader: &Reader, open: &[Open], event: Sse) -> Vec<Sse> {
    let Some(data) = event.data.as_deref().filter(|data| !data.trim().is_empty()) else { return vec![event] };
    if Reader::is_plain(data.as_bytes()) {
        return vec![event];
    }
    let messages = match reader.read(data.as_bytes(), open) {
        Incoming::Messages(messages) => messages,
        Incoming::Begun => reader.give_up(data.as_bytes(), open).into_iter().collect(),
        Incoming::Noise => Vec::new(),
    };
    match messages.as_slice() {
        // `rmcp` passes over it.
        [] => vec![event],
        messages => messages.iter().map(|message| with_message(event.clone(), message)).collect(),
    }
}

/// `rmcp` passes over events that have names.
fn with_message(event: Sse, message: &ServerJsonRpcMessage) -> Sse {
    Sse { event: None, data: serde_json::to_string(message).ok(), ..event }
}

/// A stream whose last event is complete. A body that is a message is the data of one event.
fn complete(bytes: Chunks) -> Chunks {
    let mut is_message = None;
    let bytes = bytes.map(move |chunk| {
        let chunk = chunk?;
        let begins = is_message.is_none();
        if !*is_message.get_or_insert_with(|| chunk.trim_ascii_start().starts_with(b"{")) {
            return Ok(chunk);
        }
        let mut line = if begins { b"data: ".to_vec() } else { Vec::new() };
        line.extend(chunk.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
        Ok(line.into())
    });
    bytes.chain(iter([Ok(Bytes::from_static(b"\n\n"))])).boxed()
}

const fn is_answer(message: &ServerJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))
}

/// Whether a media type is this one, with any parameters. Capitals mean nothing in it.
fn is(kind: &str, expected: &str) -> bool {
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(expected)
}

fn begins_as_events(body: &[u8]) -> bool {
    let body = body.trim_ascii_start();
    [&b"data:"[..], b"event:", b"id:", b"retry:", b":"].iter().any(|field| body.starts_with(field))
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// A short text of a body, for people.
fn text(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    text.trim().chars().filter(|next| !next.is_control()).take(DIAGNOSTIC_CHARACTERS).collect()
}
