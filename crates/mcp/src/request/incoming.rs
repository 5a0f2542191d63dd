//! The kind of message that a body is, read without copying it, and a request as the protocol versions see it, with its
//! client.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use longhaul_core::{OwnerId, Principal, TraceParent, strict_json};
use rmcp::ErrorData;
use rmcp::model::{ClientCapabilities, RequestId, RequestMetaObject};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::request::meta::Meta;
use crate::request::params::{Members, is_empty_list};
use crate::revision::{Generation, VERSION_HEADER};
use crate::signing::session::{Scope, Session};

/// The member of `_meta`, and the header of HTTP, with the trace that a request belongs to.
pub(crate) const TRACEPARENT: &str = "traceparent";

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
    /// Fails with `-32700` for a body that is not JSON, `-32600` for one that is not a JSON-RPC message, batches
    /// included.
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, ErrorData> {
        let invalid = |what: &'static str| ErrorData::invalid_request(what, None);
        let peek = strict_json::from_slice::<Peek<'_>>(body).map_err(|error| not_a_message(body, &error))?;
        if peek.jsonrpc.as_deref() != Some("2.0") {
            return Err(invalid("`jsonrpc` must be \"2.0\""));
        }
        match (peek.method, peek.id) {
            (Some(method), Some(id)) => {
                let id = strict_json::from_str(id.get())
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

    /// Fails if parameters, a result or an error are not an object: a list would be read by position.
    pub(crate) fn check_objects(&self) -> Result<(), ErrorData> {
        let is_object = |value: &RawValue| value.get().starts_with('{');
        let refused = match self {
            Self::Request { params: Some(params), .. } | Self::Notification { params: Some(params), .. } => {
                (!is_object(params)).then(|| ErrorData::invalid_params("`params` must be an object", None))
            }
            Self::Request { params: None, .. } | Self::Notification { params: None, .. } => None,
            Self::Reply { outcome: Ok(value) | Err(value), .. } => (!is_object(value)).then(|| {
                ErrorData::invalid_request("the `result` or the `error` of an answer must be an object", None)
            }),
        };
        refused.map_or(Ok(()), Err)
    }

    /// Leaves out parameters that are an empty list: some languages write an empty map like that.
    pub(crate) fn leave_out_empty_params(&mut self) {
        let (Self::Request { params, .. } | Self::Notification { params, .. }) = self else { return };
        if params.is_some_and(|params| is_empty_list(params.get())) {
            *params = None;
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
    if body.trim_ascii_start().first() == Some(&b'[') && strict_json::from_slice::<IgnoredAny>(body).is_ok() {
        return ErrorData::invalid_request("batches are not supported; send one message at a time", None);
    }
    match error.classify() {
        serde_json::error::Category::Data if std::str::from_utf8(body).is_ok() => {
            ErrorData::invalid_request(format!("not a JSON-RPC message: {error}"), None)
        }
        _ => ErrorData::parse_error(format!("not JSON: {error}"), None),
    }
}

/// A request that wants an answer.
pub(crate) struct Incoming<'a> {
    pub(crate) id: RequestId,
    pub(crate) method: Cow<'a, str>,
    /// As they came, without what is read as if it were not there; [`Incoming::params`] reads them.
    pub(crate) params: Option<&'a RawValue>,
    /// The same, each for itself.
    pub(crate) members: Members<'a>,
    pub(crate) meta: Meta<'a>,
    /// The caller, as the HTTP frontend verified it.
    pub(crate) caller: &'a Arc<Principal>,
    /// Whose tasks it sees.
    pub(crate) owner: OwnerId,
    /// Where names are valid that the client chose.
    pub(crate) scope: Scope,
    pub(crate) client: &'a Client,
    /// The whole request, of which the headers are wanted.
    pub(crate) http: &'a Request<Bytes>,
}

pub(crate) struct Notice<'a> {
    pub(crate) method: Cow<'a, str>,
    pub(crate) params: Option<&'a RawValue>,
    /// The sender, as the HTTP frontend verified it.
    pub(crate) caller: &'a Arc<Principal>,
    pub(crate) owner: OwnerId,
    /// Where names are valid that the client chose.
    pub(crate) scope: Scope,
    pub(crate) client: &'a Client,
    /// The whole request, of which the headers are wanted.
    pub(crate) http: &'a Request<Bytes>,
}

/// Marks a message that came over standard input. It has no headers but those of its session, and its answer may be a
/// stream, even that of a notification.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OverStdio;

impl OverStdio {
    pub(crate) fn is_how_it_came(http: &Request<Bytes>) -> bool {
        http.extensions().get::<Self>().is_some()
    }
}

/// The properties of a client other than its identity.
pub(crate) struct Client {
    revision: String,
    session: Option<Session>,
}

/// The revision of requests that do not name one (MCP `2025-11-25`, "Protocol Version Header").
const REVISION_ASSUMED: &str = "2025-03-26";

impl Client {
    /// The client of a request with this header, in this session. The negotiated revision takes precedence over the
    /// header. Revisions without handshakes have no sessions.
    pub(crate) fn new(http: &Request<Bytes>, session: Option<Session>) -> Self {
        let header = http.headers().get(VERSION_HEADER).and_then(|value| value.to_str().ok());
        if Generation::of(http.headers()) == Generation::PerRequest {
            return Self { revision: header.unwrap_or_default().to_owned(), session: None };
        }
        let negotiated = session.as_ref().map(|session| session.revision.as_str());
        let revision = negotiated.or(header).unwrap_or(REVISION_ASSUMED).to_owned();
        Self { revision, session }
    }

    /// The negotiated revision, under the name that its client uses: a date, or the name of a protocol version's own
    /// revision. In the handshake itself this has no meaning; there it is in the result.
    pub(crate) fn revision(&self) -> &str {
        &self.revision
    }

    pub(crate) fn generation(&self) -> Generation {
        Generation::of_version(Some(&self.revision))
    }

    /// The session from the client's handshake; `None` if it has none.
    pub(crate) const fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }
}

impl Incoming<'_> {
    /// The parameters as a `T`; `None` if they are missing or malformed.
    pub(crate) fn params<T: DeserializeOwned>(&self) -> Option<T> {
        strict_json::from_str(self.params?.get()).ok()
    }

    /// All members of `_meta`. A request that names no trace there belongs to the trace of its HTTP headers.
    pub(crate) fn whole_meta(&self) -> RequestMetaObject {
        let mut meta = self.meta.whole();
        let header = |name: &str| self.http.headers().get(name)?.to_str().ok();
        let named = meta.get_traceparent().and_then(TraceParent::parse);
        if named.is_none() && header(TRACEPARENT).and_then(TraceParent::parse).is_some() {
            let context = [TRACEPARENT, "tracestate", "baggage"];
            let context = context.iter().filter_map(|name| Some(((*name).to_owned(), header(name)?.into())));
            meta.0.0.extend(context);
        }
        meta
    }

    /// The client's capabilities, from the request or from its handshake.
    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        self.said().cloned().unwrap_or_default()
    }

    /// Whether the client says that it knows the Tasks extension.
    pub(crate) fn supports_tasks(&self) -> bool {
        self.said().is_some_and(ClientCapabilities::supports_tasks)
    }

    fn said(&self) -> Option<&ClientCapabilities> {
        match self.client.generation() {
            Generation::PerRequest => self.meta.declared(),
            Generation::Handshake => self.client.session().map(|session| &session.capabilities),
        }
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
