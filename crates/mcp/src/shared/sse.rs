//! Server-sent events: the form of answers that come in several messages.

use std::convert::Infallible;

use bytes::Bytes;
use futures::Stream;
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

/// The answer that streams these frames.
pub(crate) fn response(
    frames: impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + 'static,
) -> Response<Body> {
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}
