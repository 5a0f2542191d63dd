//! Server-sent events: the form of answers that come in several messages.

use std::convert::Infallible;
use std::future::Future;

use bytes::Bytes;
use futures::stream::{Stream, StreamExt, iter, unfold};
use http::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};

use crate::Body;

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
