//! Streams that end before their function does. A stream that is still open at the function's deadline would end with
//! the sandbox, and its client would not be told.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use longhaul_core::{Clock, Timestamp};
use longhaul_mcp::Body;
use tracing::Span;

/// The body, ended at `gives_up_at` unless it has ended by itself; it is polled within `span`. A body of known size is
/// complete already and is returned as it is.
pub(crate) fn until(gives_up_at: Timestamp, clock: &Arc<dyn Clock>, span: &Span, body: Body) -> Body {
    if body.size_hint().exact().is_some() {
        return body;
    }
    let clock = Arc::clone(clock);
    let gives_up = async move {
        let left_ms = gives_up_at.since_ms(clock.now());
        clock.sleep_ms(left_ms).await;
    };
    Bounded { body, gives_up: gives_up.boxed(), span: span.clone() }.boxed_unsync()
}

struct Bounded {
    body: Body,
    gives_up: BoxFuture<'static, ()>,
    span: Span,
}

impl http_body::Body for Bounded {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let span = self.span.clone();
        let _entered = span.enter();
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        self.gives_up.poll_unpin(context).map(|()| {
            tracing::warn!("a stream was still open shortly before the function's deadline, and was closed");
            None
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
