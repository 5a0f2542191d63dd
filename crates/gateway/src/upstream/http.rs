//! A server over Streamable HTTP.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::stream::BoxStream;
use longhaul_client::with_causes;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::service::ServiceError;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError, StreamableHttpPostResponse,
};
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};
use sse_stream::Sse;
use url::Url;

use super::param_headers::ParamHeaders;
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

/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// How long an idle connection is kept: many servers close theirs after five seconds, and what is sent at that moment
/// is lost.
const IDLE_MAX: Duration = Duration::from_secs(4);

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

/// A server and a client for it.
pub(crate) struct Reached<'e> {
    pub(crate) endpoint: &'e Endpoint,
    pub(crate) client: reqwest::Client,
}

/// The HTTP client of one server, made when it is first needed. What it keeps open is used for the next request.
#[derive(Default)]
pub(crate) struct Http(OnceLock<reqwest::Client>);

impl Http {
    /// A connection without a session yet. Redirects are not followed: they could lead to another host, which would get
    /// the headers.
    pub(crate) fn transport(
        &self,
        endpoint: &Endpoint,
        params: ParamHeaders,
    ) -> Result<StreamableHttpClientTransport<Discreet>, String> {
        let config = StreamableHttpClientTransportConfig::with_uri(endpoint.url.as_str())
            .custom_headers(endpoint.headers.clone())
            .max_sse_event_size(limits::LINE_BYTES_MAX);
        Ok(StreamableHttpClientTransport::with_client(Discreet { client: self.client()?, params }, config))
    }

    /// For requests that `rmcp` does not know.
    pub(crate) fn reach<'e>(&self, endpoint: &'e Endpoint) -> Result<Reached<'e>, String> {
        Ok(Reached { endpoint, client: self.client()? })
    }

    /// A request that was written in part is never written again: `hyper` moves one to a new connection only if the old
    /// one was closed before anything of it was written, and `reqwest` is told to repeat none.
    fn client(&self) -> Result<reqwest::Client, String> {
        if let Some(client) = self.0.get() {
            return Ok(client.clone());
        }
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT_MAX)
            .pool_idle_timeout(IDLE_MAX)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .build()
            .map_err(|error| format!("no HTTP client can be made: {error}"))?;
        Ok(self.0.get_or_init(|| client).clone())
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
        mut headers: Headers,
        bytes_max: usize,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        self.params.add(&message, &mut headers);
        let post = |message, headers| {
            let (uri, session_id, auth_header) = (Arc::clone(&uri), session_id.clone(), auth_header.clone());
            self.client.post_message_with_max_sse_event_size(uri, message, session_id, auth_header, headers, bytes_max)
        };
        let again = says_something(&message).then(|| (message.clone(), headers.clone()));
        let posted = match (post(message, headers).await, again) {
            (Err(Failed::Client(error)), Some((message, headers))) if error.is_request() => {
                post(message, headers).await
            }
            (posted, _) => posted,
        };
        posted.map_err(without_url)
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
