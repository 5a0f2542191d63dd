//! What a server answers over HTTP: one message as JSON, or several as a stream of events.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt};
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use serde_json::Value;
use sse_stream::{Sse, SseStream};

use crate::error::{Error, Refusal, with_causes};
use crate::repair::repaired;
use crate::resume::Stream;
use crate::unreadable::unreadable_answer;

/// What names a session.
pub(crate) const SESSION: &str = "mcp-session-id";

/// What a server answers.
#[derive(Debug)]
pub struct Reply {
    /// The session that it has begun with this answer.
    pub session: Option<HeaderValue>,
    /// What it says.
    pub content: Content,
    /// The type of its body.
    pub(crate) kind: String,
}

/// What an answer has.
#[derive(Debug)]
pub enum Content {
    /// No message, as the answer to a notification.
    Nothing,
    /// One message as text; an error too, whatever the status that it came with.
    Message(String),
    /// Messages as they come.
    Stream(Box<Stream>),
}

/// A message in an answer.
#[derive(Debug)]
pub enum Message {
    /// How the request ended.
    End(Result<Value, Refusal>),
    /// A request of the server's own.
    Request {
        /// What its answer has to repeat.
        id: Value,
        /// What the server wants.
        method: String,
        /// The details.
        params: Value,
    },
    /// What the server says by the way.
    Notification {
        /// What it is about.
        method: String,
        /// What it says.
        params: Value,
    },
}

impl Content {
    /// The next message as text; `None` after the last one.
    ///
    /// # Errors
    /// If the connection was lost, as [`Stream::next`] says.
    pub async fn next(&mut self) -> Result<Option<String>, Error> {
        match self {
            Self::Nothing => Ok(None),
            Self::Message(text) => Ok(Some(std::mem::take(text)).filter(|text| !text.is_empty())),
            Self::Stream(stream) => stream.next().await,
        }
    }
}

impl Reply {
    /// What a response has. `follow` makes a stream of its events.
    pub(crate) async fn of(
        response: Response,
        bytes_max: usize,
        follow: impl FnOnce(Events) -> Stream,
    ) -> Result<Self, Error> {
        let (session, kind) = (response.headers().get(SESSION).cloned(), kind(&response).to_owned());
        let content = if is_stream(&response) {
            Content::Stream(Box::new(follow(Events::of(response, bytes_max))))
        } else if is_json(&response) {
            let body = read(response, bytes_max).await?;
            if body.is_empty() { Content::Nothing } else { Content::Message(text(body)) }
        } else {
            Content::Nothing
        };
        Ok(Self { session, content, kind })
    }

    /// The next message; `None` after the last one.
    ///
    /// # Errors
    /// If the connection was lost, or there is no message at all.
    pub async fn next(&mut self) -> Result<Option<Message>, Error> {
        if matches!(self.content, Content::Nothing) {
            return Err(Error::Unexpected(format!("an answer of the type `{}`", self.kind)));
        }
        while let Some(text) = self.content.next().await? {
            let read = serde_json::from_str(&text);
            let read = read.or_else(|error| serde_json::from_str(&repaired(text.as_bytes())).map_err(|_same| error));
            match read.map(understood) {
                Ok(Some(message)) => return Ok(Some(message)),
                // What is not JSON may be an answer all the same, and then no other one comes.
                Err(error)
                    if matches!(self.content, Content::Message(_)) || unreadable_answer(text.as_bytes()).is_some() =>
                {
                    return Err(Error::Unexpected(error.to_string()));
                }
                Ok(None) | Err(_) => {}
            }
        }
        Ok(None)
    }
}

impl Reply {
    /// The result of a request that needs no work and asks nothing.
    ///
    /// # Errors
    /// [`Error::Refused`] if it ends with an error; otherwise as [`next`](Self::next).
    pub async fn result(mut self) -> Result<Value, Error> {
        while let Some(message) = self.next().await? {
            if let Message::End(end) = message {
                return end.map_err(Error::Refused);
            }
        }
        Err(Error::Lost("the stream ended without it".to_owned()))
    }
}

fn understood(mut message: Value) -> Option<Message> {
    if let Some(error) = message.get("error").filter(|error| !error.is_null()) {
        return Some(Message::End(Err(Refusal::of(error))));
    }
    if let Some(result) = message.get_mut("result") {
        return Some(Message::End(Ok(result.take())));
    }
    let method = message.get("method")?.as_str()?.to_owned();
    let params = message.get_mut("params").map(Value::take).unwrap_or_default();
    Some(match message.get("id") {
        Some(id) => Message::Request { id: id.clone(), method, params },
        None => Message::Notification { method, params },
    })
}

/// An event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The message, if it has one.
    pub data: Option<String>,
    /// From where the stream can be read again.
    pub id: Option<String>,
    /// How long to wait before that.
    pub retry: Option<Duration>,
}

/// A stream of events.
pub struct Events {
    stream: BoxStream<'static, Result<Sse, sse_stream::Error>>,
    /// Bytes since the last event.
    length: Arc<AtomicUsize>,
}

impl Events {
    pub(crate) fn of(response: Response, event_bytes_max: usize) -> Self {
        let length = Arc::new(AtomicUsize::new(0));
        let so_far = Arc::clone(&length);
        let bytes = response.bytes_stream().map(move |chunk| {
            let chunk = chunk.map_err(|error| io::Error::other(error.without_url()))?;
            if so_far.fetch_add(chunk.len(), Ordering::Relaxed) > event_bytes_max {
                return Err(io::Error::other("an event is too long"));
            }
            Ok::<_, io::Error>(chunk)
        });
        Self { stream: SseStream::from_bytes_stream(bytes).boxed(), length }
    }

    /// The next event; `None` after the last one.
    pub async fn next(&mut self) -> Result<Option<Event>, Error> {
        let Some(event) = self.stream.next().await else { return Ok(None) };
        self.length.store(0, Ordering::Relaxed);
        let event = event.map_err(|error| Error::Lost(with_causes(&error)))?;
        let data = event.data.filter(|data| !data.is_empty());
        Ok(Some(Event { data, id: event.id, retry: event.retry.map(Duration::from_millis) }))
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

fn kind(response: &Response) -> &str {
    response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default()
}

pub(crate) fn is_stream(response: &Response) -> bool {
    is_of(response, "text/event-stream")
}

pub(crate) fn is_json(response: &Response) -> bool {
    is_of(response, "application/json")
}

/// Whether the type of the body is this one, with any parameters. Capitals mean nothing in it.
fn is_of(response: &Response, expected: &str) -> bool {
    kind(response).get(..expected.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(expected))
}

/// A whole body.
pub(crate) async fn read(response: Response, bytes_max: usize) -> Result<Vec<u8>, Error> {
    let (mut body, mut chunks) = (Vec::new(), response.bytes_stream());
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| Error::Lost(with_causes(&error.without_url())))?;
        if body.len() + chunk.len() > bytes_max {
            return Err(Error::Unexpected("the answer is too long".to_owned()));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// A body as text. Bytes that are not UTF-8 become U+FFFD.
pub(crate) fn text(body: Vec<u8>) -> String {
    String::from_utf8(body).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
