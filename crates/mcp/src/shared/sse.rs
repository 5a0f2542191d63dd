//! Server-sent events: how answers look that come bit by bit.

use std::convert::Infallible;

use bytes::Bytes;
use futures::Stream;
use http::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};

use crate::Body;

/// A comment, for streams that have nothing to say.
pub(crate) const KEEP_ALIVE: &[u8] = b":\n\n";

/// One event. The message is JSON without raw line breaks, so one line is enough.
pub(crate) fn event(message: &str) -> Bytes {
    Bytes::from(format!("data: {message}\n\n"))
}

/// One event that a client can go on from.
pub(crate) fn event_with_id(id: &str, message: &str) -> Bytes {
    Bytes::from(format!("id: {id}\ndata: {message}\n\n"))
}

/// The event that makes a stream one to go on from, before it has said anything; its data is empty. `retry_ms` is when
/// to come back after the connection was closed.
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
