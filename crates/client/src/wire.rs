//! The way to a server of any revision, and whether it takes what is sent.

use std::time::{Duration, Instant};

use reqwest::header::{ACCEPT, CONTENT_TYPE, DATE, HeaderMap, RETRY_AFTER, WWW_AUTHENTICATE};
use reqwest::{Method, Request, RequestBuilder, Response, StatusCode};
use serde_json::Value;

use crate::body::{Events, is_json, is_stream, read};
use crate::error::{Error, Refusal, with_causes};
use crate::observe::observer;
use crate::target::{Challenge, Credentials, Target};

/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The header of a session.
pub(crate) const SESSION: &str = "mcp-session-id";

/// How long an answer may take that needs no work.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(60);

/// How long an idle connection is kept: many servers close theirs after five seconds, and what is sent at that time
/// is lost.
const IDLE_MAX: Duration = Duration::from_secs(4);

/// A request is redirected at most so often.
const REDIRECTS_MAX: usize = 5;

/// No answer, and no event of a stream, is read beyond so many bytes, unless less is wanted.
const BYTES_MAX: usize = 256 << 20;

/// A 404 with one of these is not about the session.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

/// A connection to a server for messages that pass through unchanged. The caller sets the headers.
/// Clones use the same connections.
#[derive(Clone, Debug)]
pub struct Raw {
    http: reqwest::Client,
    target: Target,
    bytes_max: usize,
    /// The last change of a message that is sent, and the first of one that was received.
    pub(crate) rewriting: Rewriting,
}

/// Changes of the text of messages: before one is sent, and before one that was received is read.
#[derive(Clone, Copy, Debug)]
pub struct Rewriting {
    /// The change of a message that is sent.
    pub sent: fn(String) -> String,
    /// The change of a message that was received.
    pub received: fn(String) -> String,
}

impl Raw {
    /// A way to a server. Connects to nothing yet.
    ///
    /// A redirect is followed within its origin, if the request stays the same: another host would get the headers. A
    /// request that was written in part is never written again. `hyper` moves a request to a new connection only if the
    /// old one was closed before any of it was written. `reqwest` is configured to repeat none.
    pub fn new(target: Target) -> Result<Self, Error> {
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_MAX)
            .pool_idle_timeout(IDLE_MAX)
            .redirect(redirects())
            .retry(reqwest::retry::never())
            .build()
            .map_err(|error| Error::Unexpected(with_causes(&error)))?;
        let unchanged: fn(String) -> String = |text| text;
        let rewriting = Rewriting { sent: unchanged, received: unchanged };
        Ok(Self { http, target, bytes_max: BYTES_MAX, rewriting })
    }

    /// The same, which reads no answer and no event beyond so many bytes.
    #[must_use]
    pub fn reading_at_most(self, bytes_max: usize) -> Self {
        Self { bytes_max, ..self }
    }

    /// The same, which changes the text of messages.
    #[must_use]
    pub fn rewriting(self, rewriting: Rewriting) -> Self {
        Self { rewriting, ..self }
    }

    /// The HTTP client that requests are made with.
    #[must_use]
    pub const fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// No answer, and no event, is read beyond so many bytes.
    pub(crate) const fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Sends a message.
    pub(crate) async fn post_text(&self, message: String, headers: HeaderMap) -> Result<Response, Error> {
        let request = self.request_of(Method::POST, headers).header(CONTENT_TYPE, "application/json");
        let message = (self.rewriting.sent)(message);
        self.execute(request.header(ACCEPT, "application/json, text/event-stream").body(message)).await
    }

    /// Asks for the stream of the server's own messages, or for the rest of the stream that the header `Last-Event-ID`
    /// names.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the server has none; otherwise if it was not answered, or by a status.
    pub async fn listen(&self, headers: HeaderMap) -> Result<Events, Error> {
        let within = Within::of(&headers);
        let request = self.request_of(Method::GET, headers).header(ACCEPT, "text/event-stream");
        let response = self.execute(request).await?;
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            return Err(Error::Unsupported("the server has no stream of its own".to_owned()));
        }
        if !response.status().is_success() {
            return Err(self.refused(response, within).await.0);
        }
        if !is_stream(&response) {
            return Err(Error::Unexpected("what should be a stream is none".to_owned()));
        }
        Ok(Events::of(response, self.bytes_max))
    }

    /// Ends a session, if the headers name one. A server that does not learn of it ends it later.
    pub async fn end_session(&self, headers: HeaderMap) {
        if headers.contains_key(SESSION) {
            let request = self.execute(self.request_of(Method::DELETE, headers));
            drop(tokio::time::timeout(Duration::from_secs(2), request).await);
        }
    }

    fn request_of(&self, method: Method, headers: HeaderMap) -> RequestBuilder {
        let request = self.http.request(method, self.target.url.clone());
        request.headers(self.target.headers.clone()).headers(headers)
    }

    /// Sends a request with credentials; a second time with other ones if the server refuses those.
    async fn execute(&self, request: RequestBuilder) -> Result<Response, Error> {
        let request = request.build().map_err(|error| Error::Unexpected(with_causes(&error.without_url())))?;
        match &self.target.credentials {
            Some(credentials) => self.execute_with(request, &**credentials).await,
            None => self.execute_once(request).await,
        }
    }

    async fn execute_with(&self, mut request: Request, credentials: &dyn Credentials) -> Result<Response, Error> {
        let again = request.try_clone();
        credentials.add(&mut request).await?;
        let sent = request.headers().clone();
        let response = self.execute_once(request).await?;
        let status = response.status();
        if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Ok(response);
        }
        let text = header(&response, WWW_AUTHENTICATE.as_str());
        let is_renewed = credentials.renew(&Challenge { status, text: text.as_deref(), sent: &sent }).await?;
        match again {
            Some(mut again) if is_renewed => {
                credentials.add(&mut again).await?;
                self.execute_once(again).await
            }
            _ => Ok(response),
        }
    }

    async fn execute_once(&self, request: Request) -> Result<Response, Error> {
        observer().into_iter().for_each(|observer| observer.request(&request));
        let response = self.http.execute(request).await.map_err(|error| {
            let error = error.without_url();
            if error.is_connect() { Error::Unreachable(with_causes(&error)) } else { Error::Lost(with_causes(&error)) }
        })?;
        observer().into_iter().for_each(|observer| observer.response(response.status(), response.headers()));
        Ok(response)
    }

    /// The meaning of a status and its body, with the body.
    pub(crate) async fn refused(&self, response: Response, within: Within) -> (Error, Vec<u8>) {
        let status = response.status();
        let after = retry_after(response.headers());
        let challenge = header(&response, WWW_AUTHENTICATE.as_str());
        let body = match is_json(&response) {
            true => read(response, self.bytes_max).await.unwrap_or_default(),
            false => Vec::new(),
        };
        let text = observer().and_then(|observer| Some((observer, std::str::from_utf8(&body).ok()?)));
        text.into_iter().for_each(|(observer, text)| observer.message(text));
        let said: Value = serde_json::from_slice(&body).unwrap_or_default();
        let refusal = said.get("error").filter(|error| error.is_object()).map(Refusal::of);
        let is_about_request =
            refusal.as_ref().is_some_and(|refusal| matches!(refusal.code, METHOD_NOT_FOUND | INVALID_PARAMS));
        let error = match status {
            StatusCode::NOT_FOUND if within == Within::Session && !is_about_request => Error::SessionGone,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                // What stands before a server, such as what checks signatures, has words of its own.
                let own = || said["message"].as_str().or_else(|| said["Message"].as_str()).map(str::to_owned);
                let why = refusal.map(|refusal| refusal.message).or(challenge).or_else(own);
                let why = why.map(|why| format!(", {why}")).unwrap_or_default();
                Error::NotSignedIn(format!("status {status}{why}"))
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                Error::Busy { status: status.as_u16(), after }
            }
            status => match refusal {
                Some(refusal) => Error::Refused(refusal),
                None if status.is_server_error() => Error::Lost(format!("status {status}")),
                None => Error::Unexpected(format!("status {status}")),
            },
        };
        (error, body)
    }
}

/// Where a request belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Within {
    Session,
    Nothing,
}

impl Within {
    /// As its headers say.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        if headers.contains_key(SESSION) { Self::Session } else { Self::Nothing }
    }
}

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

#[expect(clippy::disallowed_methods, reason = "a client of servers elsewhere waits in real time")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// Follows a redirect that says that the same request is to be sent to another path of the same server. All others are
/// answers.
fn redirects() -> reqwest::redirect::Policy {
    reqwest::redirect::Policy::custom(|attempt| {
        let same = matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        let before = attempt.previous().last();
        let is_near = before.is_some_and(|before| before.origin() == attempt.url().origin());
        if same && is_near && attempt.previous().len() <= REDIRECTS_MAX { attempt.follow() } else { attempt.stop() }
    })
}

/// How long a server wants to be left alone, as the headers of its response say.
#[must_use]
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    until(text(RETRY_AFTER)?, text(DATE))
}

/// How long a server wants to be left alone: so many seconds, or until a time on its own clock.
fn until(after: &str, now: Option<&str>) -> Option<Duration> {
    if let Ok(seconds) = after.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let second = |date: &str| jiff::fmt::rfc2822::parse(date).ok().map(|date| date.timestamp().as_second());
    let seconds = second(after)?.saturating_sub(second(now?)?);
    Some(Duration::from_secs(seconds.max(0).unsigned_abs()))
}

#[expect(clippy::disallowed_methods, reason = "a client of servers elsewhere waits in real time")]
pub(crate) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_in_seconds_or_by_a_date_when_to_come_again() {
        let now = Some("Wed, 21 Oct 2026 07:28:00 GMT");
        assert_eq!(until("7", None), Some(Duration::from_secs(7)));
        assert_eq!(until("Wed, 21 Oct 2026 07:28:30 GMT", now), Some(Duration::from_secs(30)));
        assert_eq!(until("Wed, 21 Oct 2026 07:00:00 GMT", now), Some(Duration::ZERO));
        for (after, now) in [("soon", now), ("-1", now), ("Wed, 21 Oct 2026 07:28:30 GMT", None)] {
            assert_eq!(until(after, now), None, "{after}");
        }
    }
}
