//! A server over Streamable HTTP.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use longhaul::SystemClock;
use longhaul_client::{Challenge, Credentials, Raw, Rewriting, Target, with_causes};
use longhaul_core::Clock;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::service::ServiceError;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};
use url::Url;

mod params;
mod responses;

pub(crate) use params::ParamHeaders;
use responses::{Events, Exchange, Failed, Refused, Trouble};

use super::credentials::credentials;
use super::texts;
use crate::limits;
use crate::target::{Endpoint, Headers};
use crate::verbatim;

/// Why a connection did not begin, or was lost, with the cause that the client below found.
pub(super) fn why(error: &DynamicTransportError) -> String {
    match error.error.downcast_ref::<Failed>() {
        // Its text does not have the cause.
        Some(Failed::Client(error)) => with_causes(error),
        _ => with_causes(&*error.error),
    }
}

/// A server behind a URL, made when it is first needed. The connections that it keeps open are used for the next
/// request.
#[derive(Default)]
pub(crate) struct Http {
    raw: OnceLock<Raw>,
    credentials: OnceLock<Option<Arc<dyn Credentials>>>,
    /// When the next request may be sent, in milliseconds, if the server was busy.
    not_before_ms: Arc<AtomicU64>,
}

impl Http {
    /// A connection without a session yet.
    pub(crate) fn transport(
        &self,
        server: &str,
        endpoint: &Endpoint,
        params: ParamHeaders,
    ) -> Result<StreamableHttpClientTransport<Discreet>, String> {
        let config = StreamableHttpClientTransportConfig::with_uri(endpoint.url.as_str())
            .custom_headers(endpoint.headers.clone())
            .max_sse_event_size(limits::LINE_BYTES_MAX)
            .max_json_response_size(limits::LINE_BYTES_MAX);
        let client = self.reach(endpoint)?.http().clone();
        let not_before_ms = Arc::clone(&self.not_before_ms);
        let (credentials, renewed) = (self.credentials(endpoint), Arc::default());
        let discreet = Discreet { server: server.into(), client, params, not_before_ms, renewed, credentials };
        Ok(StreamableHttpClientTransport::with_client(discreet, config))
    }

    /// For requests that `rmcp` does not know.
    pub(crate) fn reach(&self, endpoint: &Endpoint) -> Result<&Raw, String> {
        if let Some(raw) = self.raw.get() {
            return Ok(raw);
        }
        let headers = endpoint.headers.clone().into_iter().collect();
        let (url, credentials) = (endpoint.url.clone(), self.credentials(endpoint));
        let raw = Raw::new(Target { url, headers, credentials }).map_err(|error| error.to_string())?;
        let rewriting = Rewriting { sent: verbatim::with_texts, received: texts::received };
        Ok(self.raw.get_or_init(|| raw.reading_at_most(limits::LINE_BYTES_MAX).rewriting(rewriting)))
    }
}

impl Http {
    /// The credentials of the server, which all of its requests share.
    fn credentials(&self, endpoint: &Endpoint) -> Option<Arc<dyn Credentials>> {
        let made = || endpoint.credentials.as_ref().map(|source| credentials(source, &endpoint.url));
        self.credentials.get_or_init(made).clone()
    }
}

/// Whether a request failed before anything of it was carried out: it was not sent, or the server had no time for it.
pub(super) fn is_unsent(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    // `rmcp` does not name the error of the client as a cause.
    match error.error.downcast_ref::<Failed>() {
        Some(Failed::Client(Trouble::Client(error))) => error.is_connect(),
        // Credentials that could not be had: a refusal of the server itself is an answer.
        Some(Failed::Client(Trouble::Busy { .. } | Trouble::Refused(_))) => true,
        _ => false,
    }
}

/// An HTTP client that sends what `rmcp` leaves out and understands answers that are almost correct. `rmcp` also writes
/// its errors to the log, so they do not contain the URL.
#[derive(Clone)]
pub(crate) struct Discreet {
    server: Arc<str>,
    client: reqwest::Client,
    params: ParamHeaders,
    not_before_ms: Arc<AtomicU64>,
    /// The requests that have been sent again in a new session.
    renewed: Refused,
    credentials: Option<Arc<dyn Credentials>>,
}

/// Whether the message is a notification. It may be sent again if its connection was closed at that time, since
/// receiving it twice changes nothing.
const fn says_something(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Notification(_))
}

impl Discreet {
    /// Sends a message. If the server is too busy now, it is sent again later, if that is soon.
    async fn post(
        &self,
        uri: &str,
        message: &ClientJsonRpcMessage,
        session: Option<&str>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let body = verbatim::with_texts(serde_json::to_string(message)?).into_bytes();
        let (mut pause, mut left) = (limits::BUSY_FIRST, limits::BUSY_MAX);
        loop {
            self.wait_until_free(&mut left).await?;
            let response = self.send(uri, &body, session, &headers, says_something(message)).await?;
            let exchange = Exchange::new(&self.server, message, session, &self.renewed, limits);
            let (status, after) = match exchange.read(response).await {
                Err(Failed::Client(Trouble::Busy { status, after })) => (status, after),
                read => return read,
            };
            let wait = after.unwrap_or(pause);
            self.note_busy(wait);
            if wait > left {
                return Err(Failed::Client(Trouble::Busy { status, after }));
            }
            tracing::warn!(server = %self.server, status, wait_s = wait.as_secs(), "a request waits for a busy server");
            pause *= 2;
        }
    }

    /// Waits until the server accepts requests again.
    async fn wait_until_free(&self, left: &mut Duration) -> Result<(), Failed> {
        let now_ms = SystemClock.now().as_ms();
        let wait = Duration::from_millis(self.not_before_ms.load(Ordering::Relaxed).saturating_sub(now_ms));
        *left = left.checked_sub(wait).ok_or(Failed::Client(Trouble::Busy { status: 503, after: Some(wait) }))?;
        SystemClock.sleep_ms(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)).await;
        Ok(())
    }

    fn note_busy(&self, wait: Duration) {
        let wait_ms = u64::try_from(wait.min(limits::BUSY_LONGEST).as_millis()).unwrap_or(u64::MAX);
        self.not_before_ms.store(SystemClock.now().as_ms().saturating_add(wait_ms), Ordering::Relaxed);
    }

    async fn send(
        &self,
        uri: &str,
        body: &[u8],
        session: Option<&str>,
        headers: &Headers,
        may_repeat: bool,
    ) -> Result<reqwest::Response, Failed> {
        let build = || {
            let request = self.client.post(uri).header(ACCEPT, "text/event-stream, application/json");
            let request = request.header(CONTENT_TYPE, "application/json");
            let request = session.into_iter().fold(request, |request, id| request.header("mcp-session-id", id));
            let headers = headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
            request.headers(headers).body(body.to_vec()).build()
        };
        let failed = |error: reqwest::Error| Failed::Client(Trouble::Client(error.without_url()));
        let mut request = build().map_err(failed)?;
        self.show(&mut request).await?;
        let shown = request.headers().clone();
        let again = request.try_clone().filter(|_| may_repeat);
        let sent = match (self.client.execute(request).await, again) {
            (Err(error), Some(again)) if error.is_request() => self.client.execute(again).await,
            (sent, _) => sent,
        };
        let response = sent.map_err(failed)?;
        if !self.is_renewed(&response, &shown).await? {
            return Ok(response);
        }
        // Nothing of the first request was carried out.
        let mut request = build().map_err(failed)?;
        self.show(&mut request).await?;
        self.client.execute(request).await.map_err(failed)
    }

    /// Adds the credentials to a request.
    async fn show(&self, request: &mut reqwest::Request) -> Result<(), Failed> {
        let Some(credentials) = &self.credentials else { return Ok(()) };
        credentials.add(request).await.map_err(|error| Failed::Client(Trouble::Refused(error.to_string())))
    }

    /// The headers together with the credentials.
    async fn shown(&self, uri: &str, mut headers: Headers) -> Result<Headers, Failed> {
        if let (Some(_), Ok(url)) = (&self.credentials, Url::parse(uri)) {
            let mut request = reqwest::Request::new(reqwest::Method::GET, url);
            self.show(&mut request).await?;
            headers.extend(request.headers().iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        Ok(headers)
    }

    /// Whether the credentials of a request were refused and have changed since.
    async fn is_renewed(&self, response: &reqwest::Response, sent: &http::HeaderMap) -> Result<bool, Failed> {
        let status = response.status();
        let Some(credentials) = self.credentials.as_ref().filter(|_| status == reqwest::StatusCode::UNAUTHORIZED)
        else {
            return Ok(false);
        };
        let text = response.headers().get(http::header::WWW_AUTHENTICATE).and_then(|text| text.to_str().ok());
        let renewed = credentials.renew(&Challenge { status, text, sent }).await;
        renewed.map_err(|error| Failed::Client(Trouble::Refused(error.to_string())))
    }
}

/// An error of the client that `rmcp` has, without the URL.
fn without_url(error: StreamableHttpError<reqwest::Error>) -> Failed {
    match error {
        StreamableHttpError::Client(error) => Failed::Client(Trouble::Client(error.without_url())),
        StreamableHttpError::ServerDoesNotSupportSse => Failed::ServerDoesNotSupportSse,
        StreamableHttpError::SessionExpired => Failed::SessionExpired,
        StreamableHttpError::HttpStatus(status) => Failed::HttpStatus(status),
        other => Failed::UnexpectedServerResponse(other.to_string().into()),
    }
}

#[deny(clippy::missing_trait_methods)]
impl StreamableHttpClient for Discreet {
    type Error = Trouble;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session_id, auth_header, headers, limits).await
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

    /// Its headers have what would be in `_auth_header`.
    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        mut headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        self.params.add(&message, &mut headers);
        self.post(&uri, &message, session_id.as_deref(), headers, limits).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<(), Failed> {
        let headers = self.shown(&uri, headers).await?;
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
        let headers = self.shown(&uri, headers).await?;
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
        let headers = self.shown(&uri, headers).await?;
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
