//! Messages to a server, and what it answers over HTTP: one message as JSON, or several as a stream of events.

use std::time::Duration;

use reqwest::Response;
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use crate::body::{Events, is_json, is_stream, kind, read, text};
use crate::error::{Error, Refusal};
use crate::observe::observer;
use crate::repair::repaired;
use crate::request_id::request_id;
use crate::resume::Stream;
use crate::unreadable::unreadable_answer;
use crate::wire::{ANSWER_MAX, Raw, SESSION, Within, pause};

/// A server that wants to be asked again within this time is waited for, and asked so often.
const SOON: Duration = Duration::from_secs(10);
const TRIES_MAX: u32 = 3;

/// An answer of a server.
#[derive(Debug)]
pub struct Reply {
    /// The session that it has begun with this answer.
    pub session: Option<HeaderValue>,
    /// Its message.
    pub content: Content,
    /// The type of its body.
    pub(crate) kind: String,
    /// Changes the text of its messages before they are read.
    pub(crate) received: fn(String) -> String,
}

/// The content of an answer.
#[derive(Debug)]
pub enum Content {
    /// No message, as the answer to a notification.
    Nothing,
    /// One message as text; an error too, with any status.
    Message(String),
    /// Messages as they come.
    Stream(Box<Stream>),
}

/// A message in an answer.
#[derive(Debug)]
pub enum Message {
    /// How the request ended.
    End(Result<Value, Refusal>),
    /// A request of the server's own.
    Request {
        /// The id that its answer has to repeat.
        id: Value,
        /// The method of the request.
        method: String,
        /// The details.
        params: Value,
    },
    /// A notification of the server.
    Notification {
        /// Its method.
        method: String,
        /// Its parameters.
        params: Value,
    },
}

impl Content {
    /// The next message as text; `None` after the last one.
    ///
    /// # Errors
    /// If the connection was lost, as [`Stream::next`] says.
    pub async fn next(&mut self) -> Result<Option<String>, Error> {
        let message = match self {
            Self::Nothing => None,
            Self::Message(text) => Some(std::mem::take(text)).filter(|text| !text.is_empty()),
            Self::Stream(stream) => stream.next().await?,
        };
        if let (Some(observer), Some(text)) = (observer(), &message) {
            observer.message(text);
        }
        Ok(message)
    }
}

impl Reply {
    /// The content of a response, which `raw` got for a request with these headers.
    async fn of(response: Response, raw: &Raw, headers: HeaderMap) -> Result<Self, Error> {
        let (session, kind) = (response.headers().get(SESSION).cloned(), kind(&response).to_owned());
        let content = if is_stream(&response) {
            let events = Events::of(response, raw.bytes_max());
            Content::Stream(Box::new(Stream::new(events, raw.clone(), headers)))
        } else {
            let is_named = is_json(&response);
            let body = read(response, raw.bytes_max()).await?;
            // Some servers name another type.
            let is_message = is_named || body.trim_ascii_start().starts_with(b"{");
            if is_message && !body.is_empty() { Content::Message(text(body)) } else { Content::Nothing }
        };
        Ok(Self { session, content, kind, received: raw.rewriting.received })
    }

    /// The next message; `None` after the last one.
    ///
    /// # Errors
    /// If the connection was lost, or there is no message at all.
    pub async fn next(&mut self) -> Result<Option<Message>, Error> {
        if matches!(self.content, Content::Nothing) {
            return Err(Error::Unexpected(format!("an answer of the type `{}`", self.kind)));
        }
        while let Some(text) = self.content.next().await? {
            let text = (self.received)(text);
            let read = serde_json::from_str(&text);
            let read = read.or_else(|error| serde_json::from_str(&repaired(text.as_bytes())).map_err(|_same| error));
            match read.map(understood) {
                Ok(Some(message)) => return Ok(Some(message)),
                // What is not JSON may be an answer all the same, and then no other one comes.
                Err(error)
                    if matches!(self.content, Content::Message(_)) || unreadable_answer(text.as_bytes()).is_some() =>
                {
                    return Err(Error::Unexpected(error.to_string()));
                }
                Ok(None) | Err(_) => {}
            }
        }
        Ok(None)
    }

    /// The result of a request that needs no work and asks nothing.
    ///
    /// # Errors
    /// [`Error::Refused`] if it ends with an error; otherwise as [`next`](Self::next).
    pub async fn result(mut self) -> Result<Value, Error> {
        while let Some(message) = self.next().await? {
            if let Message::End(end) = message {
                return end.map_err(Error::Refused);
            }
        }
        Err(Error::Lost("the stream ended without it".to_owned()))
    }
}

fn understood(mut message: Value) -> Option<Message> {
    if let Some(error) = message.get("error").filter(|error| !error.is_null()) {
        return Some(Message::End(Err(Refusal::of(error))));
    }
    if let Some(result) = message.get_mut("result") {
        return Some(Message::End(Ok(result.take())));
    }
    let method = message.get("method")?.as_str()?.to_owned();
    let params = message.get_mut("params").map(Value::take).unwrap_or_default();
    Some(match message.get("id") {
        Some(id) => Message::Request { id: id.clone(), method, params },
        None => Message::Notification { method, params },
    })
}

impl Raw {
    /// Sends a request.
    pub(crate) async fn request(&self, method: &str, params: &Value, headers: HeaderMap) -> Result<Reply, Error> {
        let message =
            || Ok(json!({"jsonrpc": "2.0", "id": request_id()?, "method": method, "params": params}).to_string());
        self.send_each(message, headers).await
    }

    /// Sends a message that is not answered by another one.
    pub(crate) async fn send(&self, message: &Value, headers: HeaderMap) -> Result<Reply, Error> {
        self.send_each(|| Ok(message.to_string()), headers).await
    }

    /// Sends a message, which the server must not refuse. One that has no time for it now and says when to come again
    /// is sent another one then, if that is soon.
    async fn send_each(&self, message: impl Fn() -> Result<String, Error>, headers: HeaderMap) -> Result<Reply, Error> {
        let mut tries = 1;
        loop {
            let response = self.post_text(message()?, headers.clone()).await?;
            if response.status().is_success() {
                return Reply::of(response, self, headers).await;
            }
            let error = self.refused(response, Within::of(&headers)).await.0;
            match error.after().filter(|after| error.has_done_nothing() && *after <= SOON) {
                Some(after) if tries < TRIES_MAX => pause(after).await,
                _ => return Err(error),
            }
            tries += 1;
        }
    }

    /// Sends a message. How long the answer may take is the caller's to say. A refusal that is a message is an answer
    /// too.
    ///
    /// # Errors
    /// If it was not answered, or by a status and no message.
    pub async fn post(&self, message: String, headers: HeaderMap) -> Result<Reply, Error> {
        let response = self.post_text(message, headers.clone()).await?;
        if response.status().is_success() {
            return Reply::of(response, self, headers).await;
        }
        let session = response.headers().get(SESSION).cloned();
        match self.refused(response, Within::of(&headers)).await {
            (Error::Refused(_), body) => {
                let content = Content::Message(text(body));
                Ok(Reply { session, content, kind: String::new(), received: self.rewriting.received })
            }
            (error, _body) => Err(error),
        }
    }
}

/// The result of a request that needs no work and asks nothing.
pub(crate) async fn result(sent: impl Future<Output = Result<Reply, Error>>) -> Result<Value, Error> {
    in_time(async { sent.await?.result().await }).await
}

/// The same, in the time that an answer may take.
pub(crate) async fn in_time<T>(answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let late = |_late| Error::Lost(format!("none came within {} seconds", ANSWER_MAX.as_secs()));
    tokio::time::timeout(ANSWER_MAX, answer).await.map_err(late)?
}
