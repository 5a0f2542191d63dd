//! The front door: every request passes here before MCP sees it.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use longhaul_core::{Identity, OwnerId};

use crate::rejection::full;
use crate::{BODY_BYTES_MAX, Gate, HEALTH_PATH, MCP_PATH, Rejection};

/// The body of an answer: bytes at once, or a stream of events.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The front door.
#[derive(Clone, Debug)]
pub struct Door {
    gate: Gate,
}

impl Door {
    /// A door with this gate.
    #[must_use]
    pub const fn new(gate: Gate) -> Self {
        Self { gate }
    }

    /// Answers `request`: by itself, or by `mcp` once the request is checked, read whole, and its owner is known.
    /// Everyone is let in as the anonymous owner.
    pub async fn answer<B, F, Fut>(&self, request: Request<B>, mcp: F) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        F: FnOnce(Request<Bytes>, OwnerId) -> Fut + Send,
        Fut: Future<Output = Response<Body>> + Send,
    {
        match self.admit(request).await {
            Ok(Admitted::Mcp(request)) => mcp(*request, OwnerId::of(Identity::Anonymous)).await,
            Ok(Admitted::Health) => healthy(),
            Err(rejection) => {
                tracing::info!(%rejection, "a request was turned away");
                rejection.into_response()
            }
        }
    }

    async fn admit<B>(&self, request: Request<B>) -> Result<Admitted, Rejection>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        self.gate.check(&parts.uri, &parts.headers)?;
        match parts.uri.path() {
            HEALTH_PATH if matches!(parts.method, Method::GET | Method::HEAD) => Ok(Admitted::Health),
            HEALTH_PATH => Err(Rejection::Method),
            MCP_PATH => Ok(Admitted::Mcp(Box::new(Request::from_parts(parts, read(body).await?)))),
            _ => Err(Rejection::NoSuchPath),
        }
    }
}

enum Admitted {
    Mcp(Box<Request<Bytes>>),
    Health,
}

async fn read<B>(body: B) -> Result<Bytes, Rejection>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Box::pin(Limited::new(body, BODY_BYTES_MAX).collect()).await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Rejection::TooLarge { bytes_max: BODY_BYTES_MAX }),
        Err(error) => {
            tracing::debug!(error = %error, "a request's body could not be read");
            Err(Rejection::Unreadable)
        }
    }
}

fn healthy() -> Response<Body> {
    let mut response = Response::new(full(Bytes::from_static(b"{\"status\":\"ok\"}\n")));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use http_body_util::Full;

    use super::*;

    async fn status(method: Method, path: &str, body: Bytes) -> StatusCode {
        let request = Request::builder().method(method).uri(path).header("host", "localhost").body(Full::new(body));
        let door = Door::new(Gate::default());
        door.answer(request.unwrap(), async |_, _| Response::new(full(Bytes::new()))).await.status()
    }

    #[tokio::test]
    async fn only_two_paths_are_there() {
        assert_eq!(status(Method::POST, "/mcp", Bytes::new()).await, StatusCode::OK);
        assert_eq!(status(Method::GET, "/healthz", Bytes::new()).await, StatusCode::OK);
        assert_eq!(status(Method::POST, "/healthz", Bytes::new()).await, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(status(Method::POST, "/", Bytes::new()).await, StatusCode::NOT_FOUND);
        assert_eq!(status(Method::POST, "/mcp/x", Bytes::new()).await, StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused_before_it_is_read_whole() {
        assert_eq!(status(Method::POST, "/mcp", vec![b' '; BODY_BYTES_MAX].into()).await, StatusCode::OK);
        let over = vec![b' '; BODY_BYTES_MAX + 1].into();
        assert_eq!(status(Method::POST, "/mcp", over).await, StatusCode::PAYLOAD_TOO_LARGE);
    }
}
