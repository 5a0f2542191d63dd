//! The parts of a client's message that the bridge reads: its kind, and the values for its headers. The session that it
//! belongs to is here too, for the servers that want one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;
use longhaul_client::encoded;
use longhaul_core::strict_json;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use serde_json::value::RawValue;

/// Requests that may be sent again if their answer was lost: they are idempotent.
const REPEATABLE: [&str; 15] = [
    "initialize",
    "server/discover",
    "ping",
    "completion/complete",
    "logging/setLevel",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/get",
    "subscriptions/listen",
    "tasks/get",
    "tasks/result",
    "tasks/update",
    "tasks/cancel",
    "dev.longhaul/tasks/inspect",
];

/// The key of a client's call, so that its server makes it once.
const KEY: &str = "dev.longhaul/idempotencyKey";

/// A message, as it was written.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) text: String,
    value: Value,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Request,
    /// It is not answered: a notification, or an answer to the server.
    OneWay,
    /// Several messages in one, as in revision `2025-03-26`.
    Batch,
}

impl Message {
    pub(super) fn read(line: Vec<u8>) -> Result<Self, String> {
        let text = String::from_utf8(line).map_err(|error| error.to_string())?;
        let value: Value = strict_json::from_str(&text).map_err(|error| error.to_string())?;
        if value.is_object() || value.is_array() {
            Ok(Self { text, value })
        } else {
            Err("it is not a message".to_owned())
        }
    }

    pub(super) fn kind(&self) -> Kind {
        match (self.value.is_array(), self.value.get("id"), self.value.get("method")) {
            (true, ..) => Kind::Batch,
            (false, Some(_), Some(_)) => Kind::Request,
            (false, ..) => Kind::OneWay,
        }
    }

    /// Null for a message without an id.
    pub(super) fn id(&self) -> &Value {
        &self.value["id"]
    }

    pub(super) fn method(&self) -> &str {
        self.value["method"].as_str().unwrap_or_default()
    }

    pub(super) fn params(&self) -> &Value {
        &self.value["params"]
    }

    /// The revision that a self-contained request names.
    pub(super) fn revision(&self) -> Option<&str> {
        self.params()["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str()
    }

    /// Whether the answer may be lost and the request be sent again. The annotations of a tool are not known here.
    pub(super) fn is_repeatable(&self) -> bool {
        let method = self.method();
        let has_key = self.params()["_meta"][KEY].is_string();
        REPEATABLE.contains(&method)
            || method.ends_with("/list")
            || (matches!(method, "tools/call" | "dev.longhaul/tasks/resume") && has_key)
    }

    /// The headers of a self-contained request, which repeat its content.
    pub(super) fn headers(&self, revision: &str) -> HeaderMap {
        let params = self.params();
        let name = match self.method() {
            "tools/call" | "prompts/get" => params["name"].as_str(),
            "resources/read" => params["uri"].as_str(),
            "tasks/get"
            | "tasks/update"
            | "tasks/cancel"
            | "dev.longhaul/tasks/inspect"
            | "dev.longhaul/tasks/resume" => params["taskId"].as_str(),
            _ => None,
        };
        let mut headers = HeaderMap::new();
        let mut put = |header: &'static str, value: HeaderValue| headers.insert(HeaderName::from_static(header), value);
        put("mcp-protocol-version", encoded(revision));
        put("mcp-method", encoded(self.method()));
        name.map(|name| put("mcp-name", encoded(name)));
        headers
    }

    /// Whether `answer` answers this request.
    pub(super) fn is_answered_by(&self, answer: &Value) -> bool {
        is_answer_to(self.id(), answer)
    }

    /// The ids of the requests in a batch.
    pub(super) fn ids(&self) -> Vec<&Value> {
        let requests = self.value.as_array().into_iter().flatten().filter(|one| one.get("method").is_some());
        requests.filter_map(|request| request.get("id")).collect()
    }

    /// The same request under another id.
    pub(super) fn renamed(&self, id: &Value) -> serde_json::Result<Self> {
        let text = with_id(&self.text, id)?;
        let mut value = self.value.clone();
        value["id"] = id.clone();
        Ok(Self { text, value })
    }

    /// A notification that cancels a request, for the one of another id.
    pub(super) fn cancelling(&self, id: Value) -> Self {
        let mut value = self.value.clone();
        value["params"]["requestId"] = id;
        Self { text: value.to_string(), value }
    }
}

/// Whether this is a result or an error with the id of a request, and no request of the server.
pub(super) fn is_answer_to(id: &Value, answer: &Value) -> bool {
    answer.get("method").is_none() && answer.get("id") == Some(id)
}

/// A message with another id. Its other members are as they were written.
pub(super) fn with_id(text: &str, id: &Value) -> serde_json::Result<String> {
    let mut members: IndexMap<String, Box<RawValue>> = strict_json::from_str(text)?;
    members.insert("id".to_owned(), RawValue::from_string(id.to_string())?);
    serde_json::to_string(&members)
}

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The present session with the server, if there is one.
#[derive(Default)]
pub(super) struct Session(Mutex<State>);

#[derive(Default)]
struct State {
    /// The client's `initialize`, for a new session when the server has forgotten the old one.
    began_with: Option<Message>,
    /// The number of sessions so far.
    number: u64,
    headers: HeaderMap,
}

impl Session {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the result of `initialize`.
    pub(super) fn begin(&self, request: &Message, id: Option<&HeaderValue>, result: &Value) {
        let Some(revision) = result["protocolVersion"].as_str() else { return };
        let mut headers = HeaderMap::new();
        headers.extend(HeaderValue::from_str(revision).ok().map(|revision| (VERSION, revision)));
        headers.extend(id.map(|id| (SESSION, id.clone())));
        let mut state = self.state();
        state.began_with = Some(request.clone());
        state.number += 1;
        state.headers = headers;
    }

    /// The headers of requests in it, and its number.
    pub(super) fn headers(&self) -> (HeaderMap, u64) {
        let state = self.state();
        (state.headers.clone(), state.number)
    }

    pub(super) fn began_with(&self) -> Option<Message> {
        self.state().began_with.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Message {
        Message::read(text.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn calls_are_repeatable_only_by_their_key() {
        assert!(message(r#"{"id":1,"method":"tools/list"}"#).is_repeatable());
        assert!(message(r#"{"id":1,"method":"tasks/get"}"#).is_repeatable());
        assert!(!message(r#"{"id":1,"method":"tools/call","params":{"name":"t"}}"#).is_repeatable());
        assert!(!message(r#"{"id":1,"method":"somebody/elses"}"#).is_repeatable());
        let keyed = r#"{"id":1,"method":"tools/call","params":{"_meta":{"dev.longhaul/idempotencyKey":"k"}}}"#;
        assert!(message(keyed).is_repeatable());
    }

    #[test]
    fn headers_say_what_the_request_says() {
        let call = message(r#"{"id":1,"method":"tools/call","params":{"name":"größe"}}"#);
        let headers = call.headers("2026-07-28");
        assert_eq!(headers["mcp-protocol-version"], "2026-07-28");
        assert_eq!(headers["mcp-method"], "tools/call");
        assert_eq!(headers["mcp-name"], "=?base64?Z3LDtsOfZQ==?=");
        let get = message(r#"{"id":1,"method":"tasks/get","params":{"taskId":"a-b"}}"#);
        assert_eq!(get.headers("2026-07-28")["mcp-name"], "a-b");
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for wrong in ["", "x", "1", "\"a\"", "{\"id\":1"] {
            assert!(Message::read(wrong.as_bytes().to_vec()).is_err(), "{wrong}");
        }
        assert!(Message::read(vec![b'"', 0xff, b'"']).is_err());
        assert_eq!(message("[]").kind(), Kind::Batch);
        assert_eq!(message(r#"{"id":1,"result":{}}"#).kind(), Kind::OneWay);
        assert_eq!(message(r#"{"id":0,"method":"ping"}"#).kind(), Kind::Request);
    }

    #[test]
    fn a_request_of_the_server_is_no_answer() {
        let call = message(r#"{"id":1,"method":"tools/call"}"#);
        let answers = |text: &str| call.is_answered_by(&serde_json::from_str(text).unwrap());
        assert!(answers(r#"{"id":1,"result":{}}"#) && answers(r#"{"id":1,"error":{}}"#));
        assert!(!answers(r#"{"id":1,"method":"elicitation/create"}"#) && !answers(r#"{"id":2,"result":{}}"#));
        assert!(!answers(r#"{"id":"1","result":{}}"#));
    }

    #[test]
    fn a_request_that_is_sent_again_has_another_id_and_the_numbers_that_were_written() {
        let text = r#"{"id":1,"method":"tools/call","params":{"n":12345678901234567890123,"x":1.50}}"#;
        let renamed = message(text).renamed(&"b".into()).unwrap();
        assert_eq!(renamed.text, text.replace(r#""id":1"#, r#""id":"b""#));
        assert_eq!(renamed.id(), "b");
        assert!(renamed.is_answered_by(&serde_json::json!({"id": "b", "result": {}})));
    }

    #[test]
    fn the_requests_of_a_batch_are_those_that_are_answered() {
        let batch = message(r#"[{"id":1,"method":"ping"},{"method":"notifications/x"},{"id":3,"result":{}},7]"#);
        assert_eq!(batch.ids(), [&Value::from(1)]);
    }
}
