//! What scripts of web pages may send and read: the CORS protocol of the Fetch standard. A browser asks before it sends
//! a request of a page to another origin, and shows the page no more of the answer than this allows.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};

use crate::Body;
use crate::rejection::full;

/// The methods that a page may use.
pub const PAGE_METHODS: &str = "GET, POST, DELETE";

/// The headers that a page may send, in the order of the alphabet.
pub const PAGE_HEADERS: &str = "accept, authorization, content-type, idempotency-key, last-event-id, mcp-method, \
     mcp-name, mcp-protocol-version, mcp-session-id, traceparent, x-amz-content-sha256, x-amz-date, \
     x-amz-security-token";

/// The headers of an answer that a page may read besides those that every page may.
pub const READABLE_HEADERS: &str = "mcp-session-id, retry-after, www-authenticate";

/// How long a browser need not ask again, in seconds.
pub const MAX_AGE_S: &str = "600";

/// Every page.
const ANY: HeaderValue = HeaderValue::from_static("*");

/// Whether a browser asks if a page may send a request.
pub(crate) fn is_preflight(request: &Parts) -> bool {
    let has = |name| request.headers.contains_key(name);
    request.method == Method::OPTIONS && has(ORIGIN) && has(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a browser that asks: a page of `origin` may send its request.
pub(crate) fn permission(origin: Option<HeaderValue>) -> Response<Body> {
    let mut answer = Response::new(full(bytes::Bytes::new()));
    *answer.status_mut() = StatusCode::NO_CONTENT;
    for (name, value) in [
        (ACCESS_CONTROL_ALLOW_METHODS, PAGE_METHODS),
        (ACCESS_CONTROL_ALLOW_HEADERS, PAGE_HEADERS),
        (ACCESS_CONTROL_MAX_AGE, MAX_AGE_S),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    readable(answer, Some(origin.unwrap_or(ANY)))
}

/// The answer, which scripts of pages of `origin` may read. What everyone may read stays so.
pub(crate) fn readable(mut answer: Response<Body>, origin: Option<HeaderValue>) -> Response<Body> {
    let Some(origin) = origin else { return answer };
    let headers = answer.headers_mut();
    if !headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN) {
        // A cache must not give one page's answer to another one.
        headers.append(VARY, HeaderValue::from_static("origin"));
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    }
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(READABLE_HEADERS));
    answer
}
