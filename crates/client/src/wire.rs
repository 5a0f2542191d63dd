//! Messages to a server, and what it answers, in any revision.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, RETRY_AFTER, WWW_AUTHENTICATE};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};

use crate::answer::{self, Answer, Message};
use crate::error::{Error, Refusal, with_causes};
use crate::target::Target;

/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// How long an answer may take that needs no work.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// How long an idle connection is kept: many servers close theirs after five seconds, and what is sent at that moment is
/// lost.
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
    ///
    /// # Errors
    /// If no HTTP client can be made.
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
    ///
    /// # Errors
    /// If it was not answered, or by a status that is an error.
    pub(crate) async fn request(&self, method: &str, params: &Value, headers: HeaderMap) -> Result<Response, Error> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        self.post(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}), headers).await
    }

    /// Sends a message.
    ///
    /// # Errors
    /// If it was not answered, or by a status that is an error.
    pub(crate) async fn post(&self, message: &Value, headers: HeaderMap) -> Result<Response, Error> {
        let in_session = headers.contains_key(SESSION);
        let request = self.http.post(self.target.url.clone()).headers(self.target.headers.clone()).headers(headers);
        let request =
            request.header(CONTENT_TYPE, "application/json").header(ACCEPT, "application/json, text/event-stream");
        let response = request.body(message.to_string()).send().await.map_err(|error| {
            let error = error.without_url();
            if error.is_connect() { Error::Unreachable(with_causes(&error)) } else { Error::Lost(with_causes(&error)) }
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        match refused(status, response).await {
            error @ Error::Refused(Refusal { code: METHOD_NOT_FOUND | INVALID_PARAMS, .. }) => Err(error),
            _ if in_session && status == StatusCode::NOT_FOUND => Err(Error::SessionGone),
            error => Err(error),
        }
    }

    /// Ends a session. A server that does not hear of it ends it later.
    pub(crate) async fn end_session(&self, headers: HeaderMap) {
        let request = self.http.delete(self.target.url.clone()).headers(self.target.headers.clone()).headers(headers);
        drop(tokio::time::timeout(Duration::from_secs(2), request.send()).await);
    }
}

/// What a status and its body say.
async fn refused(status: StatusCode, response: Response) -> Error {
    let after = header(&response, RETRY_AFTER.as_str()).and_then(|after| after.parse().ok()).map(Duration::from_secs);
    let challenge = header(&response, WWW_AUTHENTICATE.as_str());
    let body = if answer::is_json(&response) { answer::read(response).await.ok() } else { None };
    let body: Value = body.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default();
    let refusal = body.get("error").filter(|error| error.is_object()).map(Refusal::of);
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let why = refusal.map(|refusal| refusal.message).or(challenge);
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
    }
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
///
/// # Errors
/// What the server answers, or why there is no answer.
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
