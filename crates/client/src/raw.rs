//! Messages that pass through as they are, for a program that speaks MCP to somebody else.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt};
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use reqwest::{Method, Response, StatusCode};
use sse_stream::{Sse, SseStream};

use crate::answer::{is_events, is_json, read};
use crate::error::{Error, with_causes};
use crate::target::Target;
use crate::wire::{SESSION, Wire, Within, refused};

/// No event is read beyond so many bytes.
const EVENT_BYTES_MAX: usize = 64 << 20;

/// A way to a server for messages that pass through as they are. What belongs into headers is the caller's to say.
pub struct Raw {
    wire: Wire,
}

/// What a server answers.
#[derive(Debug)]
pub struct Reply {
    /// The session that it has begun with this answer.
    pub session: Option<HeaderValue>,
    /// What it says.
    pub content: Content,
}

/// What an answer has.
#[derive(Debug)]
pub enum Content {
    /// Nothing, as the answer to a notification.
    Nothing,
    /// One message as text; an error too, whatever the status that it came with.
    Message(String),
    /// Messages as they come.
    Events(Events),
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

impl Raw {
    /// A way to a server. Connects to nothing yet.
    ///
    /// # Errors
    /// If no HTTP client can be made.
    pub fn new(target: Target) -> Result<Self, Error> {
        Ok(Self { wire: Wire::new(target)? })
    }

    /// Sends a message. How long the answer may take is the caller's to say.
    ///
    /// # Errors
    /// If it was not answered, or by a status and no message.
    pub async fn post(&self, message: String, headers: HeaderMap) -> Result<Reply, Error> {
        let within = Within::of(&headers);
        reply(self.wire.post_text(message, headers).await?, within).await
    }

    /// Asks for the stream of what the server says of itself, or for the rest of another one, which the header
    /// `Last-Event-ID` names.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the server has none; otherwise if it was not answered, or by a status.
    pub async fn listen(&self, headers: HeaderMap) -> Result<Events, Error> {
        let within = Within::of(&headers);
        let request = self.wire.request_of(Method::GET, headers).header(ACCEPT, "text/event-stream");
        let response = self.wire.send(request).await?;
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            return Err(Error::Unsupported("the server has no stream of its own".to_owned()));
        }
        match reply(response, within).await?.content {
            Content::Events(events) => Ok(events),
            Content::Nothing | Content::Message(_) => {
                Err(Error::Unexpected("what should be a stream is none".to_owned()))
            }
        }
    }

    /// Ends a session, if the headers name one. A server that does not hear of it ends it later.
    pub async fn end_session(&self, headers: HeaderMap) {
        if headers.contains_key(SESSION) {
            self.wire.end_session(headers).await;
        }
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw").finish_non_exhaustive()
    }
}

async fn reply(response: Response, within: Within) -> Result<Reply, Error> {
    let status = response.status();
    let session = response.headers().get(SESSION).cloned();
    if !status.is_success() {
        let (error, body) = refused(status, response, within).await;
        return match error {
            Error::Refused(_) => Ok(Reply { session, content: Content::Message(text(body)?) }),
            error => Err(error),
        };
    }
    let content = if is_events(&response) {
        Content::Events(Events::of(response))
    } else if is_json(&response) {
        let body = read(response).await?;
        if body.is_empty() { Content::Nothing } else { Content::Message(text(body)?) }
    } else {
        Content::Nothing
    };
    Ok(Reply { session, content })
}

fn text(body: Vec<u8>) -> Result<String, Error> {
    String::from_utf8(body).map_err(|error| Error::Unexpected(error.to_string()))
}

impl Events {
    fn of(response: Response) -> Self {
        let length = Arc::new(AtomicUsize::new(0));
        let so_far = Arc::clone(&length);
        let bytes = response.bytes_stream().map(move |chunk| {
            let chunk = chunk.map_err(|error| io::Error::other(error.without_url()))?;
            if so_far.fetch_add(chunk.len(), Ordering::Relaxed) > EVENT_BYTES_MAX {
                return Err(io::Error::other("an event is too long"));
            }
            Ok::<_, io::Error>(chunk)
        });
        Self { stream: SseStream::from_bytes_stream(bytes).boxed(), length }
    }

    /// The next event; `None` after the last one.
    ///
    /// # Errors
    /// If the connection was lost.
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
