//! Server-sent events: the form of answers that come in several messages.

use std::convert::Infallible;
use std::future::Future;

use bytes::Bytes;
use futures::stream::{Stream, StreamExt, iter, unfold};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use longhaul_core::strict_json;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Body;

/// Whether a client takes an answer in several messages: not if it accepts JSON, and does not name event streams. A
/// client that says nothing of either takes both.
pub(crate) fn is_accepted(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut accepts_json = false;
    for range in values.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        if weight.is_some_and(|weight| weight.parse() == Ok(0.0)) {
            continue;
        }
        match &*kind {
            "text/event-stream" | "text/*" | "*/*" => return true,
            "application/json" | "application/*" => accepts_json = true,
            _ => {}
        }
    }
    !accepts_json
}

/// Whether an answer comes in several messages. One that was only accepted does not.
pub(crate) fn is_stream(answer: &Response<Body>) -> bool {
    let kind = answer.headers().get(CONTENT_TYPE).filter(|_| answer.status() == StatusCode::OK);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// The answer at the end of a stream, without what comes before; `None` if the stream ends without one.
pub(crate) async fn last_message(mut body: Body) -> Option<Bytes> {
    let mut last = None;
    while let Some(Ok(frame)) = body.frame().await {
        let frame = frame.into_data().unwrap_or_default();
        for line in frame.split(|byte| *byte == b'\n') {
            let data = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii).filter(|data| !data.is_empty());
            if let Some(data) = data
                && strict_json::from_slice::<Answer<'_>>(data).is_ok()
            {
                last = Some(frame.slice_ref(data));
            }
        }
    }
    last
}

/// The members that distinguish an answer: an id, and no method.
#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow, rename = "id")]
    _id: &'a RawValue,
    #[serde(default, rename = "method")]
    _method: Absent,
}

/// Something that is never there.
#[derive(Default)]
struct Absent;

impl<'de> Deserialize<'de> for Absent {
    fn deserialize<D: serde::Deserializer<'de>>(_deserializer: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom("this is not an answer"))
    }
}

/// A comment, for idle streams.
pub(crate) const KEEP_ALIVE: &[u8] = b":\n\n";

/// One event. The message is JSON without raw line breaks, so one line is enough.
pub(crate) fn event(message: impl AsRef<[u8]>) -> Bytes {
    [b"data: ", message.as_ref(), b"\n\n"].concat().into()
}

/// One event from which a client can resume.
pub(crate) fn event_with_id(id: &str, message: &str) -> Bytes {
    Bytes::from(format!("id: {id}\ndata: {message}\n\n"))
}

/// The event that makes a stream resumable before it has sent a message; its data is empty. `retry_ms` is how long the
/// client should wait before it reconnects after the connection was closed.
pub(crate) fn priming(id: &str, retry_ms: u64) -> Bytes {
    Bytes::from(format!("id: {id}\nretry: {retry_ms}\ndata: \n\n"))
}

/// The events of a stream, which its reader asks for one after the other: nothing is spawned, and a client that leaves
/// drops them.
pub(crate) trait Frames: Send + 'static {
    /// The next frame; `None` after the last one.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// The answer that begins with `first`.
pub(crate) fn stream(first: Option<Bytes>, frames: impl Frames) -> Response<Body> {
    let rest = unfold(frames, |mut frames| async move { Some((frames.next().await?, frames)) });
    response(iter(first).chain(rest))
}

pub(crate) fn response(frames: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    let frames = frames.map(|frame| Ok::<_, Infallible>(Frame::data(frame)));
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}
