//! Every header that the server reads, with a body that is valid. An input is a list of header lines.
//!
//! The rules for requests that pass are written here once more: they come from no page of another host, from no host of
//! another machine, and from no caller without a token.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request};
use serde_json::json;

use crate::dialogue::{call_of, check, find};
use crate::driver::drive;
use crate::world::{Answer, TOKEN, World};

/// A page that may call.
const PAGE: &str = "https://app.example.com";

/// The default headers of the request.
const USUAL: [(&str, &str); 6] = [
    ("host", "localhost"),
    ("content-type", "application/json"),
    ("authorization", "Bearer token-of-alice"),
    ("mcp-protocol-version", "2026-07-28"),
    ("mcp-method", "tools/call"),
    ("mcp-name", "add"),
];

/// Sends one request with these headers.
pub(crate) fn run(input: &[u8]) {
    let Some(request) = request(input) else { return };
    let headers = request.headers().clone();
    let world = World::with(&[PAGE]);
    let clock = std::sync::Arc::clone(&world.clock);
    let (answer, tasks) = drive(&clock, async { (world.send(request).await, world.tasks().await) });
    check(&answer);
    let is_refused = matches!(answer.status.as_u16(), 400..=499);
    assert!(!is_refused || tasks.is_empty(), "a refused request left a task");
    if matches!(answer.status.as_u16(), 200 | 202) {
        judge(&headers);
    }
    assert_no_token(&headers, &answer);
}

/// Only requests from this machine, by an identified caller, as JSON.
fn judge(headers: &http::HeaderMap) {
    let one = |name: &str| {
        let mut values = headers.get_all(name).iter();
        let first = values.next().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        assert!(values.next().is_none() || name == "origin", "{name} was accepted twice");
        first
    };
    let host = one("host").unwrap();
    assert!(is_loopback(&host), "the host {host:?} was accepted");
    if let Some(origin) = one("origin") {
        let from = origin.to_ascii_lowercase();
        let host = from.split_once("://").map_or("", |(_, host)| host);
        assert!(from == PAGE || is_loopback(host), "the origin {origin:?} was accepted");
    }
    let token = one("authorization").unwrap();
    assert!(token.starts_with("Bearer token-of-"), "the token {token:?} was accepted");
    let kind = one("content-type").unwrap().to_ascii_lowercase();
    assert!(kind.trim_start().starts_with("application/json"), "the type {kind:?} was accepted");
}

/// Whether this is a host of this machine, and perhaps a port.
fn is_loopback(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn assert_no_token(headers: &http::HeaderMap, answer: &Answer) {
    // Other words may be in an answer anyway, and so may what other headers say.
    let is_token = |token: &&HeaderValue| find(token.as_bytes(), TOKEN.as_bytes()).is_some();
    let is_elsewhere = |token: &HeaderValue| {
        let mut others = headers.iter().filter(|(name, _)| *name != http::header::AUTHORIZATION);
        others.any(|(_, value)| find(value.as_bytes(), token.as_bytes()).is_some())
    };
    let tokens = headers.get_all("authorization").iter().filter(is_token).filter(|token| !is_elsewhere(token));
    for token in tokens {
        let is_told = |text: &[u8]| find(text, token.as_bytes()).is_some();
        assert!(!is_told(&answer.body), "an answer has a token");
        assert!(!answer.headers.values().any(|value| is_told(value.as_bytes())), "a header has a token");
    }
}

/// The usual request, with the headers of the input instead of those that have the same name.
fn request(input: &[u8]) -> Option<Request<Bytes>> {
    let mut request = Request::post("/mcp").body(call_of("add", &json!({"a": 1, "b": 2})).to_string().into()).ok()?;
    let headers = request.headers_mut();
    for line in input.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).take(64) {
        let at = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..at]).ok()?;
        headers.append(name, HeaderValue::from_bytes(line[at + 1..].trim_ascii()).ok()?);
    }
    for (name, value) in USUAL {
        if !headers.contains_key(name) {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
    Some(request)
}
