//! A server over Streamable HTTP.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use url::Url;

use crate::config::Headers;
use crate::limits;

/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(10);

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

impl Endpoint {
    /// A connection without a session yet.
    ///
    /// # Errors
    /// Why there is no client.
    pub(crate) fn transport(&self) -> Result<StreamableHttpClientTransport<Discreet>, String> {
        let client = self.client()?;
        let config = StreamableHttpClientTransportConfig::with_uri(self.url.as_str())
            .custom_headers(self.headers.clone())
            .max_sse_event_size(limits::LINE_BYTES_MAX);
        Ok(StreamableHttpClientTransport::with_client(Discreet(client), config))
    }

    /// Redirects are not followed: they could lead to another host, which would get the headers.
    ///
    /// # Errors
    /// Why there is no client.
    pub(crate) fn client(&self) -> Result<reqwest::Client, String> {
        let client = reqwest::Client::builder().connect_timeout(CONNECT_MAX);
        let client = client.redirect(reqwest::redirect::Policy::none()).build();
        client.map_err(|error| format!("no HTTP client can be made: {error}"))
    }
}

/// An HTTP client whose errors, which `rmcp` also writes to the log, do not tell the URL.
#[derive(Clone)]
pub(crate) struct Discreet(reqwest::Client);

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
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        self.0.post_message(uri, message, session_id, auth_header, headers).await.map_err(without_url)
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
        let posted =
            self.0.post_message_with_max_sse_event_size(uri, message, session_id, auth_header, headers, bytes_max);
        posted.await.map_err(without_url)
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<(), Failed> {
        self.0.delete_session(uri, session_id, auth_header, headers).await.map_err(without_url)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<Events, Failed> {
        self.0.get_stream(uri, session_id, last_event_id, auth_header, headers).await.map_err(without_url)
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
        let stream =
            self.0.get_stream_with_max_sse_event_size(uri, session_id, last_event_id, auth_header, headers, bytes_max);
        stream.await.map_err(without_url)
    }
}
