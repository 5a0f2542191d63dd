//! The bodies of requests and answers: a request's has to arrive in time, an answer's keeps its connection open. And
//! the stream below them, which reports what it sees.

use std::convert::Infallible;
use std::error::Error;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use longhaul_http::{BODY_BYTES_MAX, SlowBody};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use super::connection::{Exchange, Receiving};
use super::{Connection, TimeLimits};
use crate::serve::limits::DISCARD;

/// The body of a request. It fails with [`SlowBody`] when it has not arrived in time.
pub(crate) struct RequestBody {
    incoming: Incoming,
    /// Until all has arrived.
    receiving: Option<Receiving>,
    limits: TimeLimits,
    pace: Pace,
    late: Option<Pin<Box<Sleep>>>,
}

impl RequestBody {
    pub(crate) fn new(incoming: Incoming, exchange: &Exchange) -> Self {
        let connection = exchange.connection();
        let receiving = (!incoming.is_end_stream()).then(|| connection.receive());
        Self { incoming, receiving, limits: *connection.limits(), pace: Pace::new(Instant::now()), late: None }
    }

    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let at = self.pace.late_at(&self.limits);
        let late = self.late.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if late.deadline() != at {
            late.as_mut().reset(at);
        }
        late.as_mut().poll(context)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = match Pin::new(&mut self.incoming).poll_frame(context) {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                ready!(self.poll_late(context));
                return Poll::Ready(Some(Err(SlowBody.into())));
            }
        };
        match frame {
            Some(Ok(frame)) => {
                let now = Instant::now();
                self.pace.received(frame.data_ref().map_or(0, Bytes::len), now);
                if now > self.pace.late_at(&self.limits) {
                    return Poll::Ready(Some(Err(SlowBody.into())));
                }
                if self.incoming.is_end_stream() {
                    self.receiving = None;
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(error.into()))),
            None => {
                self.receiving = None;
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

/// How fast a body arrives.
struct Pace {
    began_at: Instant,
    bytes: u64,
    /// When there were more bytes than a body may have.
    refused_at: Option<Instant>,
}

impl Pace {
    const fn new(began_at: Instant) -> Self {
        Self { began_at, bytes: 0, refused_at: None }
    }

    fn received(&mut self, bytes: usize, now: Instant) {
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        if usize::try_from(self.bytes).map_or(true, |bytes| bytes > BODY_BYTES_MAX) {
            self.refused_at.get_or_insert(now);
        }
    }

    /// When the rest has to be here, unless more arrives.
    fn late_at(&self, limits: &TimeLimits) -> Instant {
        let earned = Duration::from_millis(self.bytes.saturating_mul(1_000) / limits.body_bytes_per_s);
        let paced = self.began_at + limits.body + earned;
        self.refused_at.map_or(paced, |refused_at| paced.min(refused_at + DISCARD))
    }
}

/// The body of an answer. Its connection is busy until it has been sent.
pub(crate) struct AnswerBody {
    body: longhaul_http::Body,
    _exchange: Exchange,
}

impl AnswerBody {
    pub(crate) const fn new(body: longhaul_http::Body, exchange: Exchange) -> Self {
        Self { body, _exchange: exchange }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The stream of a connection, which reports what it sees.
pub(crate) struct Watched {
    stream: TokioIo<TcpStream>,
    connection: Arc<Connection>,
    is_opened: bool,
    is_unread: bool,
}

impl Watched {
    pub(crate) fn new(stream: TcpStream, connection: Arc<Connection>) -> Self {
        Self { stream: TokioIo::new(stream), connection, is_opened: false, is_unread: false }
    }

    fn report(&mut self, written: &Poll<io::Result<usize>>) {
        if written.is_pending() != self.is_unread {
            self.is_unread = written.is_pending();
            if self.is_unread { self.connection.unread() } else { self.connection.read() }
        }
    }
}

impl Read for Watched {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        if read.is_ready() && !self.is_opened {
            self.is_opened = true;
            self.connection.opened();
        }
        read
    }
}

impl Write for Watched {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.report(&written);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.report(&written);
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_earns_time_by_its_bytes() {
        let limits = TimeLimits::for_tests();
        let began_at = Instant::now();
        let mut pace = Pace::new(began_at);
        assert_eq!(pace.late_at(&limits), began_at + limits.body);
        pace.received(500, began_at);
        pace.received(1_000, began_at);
        assert_eq!(pace.late_at(&limits), began_at + limits.body + Duration::from_millis(1_500));
    }

    #[test]
    fn a_body_that_is_too_large_has_five_seconds_for_its_rest() {
        let limits = TimeLimits::for_tests();
        let began_at = Instant::now();
        let mut pace = Pace::new(began_at);
        let later = began_at + Duration::from_secs(1);
        pace.received(BODY_BYTES_MAX, later);
        assert!(pace.late_at(&limits) > later + limits.body);
        pace.received(1, later);
        pace.received(1_000_000, later + Duration::from_secs(2));
        assert_eq!(pace.late_at(&limits), later + Duration::from_secs(5));
        let mut slow = Pace::new(began_at);
        let end = slow.late_at(&limits);
        slow.received(BODY_BYTES_MAX + 1, end);
        assert!(slow.late_at(&limits) > end, "what it has sent counts");
    }
}
