//! Answers: pages, files that pages load, redirects.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, LOCATION, SET_COOKIE};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

use crate::ask::PageRequest;
use crate::page::Page;

/// A body of an answer.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The permissions of a page in the browser: it loads files of the console, sends forms to it, and does nothing else.
pub(crate) const SAFE: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action \
         'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    // With `no-referrer`, browsers would hide the origin of the console's own forms too.
    ("referrer-policy", "same-origin"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

pub(crate) fn with_cookie(mut answer: Response<Body>, cookie: &str) -> Response<Body> {
    answer.headers_mut().extend(HeaderValue::from_str(cookie).ok().map(|cookie| (SET_COOKIE, cookie)));
    answer
}

pub(crate) fn shown(page: &Page, ask: &PageRequest) -> Response<Body> {
    let mut answer = of_type("text/html; charset=utf-8", page.document(ask));
    *answer.status_mut() = page.code();
    answer
}

pub(crate) fn see_other(path: &str) -> Response<Body> {
    let mut answer = text(StatusCode::SEE_OTHER, "");
    answer.headers_mut().extend(HeaderValue::from_str(path).ok().map(|path| (LOCATION, path)));
    answer
}

pub(crate) fn text(status: StatusCode, text: &str) -> Response<Body> {
    let mut answer = of_type("text/plain; charset=utf-8", format!("{text}\n"));
    *answer.status_mut() = status;
    answer
}

pub(crate) fn of_type(kind: &'static str, text: impl Into<Bytes>) -> Response<Body> {
    let mut answer = Response::new(whole(text));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

pub(crate) fn whole(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).boxed_unsync()
}

/// A file that pages load, with its type.
pub(crate) fn asset(name: &str) -> Option<(&'static str, &'static str)> {
    match name {
        "console.css" => Some((
            "text/css; charset=utf-8",
            concat!(include_str!("assets/console.css"), include_str!("assets/forms.css")),
        )),
        "console.js" => Some(("text/javascript; charset=utf-8", include_str!("assets/console.js"))),
        "icon.svg" => Some(("image/svg+xml", include_str!("assets/icon.svg"))),
        _ => None,
    }
}
