//! Messages to a server, and what it answers, in any revision.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, RETRY_AFTER, WWW_AUTHENTICATE};
use reqwest::{Method, Request, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use crate::answer::{self, Answer, Message};
use crate::credentials::{Challenge, Credentials};
use crate::error::{Error, Refusal, with_causes};
use crate::target::Target;

/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// How long an answer may take that needs no work.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// How long an idle connection is kept: many servers close theirs after five seconds, and what is sent at that moment
/// is lost.
const IDLE_MAX: Duration = Duration::from_secs(4);

/// The way to a server.
pub(crate) struct Wire {
    http: reqwest::Client,
    target: Target,
    last_id: AtomicU64,
}

impl Wire {
    /// Redirects are not followed: they could lead to another host, which would get the headers. Nothing is sent twice
    /// without this crate's doing.
    pub(crate) fn new(target: Target) -> Result<Self, Error> {
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_MAX)
            .pool_idle_timeout(IDLE_MAX)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .build()
            .map_err(|error| Error::Unexpected(with_causes(&error)))?;
        Ok(Self { http, target, last_id: AtomicU64::new(0) })
    }

    /// Another way to the same server, over the same connections.
    pub(crate) fn again(&self) -> Self {
        Self { http: self.http.clone(), target: self.target.clone(), last_id: AtomicU64::new(0) }
    }

    /// Sends a request.
    pub(crate) async fn request(&self, method: &str, params: &Value, headers: HeaderMap) -> Result<Response, Error> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        self.post(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}), headers).await
    }

    /// Sends a message.
    pub(crate) async fn post(&self, message: &Value, headers: HeaderMap) -> Result<Response, Error> {
        let within = Within::of(&headers);
        let response = self.post_text(message.to_string(), headers).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        Err(refused(status, response, within).await.0)
    }

    /// Sends a message as it was written, whatever the server answers.
    pub(crate) async fn post_text(&self, message: String, headers: HeaderMap) -> Result<Response, Error> {
        let request = self.request_of(Method::POST, headers).header(CONTENT_TYPE, "application/json");
        self.send(request.header(ACCEPT, "application/json, text/event-stream").body(message)).await
    }

    /// Ends a session. A server that does not hear of it ends it later.
    pub(crate) async fn end_session(&self, headers: HeaderMap) {
        let request = self.send(self.request_of(Method::DELETE, headers));
        drop(tokio::time::timeout(Duration::from_secs(2), request).await);
    }

    pub(crate) fn request_of(&self, method: Method, headers: HeaderMap) -> RequestBuilder {
        let request = self.http.request(method, self.target.url.clone());
        request.headers(self.target.headers.clone()).headers(headers)
    }

    /// Sends a request with credentials; a second time with other ones if the server refuses those.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        let request = request.build().map_err(|error| Error::Unexpected(with_causes(&error.without_url())))?;
        match &self.target.credentials {
            Some(credentials) => self.send_with(request, &**credentials).await,
            None => self.execute(request).await,
        }
    }

    async fn send_with(&self, mut request: Request, credentials: &dyn Credentials) -> Result<Response, Error> {
        let again = request.try_clone();
        credentials.add(&mut request).await?;
        let sent = request.headers().clone();
        let response = self.execute(request).await?;
        let status = response.status();
        if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Ok(response);
        }
        let text = header(&response, WWW_AUTHENTICATE.as_str());
        let is_renewed = credentials.renew(&Challenge { status, text: text.as_deref(), sent: &sent }).await?;
        match again {
            Some(mut again) if is_renewed => {
                credentials.add(&mut again).await?;
                self.execute(again).await
            }
            _ => Ok(response),
        }
    }

    async fn execute(&self, request: Request) -> Result<Response, Error> {
        self.http.execute(request).await.map_err(|error| {
            let error = error.without_url();
            if error.is_connect() { Error::Unreachable(with_causes(&error)) } else { Error::Lost(with_causes(&error)) }
        })
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

/// What a status and its body say, with the body.
pub(crate) async fn refused(status: StatusCode, response: Response, within: Within) -> (Error, Vec<u8>) {
    let after = header(&response, RETRY_AFTER.as_str()).and_then(|after| after.parse().ok()).map(Duration::from_secs);
    let challenge = header(&response, WWW_AUTHENTICATE.as_str());
    let body = if answer::is_json(&response) { answer::read(response).await.unwrap_or_default() } else { Vec::new() };
    let said: Value = serde_json::from_slice(&body).unwrap_or_default();
    let refusal = said.get("error").filter(|error| error.is_object()).map(Refusal::of);
    let is_about_request =
        refusal.as_ref().is_some_and(|refusal| matches!(refusal.code, METHOD_NOT_FOUND | INVALID_PARAMS));
    let error = match status {
        StatusCode::NOT_FOUND if within == Within::Session && !is_about_request => Error::SessionGone,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let why = refusal.map(|refusal| refusal.message).or(challenge).or_else(|| message_of_gateway(&said));
            Error::NotSignedIn(why.map_or_else(|| format!("status {status}"), |why| format!("status {status}, {why}")))
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

/// What the services say that stand before a server, such as those that check signatures.
fn message_of_gateway(body: &Value) -> Option<String> {
    body["message"].as_str().or_else(|| body["Message"].as_str()).map(str::to_owned)
}

/// What names a session.
pub(crate) const SESSION: &str = "mcp-session-id";

/// A 404 with one of these is not about the session.
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// The result of a request that needs no work and asks nothing.
pub(crate) async fn result(sent: impl Future<Output = Result<Response, Error>>) -> Result<Value, Error> {
    let read = async {
        let mut answer = Answer::new(sent.await?)?;
        while let Some(message) = answer.next().await? {
            if let Message::End(end) = message {
                return end.map_err(Error::Refused);
            }
        }
        Err(Error::Lost("the stream ended without it".to_owned()))
    };
    in_time(read).await
}

/// The same, in the time that an answer may take.
pub(crate) async fn in_time<T>(answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let late = |_late| Error::Lost(format!("none came within {} seconds", ANSWER_MAX.as_secs()));
    tokio::time::timeout(ANSWER_MAX, answer).await.map_err(late)?
}
