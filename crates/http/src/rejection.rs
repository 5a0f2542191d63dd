//! The reasons to refuse a request before it reaches MCP, and the answers to its sender.

use std::borrow::Cow;
use std::convert::Infallible;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// The body of a response: bytes at once, or a stream of events.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Why a request was refused by the frontend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The `Host` is not allowed.
    #[error(
        "this server does not answer to the Host `{host}`; if it should, add it to --allow-host (LONGHAUL_ALLOW_HOST)"
    )]
    Host {
        /// The text in the request, escaped and cut; empty if it names none.
        host: String,
    },
    /// There is more than one `Host`.
    #[error("the request has several Host headers: send one")]
    SeveralHosts,
    /// The `Host`, or the target, is not a host and a port.
    #[error(
        "the request's Host must be a name or an address, and perhaps a colon and a port up to 65535: no user name"
    )]
    MalformedHost,
    /// The target names another server than the `Host`.
    #[error("the request's target and its Host name different servers: send the same in both")]
    AnotherTarget,
    /// The body is not said to be JSON.
    #[error("send the request's body as JSON, with the header Content-Type: application/json")]
    ContentType,
    /// The web page that sent the request is not allowed.
    #[error(
        "requests of web pages from the origin `{origin}` are not allowed. To allow them, add it to --allow-origin \
         (LONGHAUL_ALLOW_ORIGIN; in a stack, the parameter AllowOrigins)"
    )]
    Origin {
        /// The text in the request, escaped and cut.
        origin: String,
    },
    /// The request carries no token, or one that is not accepted.
    #[error("{reason}")]
    Unauthorized {
        /// The fault, and the remedy. Never a part of the token.
        reason: Cow<'static, str>,
        /// The header `WWW-Authenticate` of the answer.
        challenge: HeaderValue,
    },
    /// The request carries several tokens.
    #[error("the request has several Authorization headers: send one")]
    SeveralTokens {
        /// The header `WWW-Authenticate` of the answer.
        challenge: HeaderValue,
    },
    /// The request's token cannot be verified now.
    #[error("the keys of the token's issuer cannot be fetched now: keep the token, and send the request again later")]
    NoKeys {
        /// When to try again, in seconds.
        retry_after_s: u64,
    },
    /// The list of tokens cannot be read.
    #[error("the tokens of this server cannot be read now: keep yours, and send the request again later")]
    NoTokens {
        /// When to try again, in seconds.
        retry_after_s: u64,
    },
    /// The request carries no verified signature.
    #[error("the caller is not known: sign the request with credentials that may call this server")]
    NotSigned,
    /// The request names a user for whom its caller may not call, or not clearly.
    #[error("{0}")]
    OnBehalf(&'static str),
    /// The body is too large.
    #[error("the request's body has more than {bytes_max} bytes")]
    TooLarge {
        /// The limit.
        bytes_max: usize,
    },
    /// Other requests have taken all the memory that there is for bodies.
    #[error("the server has no room for a request of this size now; send it again in a few seconds")]
    Busy,
    /// The body ended early.
    #[error("the request's body could not be read")]
    Unreadable,
    /// The body did not arrive in time.
    #[error("the request's body comes too slowly: send it faster, or in smaller requests")]
    SlowBody,
    /// The response was not ready within the time that this server has for it.
    #[error(
        "the call takes longer than a request may take; call it as a task, with a client that declares the Tasks \
         extension"
    )]
    TooSlow,
    /// There is nothing at this path.
    #[error("not found; the MCP endpoint is POST /mcp")]
    NoSuchPath,
    /// The path of a callback exists, but only to send to.
    #[error("method not allowed; send the value with POST")]
    OnlyPost,
    /// The path exists, but not with this method.
    #[error("method not allowed")]
    Method,
}

/// The error of a request's body that does not arrive in time. The caller of the frontend sets that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body did not arrive in time")]
pub struct SlowBody;

impl Rejection {
    const fn status(&self) -> StatusCode {
        match self {
            Self::Host { .. } | Self::Origin { .. } | Self::NotSigned | Self::OnBehalf(_) => StatusCode::FORBIDDEN,
            Self::Unauthorized { .. } => StatusCode::UNAUTHORIZED,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Busy | Self::NoKeys { .. } | Self::NoTokens { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::SeveralHosts
            | Self::MalformedHost
            | Self::AnotherTarget
            | Self::SeveralTokens { .. }
            | Self::Unreadable => StatusCode::BAD_REQUEST,
            Self::SlowBody => StatusCode::REQUEST_TIMEOUT,
            Self::TooSlow => StatusCode::GATEWAY_TIMEOUT,
            Self::NoSuchPath => StatusCode::NOT_FOUND,
            Self::Method | Self::OnlyPost => StatusCode::METHOD_NOT_ALLOWED,
        }
    }

    /// The header that goes with the status, if there is one.
    fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        match self {
            Self::Method => Some((ALLOW, HeaderValue::from_static("GET, HEAD"))),
            Self::OnlyPost => Some((ALLOW, HeaderValue::from_static("POST"))),
            Self::Busy => Some((RETRY_AFTER, HeaderValue::from_static("2"))),
            Self::NoKeys { retry_after_s } | Self::NoTokens { retry_after_s } => {
                Some((RETRY_AFTER, HeaderValue::from(*retry_after_s)))
            }
            Self::Unauthorized { challenge, .. } | Self::SeveralTokens { challenge } => {
                Some((WWW_AUTHENTICATE, challenge.clone()))
            }
            Self::Host { .. }
            | Self::SeveralHosts
            | Self::MalformedHost
            | Self::AnotherTarget
            | Self::ContentType
            | Self::Origin { .. }
            | Self::NotSigned
            | Self::OnBehalf(_)
            | Self::TooLarge { .. }
            | Self::Unreadable
            | Self::SlowBody
            | Self::TooSlow
            | Self::NoSuchPath => None,
        }
    }

    /// The response: a JSON-RPC error without an id, as the transport allows for requests that were not accepted.
    #[must_use]
    pub fn into_response(&self) -> Response<Body> {
        let error = serde_json::json!({"jsonrpc": "2.0", "error": {"code": -32600, "message": self.to_string()}});
        let mut response = Response::new(full(Bytes::from(error.to_string())));
        *response.status_mut() = self.status();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some((name, value)) = self.header() {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

pub(crate) fn full(bytes: Bytes) -> Body {
    UnsyncBoxBody::new(Full::new(bytes).map_err(|never| match never {}))
}
