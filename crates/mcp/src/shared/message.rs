//! What kind of message a body is, read without copying it.

use std::borrow::Cow;

use rmcp::ErrorData;
use rmcp::model::RequestId;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// One JSON-RPC message.
pub(crate) enum Message<'a> {
    /// Wants an answer.
    Request { id: RequestId, method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// Wants no answer.
    Notification { method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// Answers a request of the server: with a result, or else with an error.
    Reply { id: &'a RawValue, outcome: Result<&'a RawValue, &'a RawValue> },
}

#[derive(Deserialize)]
struct Peek<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    /// An id that is `null` is present, and wrong.
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl<'a> Message<'a> {
    /// # Errors
    /// `-32700` for a body that is not JSON, `-32600` for one that is not a JSON-RPC message, batches included.
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, ErrorData> {
        let invalid = |what: &'static str| ErrorData::invalid_request(what, None);
        let peek = serde_json::from_slice::<Peek<'_>>(body).map_err(|error| not_a_message(body, &error))?;
        if body.trim_ascii_start().first() != Some(&b'{') {
            return Err(invalid("a message must be a JSON object"));
        }
        if peek.jsonrpc.as_deref() != Some("2.0") {
            return Err(invalid("`jsonrpc` must be \"2.0\""));
        }
        match (peek.method, peek.id) {
            (Some(method), Some(id)) => {
                let id = serde_json::from_str(id.get())
                    .map_err(|_other_type| invalid("`id` must be a string or an integer"))?;
                Ok(Message::Request { id, method, params: peek.params })
            }
            (Some(method), None) => Ok(Message::Notification { method, params: peek.params }),
            (None, Some(id)) => match (peek.result, peek.error) {
                (Some(result), None) => Ok(Message::Reply { id, outcome: Ok(result) }),
                (None, Some(error)) => Ok(Message::Reply { id, outcome: Err(error) }),
                (Some(_), Some(_)) | (None, None) => Err(invalid("`method` is missing")),
            },
            (None, None) => Err(invalid("`method` is missing")),
        }
    }

    /// The id of a request; `None` for anything that wants no answer.
    pub(crate) const fn id(&self) -> Option<&RequestId> {
        match self {
            Self::Request { id, .. } => Some(id),
            Self::Notification { .. } | Self::Reply { .. } => None,
        }
    }
}

fn not_a_message(body: &[u8], error: &serde_json::Error) -> ErrorData {
    if body.trim_ascii_start().first() == Some(&b'[') && serde_json::from_slice::<IgnoredAny>(body).is_ok() {
        return ErrorData::invalid_request("batches are not supported; send one message at a time", None);
    }
    match error.classify() {
        serde_json::error::Category::Data if std::str::from_utf8(body).is_ok() => {
            ErrorData::invalid_request(format!("not a JSON-RPC message: {error}"), None)
        }
        _ => ErrorData::parse_error(format!("not JSON: {error}"), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(body: &str) -> Option<i32> {
        Message::read(body.as_bytes()).err().map(|error| error.code.0)
    }

    #[test]
    fn requests_notifications_and_answers_are_messages() {
        for body in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            r#" {"method":"tools/list","id":"a","jsonrpc":"2.0","params":{},"more":1}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#,
        ] {
            assert_eq!(code(body), None, "{body}");
        }
    }

    #[test]
    fn a_body_that_is_not_json_is_a_parse_error() {
        for body in ["", "{", "nope", r#"{"jsonrpc":"2.0","id":1,"method":"a""#, "\u{0}"] {
            assert_eq!(code(body), Some(-32700), "{body}");
        }
    }

    #[test]
    fn json_that_is_not_a_message_is_an_invalid_request() {
        for body in [
            "[]",
            r#"[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]"#,
            "1",
            "null",
            r#""text""#,
            "{}",
            r#"{"id":1,"method":"tools/list"}"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}"#,
        ] {
            assert_eq!(code(body), Some(-32600), "{body}");
        }
    }
}
