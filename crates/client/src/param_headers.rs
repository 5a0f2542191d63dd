//! Names and arguments in headers, as revision `2026-07-28` has them: `Mcp-Name`, and `Mcp-Param-*` for arguments whose
//! schema says so by `x-mcp-header`.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

/// Adds the arguments that the schema wants in headers: only those that are reached through `properties` alone.
pub(crate) fn add(headers: &mut HeaderMap, schema: &Value, arguments: &Map<String, Value>) {
    // Those that are left to look at. A schema is a tree, so that this ends.
    let mut open = vec![(schema, arguments)];
    while let Some((schema, arguments)) = open.pop() {
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            let value = arguments.get(name);
            if let Some((name, value)) = value.and_then(|value| param(schema, value)) {
                headers.insert(name, value);
            }
            open.extend(value.and_then(Value::as_object).map(|arguments| (schema, arguments)));
        }
    }
}

fn param(schema: &Value, value: &Value) -> Option<(HeaderName, HeaderValue)> {
    let name = format!("mcp-param-{}", schema["x-mcp-header"].as_str()?).parse().ok()?;
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    Some((name, encoded(&text)))
}

/// The value as a header carries it: in base64 if it could not be read back otherwise.
pub(crate) fn encoded(text: &str) -> HeaderValue {
    let blank = |character| [' ', '\t'].contains(&character);
    let is_plain = text.chars().all(|character| matches!(character, ' '..='~'));
    let is_marked = text.starts_with("=?base64?") && text.ends_with("?=");
    let plain = Some(text).filter(|_| is_plain && !is_marked && !text.starts_with(blank) && !text.ends_with(blank));
    let plain = plain.and_then(|text| HeaderValue::from_str(text).ok());
    let marked = || HeaderValue::from_str(&format!("=?base64?{}?=", BASE64_STANDARD.encode(text)));
    // Base64 is ASCII, which is always a header.
    plain.or_else(|| marked().ok()).unwrap_or_else(|| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_sent_as_headers_where_the_schema_says_so() {
        let schema = serde_json::json!({"properties": {
            "region": {"x-mcp-header": "Region"}, "plain": {}, "absent": {"x-mcp-header": "Absent"},
            "inner": {"properties": {"city": {"x-mcp-header": "City"}}}
        }});
        let arguments = serde_json::json!({"region": "eu", "plain": "x", "inner": {"city": "Zürich"}});
        let mut headers = HeaderMap::new();
        add(&mut headers, &schema, arguments.as_object().unwrap());
        let mut seen: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        seen.sort();
        assert_eq!(seen, ["mcp-param-city: =?base64?WsO8cmljaA==?=", "mcp-param-region: eu"]);
    }
}
