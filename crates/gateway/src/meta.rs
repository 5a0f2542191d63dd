//! The part of a caller's `_meta` that is for the server that is called.

use longhaul_core::TraceParent;
use longhaul_core::spans::{Span, SpanName};
use longhaul_core::verbatim::{Object, written_as};
use rmcp::model::RequestMetaObject;

/// The key under which a request says how its progress is reported: the gateway has its own.
const PROGRESS_TOKEN: &str = "progressToken";

/// All keys except `progressToken`, those that MCP reserves, and those for Longhaul, which belong to one connection.
/// The log level stays, because servers of `2026-07-28` log for clients that ask for it.
/// If `text` is given, it has the values as the caller wrote them.
pub(crate) fn passed_on(caller: &RequestMetaObject, text: Option<&str>) -> Option<RequestMetaObject> {
    let mut meta = RequestMetaObject::default();
    let text = text.and_then(|text| Object::read(text).ok());
    let written = |key: &str| written_as(text.as_ref()?.get(key)?).ok();
    let passed = caller.0.0.iter().filter(|(key, _)| *key != PROGRESS_TOKEN && !is_reserved(key));
    meta.0.0.extend(passed.map(|(key, value)| (key.clone(), written(key).unwrap_or_else(|| value.clone()))));
    if let Some(level) = caller.log_level() {
        meta.set_log_level(level);
    }
    (!meta.0.0.is_empty()).then_some(meta)
}

/// Begins the span of a call of another server. Returns it, and the passed `_meta`, in which it is the parent.
pub(crate) fn within_a_span(caller: &RequestMetaObject, text: Option<&str>) -> (Span, Option<RequestMetaObject>) {
    let parent = caller.get_traceparent().and_then(TraceParent::parse);
    let span = Span::begin(SpanName::GatewayCall, parent.as_ref());
    let mut meta = passed_on(caller, text);
    if let Some(trace) = span.trace() {
        meta.get_or_insert_default().0.0.insert("traceparent".to_owned(), trace.as_str().into());
    }
    (span, meta)
}

/// Whether a key has a prefix that MCP reserves, by the rules of any revision, or that of Longhaul.
fn is_reserved(key: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else { return false };
    let labels: Vec<&str> = prefix.split('.').collect();
    let is_of_mcp = |label: Option<&&str>| label.is_some_and(|label| matches!(*label, "mcp" | "modelcontextprotocol"));
    is_of_mcp(labels.get(1)) || is_of_mcp(labels.iter().rev().nth(1)) || prefix == "dev.longhaul"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_not_reserved_are_passed_on() {
        let text = r#"{"traceparent":"00-a","progressToken":7,"com.example/tenant":{"z":1,"a":18446744073709551616},
            "io.modelcontextprotocol/clientInfo":{},"dev.mcp/x":1,"mcp.dev/x":1,"org.modelcontextprotocol.api/x":1,
            "tools.mcp.com/x":1,"com.example.mcp/x":1,"dev.longhaul/notBefore":"x","baggage":"k=v","bare":null}"#;
        let caller = serde_json::from_str(text).unwrap();
        let passed = serde_json::to_string(&passed_on(&caller, None)).unwrap();
        let expected = r#"{"traceparent":"00-a","com.example/tenant":{"z":1,"a":18446744073709551616},"com.example.mcp/x":1,"baggage":"k=v","bare":null}"#;
        assert_eq!(passed, expected);
        assert_eq!(passed_on(&RequestMetaObject::default(), None), None);
    }
}
