//! Requests of scripts in web pages: the CORS protocol of the Fetch standard. A browser asks before it sends a page's
//! request to another origin. It shows the page only the parts of the answer that this module allows.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderName, ORIGIN, VARY,
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

/// How the headers begin in which a page repeats parameters of a tool. Tools name them, so they cannot be listed here.
const PARAMETER_HEADERS: &str = "mcp-param-";

/// How many of them a page may send.
const PARAMETERS_MAX: usize = 64;

/// The headers of an answer that a page may read in addition to those that every page may.
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

/// The headers that a page may send which asks in this way: those of all pages, and those of parameters that it names.
pub(crate) fn allowed_headers(request: &Parts) -> HeaderValue {
    let asked = request.headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter();
    let names = asked.filter_map(|names| names.to_str().ok()).flat_map(|names| names.split(','));
    let parameters = names.filter_map(|name| HeaderName::try_from(name.trim()).ok());
    let parameters = parameters.filter(|name| name.as_str().starts_with(PARAMETER_HEADERS)).take(PARAMETERS_MAX);
    let allowed = parameters.fold(PAGE_HEADERS.to_owned(), |allowed, name| format!("{allowed}, {name}"));
    HeaderValue::from_str(&allowed).unwrap_or(HeaderValue::from_static(PAGE_HEADERS))
}

/// The answer to a browser that asks: a page of `origin` may send its request, with these headers.
pub(crate) fn permission(origin: Option<HeaderValue>, headers: HeaderValue) -> Response<Body> {
    let mut answer = Response::new(full(bytes::Bytes::new()));
    *answer.status_mut() = StatusCode::NO_CONTENT;
    for (name, value) in [
        (ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(PAGE_METHODS)),
        (ACCESS_CONTROL_ALLOW_HEADERS, headers),
        (ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE_S)),
    ] {
        answer.headers_mut().insert(name, value);
    }
    readable(answer, Some(origin.unwrap_or(ANY)))
}

/// The answer, which scripts of pages of `origin` may read. Public answers stay public.
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
