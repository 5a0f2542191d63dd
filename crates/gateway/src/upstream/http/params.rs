//! Arguments that a server wants in headers too.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use http::{HeaderName, HeaderValue};
use longhaul_client::ToolHeaders;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, Tool};

type Headers = HashMap<HeaderName, HeaderValue>;

/// Sent with every request of a revision that has such headers, and with no other.
const SIGN_OF_REVISION: HeaderName = HeaderName::from_static("mcp-method");

/// Which arguments of a server's tools go into headers. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct ParamHeaders(Arc<RwLock<HashMap<String, ToolHeaders>>>);

impl ParamHeaders {
    /// Replaces the known headers with those that the schemas of these tools ask for.
    pub(crate) fn learn(&self, tools: &[Tool]) {
        let params = tools.iter().map(|tool| (tool.name.to_string(), ToolHeaders::of(&tool.input_schema)));
        let params = params.filter(|(_, params)| !params.is_empty()).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = params;
    }

    /// Adds what the message needs to its headers.
    pub(super) fn add(&self, message: &ClientJsonRpcMessage, headers: &mut Headers) {
        let ClientJsonRpcMessage::Request(request) = message else { return };
        let ClientRequest::CallToolRequest(call) = &request.request else { return };
        let (Some(arguments), true) = (&call.params.arguments, headers.contains_key(&SIGN_OF_REVISION)) else { return };
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(params) = known.get(&*call.params.name) {
            headers.extend(params.of_call(arguments));
        }
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{CallToolRequestParams, ClientRequest, RequestId};
    use serde_json::{Value, json};

    use super::*;

    /// The headers of a call, without the one that is sent with all of them.
    fn headers(schema: Value, arguments: Value, sent_before: &[HeaderName]) -> Vec<(String, String)> {
        let Value::Object(schema) = schema else { panic!("no object") };
        let known = ParamHeaders::default();
        known.learn(&[Tool::new("t", "", Arc::new(schema))]);
        let mut params = CallToolRequestParams::new("t");
        params.arguments = arguments.as_object().cloned();
        let call = ClientRequest::CallToolRequest(rmcp::model::CallToolRequest::new(params));
        let mut headers: Headers =
            sent_before.iter().map(|name| (name.clone(), HeaderValue::from_static("tools/call"))).collect();
        known.add(&ClientJsonRpcMessage::request(call, RequestId::Number(1)), &mut headers);
        let mut all: Vec<_> = headers
            .iter()
            .filter(|(name, _)| **name != SIGN_OF_REVISION)
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        all.sort();
        all
    }

    fn value_of(value: Value) -> Option<String> {
        let schema = json!({"properties": {"a": {"type": "string", "x-mcp-header": "Text"}}});
        let found = headers(schema, json!({"a": value}), &[SIGN_OF_REVISION]);
        found.into_iter().next().map(|(name, value)| {
            assert_eq!(name, "mcp-param-text");
            value
        })
    }

    #[test]
    fn values_are_written_as_the_specification_says() {
        for (value, header) in [
            ("us-west1", "us-west1"),
            ("", ""),
            ("two words", "two words"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("\ttab", "=?base64?CXRhYg==?="),
        ] {
            assert_eq!(value_of(json!(value)).as_deref(), Some(header), "{value:?}");
        }
        assert_eq!(value_of(json!(-7)).as_deref(), Some("-7"));
        assert_eq!(value_of(json!(true)).as_deref(), Some("true"));
        assert_eq!([json!(null), json!([1]), json!({"b": 1})].map(value_of), [None, None, None]);
    }

    #[test]
    fn only_properties_that_are_reached_through_properties_have_headers() {
        let region = json!({"type": "string", "x-mcp-header": "Region"});
        let inner = json!({"type": "object", "properties": {"id": {"type": "integer", "x-mcp-header": "Id"}}});
        let list = json!({"type": "array", "items": {"properties": {"x": {"x-mcp-header": "X"}}}});
        let schema = json!({"properties": {"region": region, "inner": inner, "list": list, "plain": {}}});
        let arguments = json!({"region": "eu", "inner": {"id": 5}, "list": [{"x": "y"}], "plain": "p"});
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let sent = headers(schema.clone(), arguments, &[SIGN_OF_REVISION]);
        assert_eq!(sent, pairs(&[("mcp-param-id", "5"), ("mcp-param-region", "eu")]));
        let sent = headers(schema, json!({"region": "eu"}), &[SIGN_OF_REVISION]);
        assert_eq!(sent, pairs(&[("mcp-param-region", "eu")]), "what is not given is left out");
    }

    #[test]
    fn older_revisions_and_names_that_are_no_headers_have_none() {
        let named = |name: &str| json!({"properties": {"a": {"x-mcp-header": name}}});
        assert!(headers(named("A"), json!({"a": "b"}), &[]).is_empty());
        for wrong in ["a b", "a:b", "ä", "a\r\nb"] {
            assert!(headers(named(wrong), json!({"a": "b"}), &[SIGN_OF_REVISION]).is_empty(), "{wrong:?}");
        }
    }
}
