//! A client of MCP `2026-07-28` with the Tasks extension, which calls the server without HTTP.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use http_body_util::BodyExt;
use longhaul_core::{Principal, strict_json};
use longhaul_mcp::McpServer;
use serde_json::{Map, Value, json};

use super::TestError;

/// The revision that it speaks.
const REVISION: &str = "2026-07-28";

pub(super) struct Client {
    pub(super) mcp: McpServer,
    pub(super) caller: Principal,
}

impl Client {
    /// The result of a request.
    pub(super) async fn request(
        &self,
        method: &'static str,
        name: &str,
        params: Value,
    ) -> Result<Map<String, Value>, TestError> {
        let answer = self.mcp.respond(request(method, name, params)?, self.caller.clone()).await;
        let status = answer.status();
        let body = answer.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let mut answer: Value = strict_json::from_slice(&body).map_err(|error| {
            TestError::Unexpected(format!("the answer to `{method}` ({status}) is not JSON: {error}"))
        })?;
        if let Some(error) = answer.get("error") {
            let message = error.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
            return Err(TestError::Refused { request: method, message });
        }
        match answer.get_mut("result").map(Value::take) {
            Some(Value::Object(result)) => Ok(result),
            _ => Err(TestError::Unexpected(format!("the answer to `{method}` has no result"))),
        }
    }
}

fn request(method: &'static str, name: &str, mut params: Value) -> Result<Request<Bytes>, TestError> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientInfo": {"name": "longhaul-testing", "version": env!("CARGO_PKG_VERSION")},
        "io.modelcontextprotocol/clientCapabilities": {
            "extensions": {"io.modelcontextprotocol/tasks": {}},
            "elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {},
        },
    });
    if let Some(params) = params.as_object_mut() {
        params.insert("_meta".to_owned(), meta);
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let mut request = Request::new(Bytes::from(body.to_string()));
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = http::Uri::from_static("/mcp");
    *request.headers_mut() = headers(method, name)?;
    Ok(request)
}

fn headers(method: &'static str, name: &str) -> Result<HeaderMap, TestError> {
    let fixed = [
        ("host", "localhost"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", REVISION),
        ("mcp-method", method),
    ];
    let mut headers: HeaderMap = fixed
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .into_iter()
        .collect();
    let name = HeaderValue::from_str(name)
        .map_err(|_not_a_header| TestError::Unexpected(format!("`{name}` cannot be sent in a header")))?;
    headers.insert("mcp-name", name);
    Ok(headers)
}
