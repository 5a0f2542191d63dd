//! Bodies of answers: whole ones, and streams of events.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt};
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use sse_stream::{Sse, SseStream};

use crate::error::{Error, with_causes};

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

/// The type of a body.
pub(crate) fn kind(response: &Response) -> &str {
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
