//! `-v`: the requests, the answers and the log messages of servers, on the standard error. Credentials are not shown.

use http::{HeaderMap, StatusCode};
use longhaul_client::{Observer, text};
use reqwest::Request;
use serde_json::Value;

use crate::limits::SHOWN_CHARS_MAX;
use crate::out::{line, say};

/// The headers whose values are shown. All others may be secrets.
const PUBLIC: [&str; 15] = [
    "accept",
    "allow",
    "cache-control",
    "content-length",
    "content-type",
    "date",
    "last-event-id",
    "location",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "retry-after",
    "server",
    "user-agent",
    "www-authenticate",
];

/// The notification with a log message.
const LOG: &str = "notifications/message";

pub(crate) struct Verbose;

impl Observer for Verbose {
    /// The query of a URL may be a secret.
    fn request(&self, request: &Request) {
        let url = request.url();
        say(&format!("> {} {}{}", request.method(), url.origin().ascii_serialization(), line(url.path())));
        headers(">", request.headers());
        let body = request.body().and_then(|body| std::str::from_utf8(body.as_bytes()?).ok());
        body.into_iter().for_each(|body| say(&format!("> {}", shown(body))));
    }

    fn response(&self, status: StatusCode, all: &HeaderMap) {
        say(&format!("< {status}"));
        headers("<", all);
    }

    fn message(&self, text: &str) {
        let message: Value = serde_json::from_str(text).unwrap_or_default();
        if message["method"] != LOG {
            return say(&format!("< {}", shown(text)));
        }
        let Value::Object(params) = &message["params"] else { return };
        let field = |name: &str| match params.get(name) {
            Some(Value::String(text)) => shown(text),
            Some(value) => shown(&value.to_string()),
            None => String::new(),
        };
        let logger = if params.contains_key("logger") { format!(" {}", field("logger")) } else { String::new() };
        say(&format!("log {}{logger}: {}", field("level"), field("data")));
    }
}

fn headers(mark: &str, headers: &HeaderMap) {
    for (name, value) in headers {
        let is_public = PUBLIC.contains(&name.as_str()) && !value.is_sensitive();
        let value = value.to_str().ok().filter(|_| is_public).map_or_else(|| "(not shown)".to_owned(), line);
        say(&format!("{mark} {name}: {value}"));
    }
}

fn shown(text: &str) -> String {
    text::line(text, SHOWN_CHARS_MAX)
}
