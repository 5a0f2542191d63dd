//! A server over Streamable HTTP.

use std::collections::HashMap;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use url::Url;

use crate::limits;

/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Where a server is, and what is sent to it with every request. Nothing of what a caller sent is among it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) url: Url,
    pub(crate) headers: HashMap<HeaderName, HeaderValue>,
}

impl std::fmt::Debug for Endpoint {
    /// Without the values of headers and the query, which may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// A connection without a session yet. Redirects are not followed: they could lead to another host, which would get
    /// the headers.
    ///
    /// # Errors
    /// Why there is no client.
    pub(crate) fn transport(&self) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT_MAX)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| format!("no HTTP client can be made: {error}"))?;
        let config = StreamableHttpClientTransportConfig::with_uri(self.url.as_str())
            .custom_headers(self.headers.clone())
            .max_sse_event_size(limits::LINE_BYTES_MAX);
        Ok(StreamableHttpClientTransport::with_client(client, config))
    }
}
