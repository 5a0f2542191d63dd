//! A client of one server.

use std::time::Duration;

use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::answer::{Message, Reply};
use crate::connect::{self, Lifecycle, REVISION, Session, discover};
use crate::error::Error;
use crate::target::Target;
use crate::task::{Question, Status, Task};
use crate::tool::Tool;
use crate::wire::{Raw, in_time, result};

/// At most so many pages of a list are read.
const PAGES_MAX: u32 = 100;

/// How long a server of revision `2025-11-25` may take to ask, once it has said that it asks.
const QUESTION_MAX: Duration = Duration::from_secs(5);

/// What our own servers declare: a call may be sent again with its idempotency key.
const KEYS: &str = "/extensions/dev.longhaul~1idempotencyKeys";

/// Where a server says that a call may ask to start later.
const LATER_STARTS: &str = "/extensions/dev.longhaul~1laterStarts";

/// A client of one server.
pub struct Client {
    pub(crate) wire: Raw,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) capabilities: Value,
    /// Another client of the same server, for its list of tasks, which revision `2026-07-28` does not have.
    pub(crate) of_list: OnceCell<Box<Self>>,
}

impl Client {
    /// Finds out which revision the server speaks. `session` names one that was begun before, for servers that show
    /// tasks only to the session that began them.
    ///
    /// # Errors
    /// If the server cannot be reached, or lets nobody in.
    pub async fn connect(target: Target, session: Option<&str>) -> Result<Self, Error> {
        let wire = Raw::new(target)?;
        if let Some(session) = session.and_then(Session::resume) {
            return Ok(Self::new(wire, Lifecycle::Handshake(session), json!({"tasks": {}})));
        }
        if let Some(found) = discover(&wire).await? {
            return Ok(Self::new(wire, Lifecycle::PerRequest, found["capabilities"].clone()));
        }
        Self::with_handshake(wire).await
    }

    const fn new(wire: Raw, lifecycle: Lifecycle, capabilities: Value) -> Self {
        Self { wire, lifecycle, capabilities, of_list: OnceCell::const_new() }
    }

    pub(crate) async fn with_handshake(wire: Raw) -> Result<Self, Error> {
        let (session, info) = Session::begin(&wire).await?;
        Ok(Self::new(wire, Lifecycle::Handshake(session), info["capabilities"].clone()))
    }

    /// The revision that it speaks with the server.
    #[must_use]
    pub fn revision(&self) -> &str {
        match &self.lifecycle {
            Lifecycle::PerRequest => REVISION,
            Lifecycle::Handshake(session) => &session.revision,
        }
    }

    /// The session, for a later [`connect`](Self::connect); `None` if there is none.
    #[must_use]
    pub fn session(&self) -> Option<String> {
        match &self.lifecycle {
            Lifecycle::PerRequest => None,
            Lifecycle::Handshake(session) => session.id()?.to_str().ok().map(str::to_owned),
        }
    }

    /// Whether the server recognises a call that is sent again by its idempotency key, and says so.
    #[must_use]
    pub fn takes_keys(&self) -> bool {
        self.capabilities.pointer(KEYS).is_some()
    }

    /// Whether a call may ask to start later: other servers would not heed it, and start the call at once.
    #[must_use]
    pub fn starts_later(&self) -> bool {
        self.capabilities.pointer(LATER_STARTS).is_some()
    }

    /// Whether the server may make tasks of calls.
    #[must_use]
    pub fn makes_tasks(&self) -> bool {
        let place = match &self.lifecycle {
            Lifecycle::PerRequest => "/extensions/io.modelcontextprotocol~1tasks",
            Lifecycle::Handshake(_) => "/tasks/requests/tools/call",
        };
        self.capabilities.pointer(place).is_some()
    }

    /// All tools of the server.
    pub async fn tools(&self) -> Result<Vec<Tool>, Error> {
        Ok(self.pages("tools/list", json!({}), "tools", usize::MAX, Tool::read).await?.0)
    }

    /// What is in `member` of the pages of a list, and their number: no more of them than `enough` values need.
    pub(crate) async fn pages<T>(
        &self,
        method: &'static str,
        mut params: Value,
        member: &str,
        enough: usize,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<(Vec<T>, u32), Error> {
        let (mut all, mut pages) = (Vec::new(), 0);
        while pages < PAGES_MAX && all.len() < enough {
            let page = self.result(method, params.clone(), None).await?;
            pages += 1;
            all.extend(page[member].as_array().into_iter().flatten().filter_map(&read));
            match page["nextCursor"].as_str() {
                Some(cursor) => params["cursor"] = cursor.into(),
                None => break,
            }
        }
        Ok((all, pages))
    }

    /// A look at a task, with what it asks, or how it ended.
    pub async fn task(&self, id: &str) -> Result<Task, Error> {
        let shown = self.result("tasks/get", json!({"taskId": id}), Some(id)).await?;
        let mut task =
            Task::read(&shown).ok_or_else(|| Error::Unexpected("`tasks/get` is answered without a task".to_owned()))?;
        if matches!(self.lifecycle, Lifecycle::PerRequest) {
            return Ok(task);
        }
        let params = json!({"taskId": id});
        match task.status {
            Status::Completed | Status::Failed => {
                task.end = Some(match self.result("tasks/result", params, Some(id)).await {
                    Ok(result) => Ok(result),
                    Err(Error::Refused(refusal)) => Err(refusal),
                    Err(error) => return Err(error),
                });
            }
            Status::InputRequired => {
                let asked = tokio::time::timeout(QUESTION_MAX, self.question(&params, id)).await;
                task.questions = asked.unwrap_or(Ok(None))?.into_iter().collect();
            }
            Status::Working | Status::Cancelled => {}
        }
        Ok(task)
    }

    /// What a task of revision `2025-11-25` asks: it is sent to whoever waits for the result.
    async fn question(&self, params: &Value, id: &str) -> Result<Option<Question>, Error> {
        let mut answer = self.send("tasks/result", params.clone(), Some(id)).await?;
        while let Some(message) = answer.next().await? {
            match message {
                Message::Request { id, method, params } => {
                    return Ok(Some(Question { key: id.to_string(), method, params }));
                }
                Message::End(_) => break,
                Message::Notification { .. } => {}
            }
        }
        Ok(None)
    }

    /// Answers a question of a task, with the result that its method has.
    pub async fn answer(&self, id: &str, question: &Question, answer: Value) -> Result<(), Error> {
        match &self.lifecycle {
            Lifecycle::PerRequest => {
                let params = json!({"taskId": id, "inputResponses": {&question.key: answer}});
                self.result("tasks/update", params, Some(id)).await.map(drop)
            }
            Lifecycle::Handshake(_) => self.respond(&question.key, json!({"result": answer})).await,
        }
    }

    /// Answers a request of the server, whose id is `key` as JSON.
    pub(crate) async fn respond(&self, key: &str, mut answer: Value) -> Result<(), Error> {
        let id: Value = serde_json::from_str(key).map_err(|error| Error::Unexpected(error.to_string()))?;
        answer["jsonrpc"] = "2.0".into();
        answer["id"] = id;
        let headers = self.headers("", None);
        in_time(self.wire.send(&answer, headers)).await.map(drop)
    }

    /// Asks the server to cancel a task, which may end otherwise all the same.
    pub async fn cancel(&self, id: &str) -> Result<(), Error> {
        self.result("tasks/cancel", json!({"taskId": id}), Some(id)).await.map(drop)
    }

    /// Keeps the session when this client ends: a task may be shown to it only.
    pub(crate) fn keep_session(&self) {
        match &self.lifecycle {
            Lifecycle::Handshake(session) => session.keep(),
            Lifecycle::PerRequest => {}
        }
    }

    /// Ends the sessions that this client has begun. One that a task may be shown to only is kept: the task could not
    /// be found afterwards.
    pub async fn close(&self) {
        for client in [Some(self), self.of_list.get().map(|client| &**client)].into_iter().flatten() {
            match &client.lifecycle {
                Lifecycle::Handshake(session) if !session.is_kept() => {
                    client.wire.end_session(session.headers()).await;
                }
                Lifecycle::Handshake(_) | Lifecycle::PerRequest => {}
            }
        }
    }

    pub(crate) async fn result(&self, method: &'static str, params: Value, name: Option<&str>) -> Result<Value, Error> {
        result(self.send(method, params, name)).await
    }

    async fn send(&self, method: &'static str, params: Value, name: Option<&str>) -> Result<Reply, Error> {
        let params = match &self.lifecycle {
            Lifecycle::PerRequest => connect::with_meta(params, Value::Null),
            Lifecycle::Handshake(_) => params,
        };
        self.send_with(method, &params, |client| client.headers(method, name)).await
    }

    /// Sends a request, in a new session if the server has forgotten the old one: then it did not do it.
    pub(crate) async fn send_with(
        &self,
        method: &str,
        params: &Value,
        headers: impl Fn(&Self) -> HeaderMap,
    ) -> Result<Reply, Error> {
        let sent = self.wire.request(method, params, headers(self)).await;
        let (Err(Error::SessionGone), Lifecycle::Handshake(session)) = (&sent, &self.lifecycle) else { return sent };
        let (other, _info) = Session::begin(&self.wire).await?;
        session.replace(other);
        self.wire.request(method, params, headers(self)).await
    }

    pub(crate) fn headers(&self, method: &'static str, name: Option<&str>) -> HeaderMap {
        match &self.lifecycle {
            Lifecycle::PerRequest => connect::headers(method, name),
            Lifecycle::Handshake(session) => session.headers(),
        }
    }
}
