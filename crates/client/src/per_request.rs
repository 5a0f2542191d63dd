//! Revision `2026-07-28`: every request says everything itself.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use crate::param_headers::encoded;

pub(crate) const REVISION: &str = "2026-07-28";

/// The Tasks extension.
pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The parameters of a request, with what says who sends it and what that can do.
pub(crate) fn with_meta(mut params: Value, meta: Value) -> Value {
    let mut all = json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientInfo": crate::connect::client_info(),
        "io.modelcontextprotocol/clientCapabilities": {
            "elicitation": crate::connect::elicitation(), "extensions": {TASKS: {}}
        },
    });
    if let (Some(all), Value::Object(meta)) = (all.as_object_mut(), meta) {
        all.extend(meta);
    }
    if let Some(params) = params.as_object_mut() {
        params.insert("_meta".to_owned(), all);
    }
    params
}

/// The headers of a request.
pub(crate) fn headers(method: &'static str, name: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("mcp-protocol-version", HeaderValue::from_static(REVISION));
    headers.insert("mcp-method", HeaderValue::from_static(method));
    headers.extend(name.map(|name| (HeaderName::from_static("mcp-name"), encoded(name))));
    headers
}
