//! A server over Streamable HTTP.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use http::HeaderName;
use longhaul_client::{Raw, Target, ToolHeaders, unreadable_answer, with_causes};
use longhaul_core::strict_json;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorCode, Tool};
use rmcp::service::ServiceError;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};
use serde::de::IgnoredAny;
use serde_json::json;
use sse_stream::Sse;
use url::Url;

use super::UNREADABLE;
use crate::config::Headers;
use crate::limits;

/// Why a connection did not begin, or was lost, with the cause that the client below found.
pub(super) fn why(error: &DynamicTransportError) -> String {
    match error.error.downcast_ref::<Failed>() {
        // Its text does not have the cause.
        Some(Failed::Client(error)) => with_causes(error),
        _ => with_causes(&*error.error),
    }
}

/// Where a server is, and what is sent to it with every request. Nothing of what a caller sent is among it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) url: Url,
    pub(crate) headers: Headers,
}

impl std::fmt::Debug for Endpoint {
    /// Without the values of headers and the query, which may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}

/// A server behind a URL, made when it is first needed. The connections that it keeps open are used for the next
/// request.
#[derive(Default)]
pub(crate) struct Http(OnceLock<Raw>);

impl Http {
    /// A connection without a session yet.
    pub(crate) fn transport(
        &self,
        endpoint: &Endpoint,
        params: ParamHeaders,
    ) -> Result<StreamableHttpClientTransport<Discreet>, String> {
        let config = StreamableHttpClientTransportConfig::with_uri(endpoint.url.as_str())
            .custom_headers(endpoint.headers.clone())
            .max_sse_event_size(limits::LINE_BYTES_MAX)
            .max_json_response_size(limits::LINE_BYTES_MAX);
        let client = self.reach(endpoint)?.http().clone();
        Ok(StreamableHttpClientTransport::with_client(Discreet { client, params }, config))
    }

    /// For requests that `rmcp` does not know.
    pub(crate) fn reach(&self, endpoint: &Endpoint) -> Result<&Raw, String> {
        if let Some(raw) = self.0.get() {
            return Ok(raw);
        }
        let headers = endpoint.headers.clone().into_iter().collect();
        let raw =
            Raw::new(Target { headers, ..Target::new(endpoint.url.clone()) }).map_err(|error| error.to_string())?;
        Ok(self.0.get_or_init(|| raw.reading_at_most(limits::LINE_BYTES_MAX)))
    }
}

/// Whether a request failed before anything of it was sent.
pub(super) fn is_unsent(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    // `rmcp` does not name the error of the client as a cause.
    matches!(error.error.downcast_ref::<Failed>(), Some(Failed::Client(error)) if error.is_connect())
}

/// An HTTP client that sends what `rmcp` leaves out, and whose errors, which `rmcp` also writes to the log, do not tell
/// the URL.
#[derive(Clone)]
pub(crate) struct Discreet {
    client: reqwest::Client,
    params: ParamHeaders,
}

/// Whether the message is a notification: it may be sent again if its connection was closed at that moment, since it is
/// as true the second time.
const fn says_something(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Notification(_))
}

type Failed = StreamableHttpError<reqwest::Error>;
type Events = BoxStream<'static, Result<Sse, sse_stream::Error>>;

fn without_url(error: Failed) -> Failed {
    match error {
        StreamableHttpError::Client(error) => StreamableHttpError::Client(error.without_url()),
        other => other,
    }
}

/// An answer whose events that cannot be read say so: `rmcp` passes over those, and a call would wait for as long as it
/// may run.
fn readable(answer: StreamableHttpPostResponse) -> StreamableHttpPostResponse {
    match answer {
        StreamableHttpPostResponse::Sse(events, session) => {
            StreamableHttpPostResponse::Sse(events.map_ok(readable_event).boxed(), session)
        }
        other => other,
    }
}

fn readable_event(event: Sse) -> Sse {
    let is_json = |data: &&str| strict_json::from_str::<IgnoredAny>(data).is_ok();
    let data = event.data.as_deref().filter(|data| !is_json(data));
    match data.and_then(|data| unreadable_answer(data.as_bytes())) {
        Some(id) => {
            let error = json!({"code": ErrorCode::INTERNAL_ERROR.0, "message": UNREADABLE});
            Sse { data: Some(json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()), ..event }
        }
        None => event,
    }
}

#[deny(clippy::missing_trait_methods)]
impl StreamableHttpClient for Discreet {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        mut headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        self.params.add(&message, &mut headers);
        self.client.post_message(uri, message, session_id, auth_header, headers).await.map_err(without_url)
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: Headers,
        bytes_max: usize,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let mut limits = StreamableHttpResponseLimits::default();
        limits.max_sse_event_size = bytes_max;
        self.post_message_with_response_limits(uri, message, session_id, auth_header, headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        mut headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        self.params.add(&message, &mut headers);
        let post = |message, headers| {
            let (uri, session_id, auth_header) = (Arc::clone(&uri), session_id.clone(), auth_header.clone());
            self.client.post_message_with_response_limits(uri, message, session_id, auth_header, headers, limits)
        };
        let again = says_something(&message).then(|| (message.clone(), headers.clone()));
        let posted = match (post(message, headers).await, again) {
            (Err(Failed::Client(error)), Some((message, headers))) if error.is_request() => {
                post(message, headers).await
            }
            (posted, _) => posted,
        };
        posted.map(readable).map_err(without_url)
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<(), Failed> {
        self.client.delete_session(uri, session_id, auth_header, headers).await.map_err(without_url)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<Events, Failed> {
        self.client.get_stream(uri, session_id, last_event_id, auth_header, headers).await.map_err(without_url)
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: Headers,
        bytes_max: usize,
    ) -> Result<Events, Failed> {
        let stream = self.client.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            headers,
            bytes_max,
        );
        stream.await.map_err(without_url)
    }
}

/// Sent with every request of a revision that has such headers, and with no other.
const SIGN_OF_REVISION: HeaderName = HeaderName::from_static("mcp-method");

/// Which arguments of a server's tools go into headers. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct ParamHeaders(Arc<RwLock<HashMap<String, ToolHeaders>>>);

impl ParamHeaders {
    /// Takes what the schemas of these tools say, instead of what was known before.
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
    use http::HeaderValue;
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
