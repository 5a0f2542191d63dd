//! A request as a test sends it, and what it reads.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt;
use longhaul_core::OwnerId;
use longhaul_mcp::Body;
use serde_json::{Value, json};

use super::world::{PATIENCE, VERSION, alice};
use crate::schema;

/// An answer that was read to its end.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {:?} {}", self.status, self.text))
    }

    pub(crate) fn result(&self) -> Value {
        let json = self.json();
        assert!(json.get("error").is_none(), "{json}");
        json["result"].clone()
    }

    /// Status, code, message.
    pub(crate) fn error(&self) -> (u16, i64, String) {
        let json = self.json();
        schema::is("2026-07-28", "JSONRPCErrorResponse", &json);
        let error = &json["error"];
        (self.status.as_u16(), error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    }

    /// The messages of a stream, in their order.
    pub(crate) fn events(&self) -> Vec<Value> {
        let lines = self.text.lines().filter_map(|line| line.strip_prefix("data:"));
        lines.filter(|data| !data.trim().is_empty()).map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

/// What a client says that it can do.
pub(crate) fn everything() -> Value {
    json!({
        "extensions": {"io.modelcontextprotocol/tasks": {}},
        "elicitation": {"form": {}}, "sampling": {}, "roots": {},
    })
}

/// The same without tasks.
pub(crate) fn no_tasks() -> Value {
    json!({"elicitation": {}, "roots": {}, "sampling": {}})
}

/// A request as a client of `2026-07-28` sends it; change what should be wrong with it.
#[derive(Clone)]
pub(crate) struct Sent {
    pub(crate) owner: OwnerId,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Value,
}

impl Sent {
    pub(crate) fn new(method: &str, mut params: Value) -> Self {
        let mut headers = vec![
            ("host", "localhost".to_owned()),
            ("content-type", "application/json".to_owned()),
            ("accept", "application/json, text/event-stream".to_owned()),
            ("mcp-protocol-version", VERSION.to_owned()),
            ("mcp-method", method.to_owned()),
        ];
        let name = ["name", "uri", "taskId"].iter().find_map(|key| params.get(key)?.as_str());
        if let Some(name) = name {
            headers.push(("mcp-name", name.to_owned()));
        }
        let fields = params.as_object_mut().unwrap();
        let meta = fields.entry("_meta").or_insert_with(|| json!({}));
        meta["io.modelcontextprotocol/protocolVersion"] = VERSION.into();
        meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "tests", "version": "1"});
        meta["io.modelcontextprotocol/clientCapabilities"] = everything();
        Self { owner: alice(), headers, body: json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}) }
    }

    pub(crate) fn call(tool: &str, arguments: Value) -> Self {
        Self::new("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    pub(crate) fn of(mut self, owner: OwnerId) -> Self {
        self.owner = owner;
        self
    }

    pub(crate) fn with_header(mut self, name: &'static str, value: &str) -> Self {
        self = self.without_header(name);
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn without_header(mut self, name: &str) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self
    }

    pub(crate) fn declaring(mut self, capabilities: Value) -> Self {
        self.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        self
    }

    pub(crate) fn with_param(mut self, name: &str, value: Value) -> Self {
        self.body["params"][name] = value;
        self
    }

    pub(crate) fn with_meta(mut self, name: &str, value: Value) -> Self {
        self.body["params"]["_meta"][name] = value;
        self
    }

    /// The same request in an older revision.
    pub(crate) fn legacy(mut self, version: &str) -> Self {
        self =
            self.with_header("mcp-protocol-version", version).without_header("mcp-method").without_header("mcp-name");
        self.body["params"].as_object_mut().unwrap().remove("_meta");
        self
    }

    pub(crate) fn request(&self) -> Request<Bytes> {
        let mut request = Request::post("/mcp").body(Bytes::from(self.body.to_string())).unwrap();
        for (name, value) in &self.headers {
            request.headers_mut().append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        request
    }
}

pub(crate) async fn read(response: Response<Body>) -> Answer {
    let (parts, body) = response.into_parts();
    let text = tokio::time::timeout(PATIENCE, body.collect()).await.expect("the answer ends").unwrap().to_bytes();
    Answer { status: parts.status, headers: parts.headers, text: String::from_utf8(text.to_vec()).unwrap() }
}
