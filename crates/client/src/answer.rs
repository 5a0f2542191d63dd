//! The messages in an answer over HTTP: one as JSON, or several as a stream of events.

use std::io;

use futures::stream::{BoxStream, StreamExt};
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;
use sse_stream::{Sse, SseStream};

use crate::error::{Error, Refusal, with_causes};

/// No answer is read beyond so many bytes.
const BYTES_MAX: usize = 256 << 20;

/// What a server sends in an answer.
pub(crate) enum Message {
    /// How the request ended.
    End(Result<Value, Refusal>),
    /// A request of the server's own.
    Request { id: Value, method: String, params: Value },
    /// What it says by the way.
    Notification { method: String, params: Value },
}

/// An answer that is being read.
pub(crate) enum Answer {
    Json(Option<Response>),
    Events(Events),
}

type Events = BoxStream<'static, Result<Sse, sse_stream::Error>>;

impl Answer {
    /// # Errors
    /// If it is of a type that no answer has.
    pub(crate) fn new(response: Response) -> Result<Self, Error> {
        if is_json(&response) {
            return Ok(Self::Json(Some(response)));
        }
        if !is_events(&response) {
            return Err(Error::Unexpected(format!("an answer of the type `{}`", kind(&response))));
        }
        let mut left = BYTES_MAX;
        let bytes = response.bytes_stream().map(move |chunk| {
            let chunk = chunk.map_err(|error| io::Error::other(error.without_url()))?;
            left = left.checked_sub(chunk.len()).ok_or_else(|| io::Error::other("the answer is too long"))?;
            Ok::<_, io::Error>(chunk)
        });
        Ok(Self::Events(SseStream::from_bytes_stream(bytes).boxed()))
    }

    /// The next message; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Result<Option<Message>, Error> {
        match self {
            Self::Json(response) => {
                let Some(response) = response.take() else { return Ok(None) };
                let body = read(response).await?;
                let message = serde_json::from_slice(&body).map_err(|error| Error::Unexpected(error.to_string()))?;
                Ok(understood(message))
            }
            Self::Events(events) => next_of(events).await,
        }
    }
}

/// The next event that has a message.
async fn next_of(events: &mut Events) -> Result<Option<Message>, Error> {
    while let Some(event) = events.next().await {
        let event = event.map_err(|error| Error::Lost(with_causes(&error)))?;
        let message = event.data.and_then(|data| serde_json::from_str(&data).ok());
        if let Some(message) = message.and_then(understood) {
            return Ok(Some(message));
        }
    }
    Ok(None)
}

const JSON: &str = "application/json";

fn kind(response: &Response) -> &str {
    response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default()
}

pub(crate) fn is_json(response: &Response) -> bool {
    kind(response).starts_with(JSON)
}

pub(crate) fn is_events(response: &Response) -> bool {
    kind(response).starts_with("text/event-stream")
}

/// A whole body.
pub(crate) async fn read(response: Response) -> Result<Vec<u8>, Error> {
    let (mut body, mut chunks) = (Vec::new(), response.bytes_stream());
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| Error::Lost(with_causes(&error.without_url())))?;
        if body.len() + chunk.len() > BYTES_MAX {
            return Err(Error::Unexpected("the answer is too long".to_owned()));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn understood(mut message: Value) -> Option<Message> {
    if let Some(error) = message.get("error") {
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
