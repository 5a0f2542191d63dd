//! A client of one server.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::{Map, Value, json};
use tokio::sync::OnceCell;

use crate::answer::{Message, Reply, in_time};
use crate::connect::{self, Identity, Lifecycle, REVISION, Session, discover};
use crate::error::{Error, Refusal};
use crate::target::Target;
use crate::task::{Question, Status, Task};
use crate::tool::Tool;
use crate::wire::{METHOD_NOT_FOUND, Raw};

/// At most so many pages of a list are read.
const PAGES_MAX: u32 = 100;

/// A server's request to learn whether its client is there.
pub(crate) const PING: &str = "ping";

/// How long a server of revision `2025-11-25` may take to ask, once it has said that it asks.
const QUESTION_MAX: Duration = Duration::from_secs(5);

/// The extension of Longhaul servers: a call may be sent again with its idempotency key.
const KEYS: &str = "/extensions/dev.longhaul~1idempotencyKeys";

/// Where a server says that this caller sees the tasks of all owners.
const OPERATORS: &str = "/extensions/dev.longhaul~1allOwners";

/// Where a server says that a call may ask to start later.
const LATER_STARTS: &str = "/extensions/dev.longhaul~1laterStarts";

/// A new task continues a failed one, on Longhaul servers.
const RESUME: &str = "dev.longhaul/tasks/resume";

/// A client of one server.
pub struct Client {
    pub(crate) wire: Raw,
    pub(crate) identity: Identity,
    pub(crate) lifecycle: Lifecycle,
    /// The answer to the request that this began with.
    pub(crate) about: Value,
    pub(crate) capabilities: Value,
    /// Another client of the same server, for its list of tasks, which revision `2026-07-28` does not have.
    pub(crate) of_list: OnceCell<Box<Self>>,
    /// The owner whose tasks an operator wants; `None` for the caller's own.
    owner: Option<String>,
}

/// All owners, where an operator names one.
pub const ALL_OWNERS: &str = "*";

impl Client {
    /// Finds out which revision the server speaks. `session` names one that was begun before, for servers that show
    /// tasks only to the session that began them.
    ///
    /// # Errors
    /// If the server cannot be reached, or refuses the caller.
    pub async fn connect(target: Target, session: Option<&str>) -> Result<Self, Error> {
        let (wire, identity) = (Raw::new(target)?, Identity::default());
        if let Some(session) = session.and_then(|session| HeaderValue::from_str(session).ok()) {
            return Ok(Self::resumed(wire, identity, Some(session)));
        }
        match discover(&wire, &identity).await? {
            Some(found) => Ok(Self::new(wire, identity, Lifecycle::PerRequest, found)),
            None => Self::begin(wire, identity).await,
        }
    }

    /// Begins a session of revision `2025-11-25`, or of an older one.
    ///
    /// # Errors
    /// If the server cannot be reached, refuses the caller, or speaks newer revisions only.
    pub async fn begin(wire: Raw, identity: Identity) -> Result<Self, Error> {
        let (session, info) = Session::begin(&wire, &identity).await?;
        Ok(Self::new(wire, identity, Lifecycle::Handshake(session), info))
    }

    /// Continues a session of revision `2025-11-25`. Its server may not have given it an id.
    #[must_use]
    pub fn resume(wire: Raw, identity: Identity, session: Option<&str>) -> Self {
        Self::resumed(wire, identity, session.and_then(|session| HeaderValue::from_str(session).ok()))
    }

    fn resumed(wire: Raw, identity: Identity, session: Option<HeaderValue>) -> Self {
        Self::new(
            wire,
            identity,
            Lifecycle::Handshake(Session::resume(session)),
            json!({"capabilities": {"tasks": {}}}),
        )
    }

    /// A client of a server that is known to speak revision `2026-07-28`, and to make tasks.
    #[must_use]
    pub fn per_request(wire: Raw, identity: Identity) -> Self {
        let about = json!({"capabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
        Self::new(wire, identity, Lifecycle::PerRequest, about)
    }

    fn new(wire: Raw, identity: Identity, lifecycle: Lifecycle, about: Value) -> Self {
        let capabilities = about["capabilities"].clone();
        Self { wire, identity, lifecycle, about, capabilities, of_list: OnceCell::const_new(), owner: None }
    }

    /// Whether the server lets this caller see the tasks of all owners.
    #[must_use]
    pub fn is_operator(&self) -> bool {
        matches!(self.lifecycle, Lifecycle::PerRequest) && self.capabilities.pointer(OPERATORS).is_some()
    }

    /// A client of the same server for the tasks of another owner, or of [`ALL_OWNERS`], whom only an operator names.
    /// Calls and answers stay the caller's own.
    #[must_use]
    pub fn of_owner(&self, owner: &str) -> Self {
        let (wire, identity) = (self.wire.clone(), self.identity.clone());
        Self { owner: Some(owner.to_owned()), ..Self::new(wire, identity, Lifecycle::PerRequest, self.about.clone()) }
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

    /// The server's capabilities, as it declared them when this began.
    #[must_use]
    pub const fn capabilities(&self) -> &Value {
        &self.capabilities
    }

    /// The description that the server gave of itself when this began: the result of `server/discover` or `initialize`.
    #[must_use]
    pub const fn about(&self) -> &Value {
        &self.about
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

    /// The values in `member` of the pages of a list, the number of these pages, and where the next one begins. No more
    /// pages are read than `enough` values need.
    pub(crate) async fn pages<T>(
        &self,
        method: &'static str,
        mut params: Value,
        member: &str,
        enough: usize,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<(Vec<T>, u32, Option<String>), Error> {
        let (mut all, mut pages) = (Vec::new(), 0);
        loop {
            let page = self.result(method, params.clone(), None).await?;
            pages += 1;
            all.extend(page[member].as_array().into_iter().flatten().filter_map(&read));
            let next = page["nextCursor"].as_str().map(str::to_owned);
            match next {
                Some(cursor) if pages < PAGES_MAX && all.len() < enough => params["cursor"] = cursor.into(),
                next => return Ok((all, pages, next)),
            }
        }
    }

    /// The state of a task, with its questions or its outcome.
    pub async fn task(&self, id: &str) -> Result<Task, Error> {
        let shown = self.result("tasks/get", json!({"taskId": id}), Some(id)).await?;
        // Some servers answer as they do to the call.
        let task = Task::read(&shown).or_else(|| Task::read(shown.get("task")?));
        let mut task = task.ok_or_else(|| Error::Unexpected("`tasks/get` is answered without a task".to_owned()))?;
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

    /// The question of a task of revision `2025-11-25`. The server sends it to the client that waits for the result. A
    /// task that has ended meanwhile has none.
    async fn question(&self, params: &Value, id: &str) -> Result<Option<Question>, Error> {
        let mut answer = match self.send("tasks/result", params.clone(), Some(id)).await {
            Err(Error::Refused(_)) => return Ok(None),
            sent => sent?,
        };
        while let Some(message) = answer.next().await? {
            match message {
                Message::Request { id, method, .. } if method == PING => self.pong(&id).await?,
                Message::Request { id, method, params } => {
                    return Ok(Some(Question { key: id.to_string(), method, params }));
                }
                Message::End(_) => break,
                Message::Notification { .. } => {}
            }
        }
        Ok(None)
    }

    /// Says that this client is there.
    pub(crate) async fn pong(&self, id: &Value) -> Result<(), Error> {
        self.respond(&id.to_string(), json!({"result": {}})).await
    }

    /// Answers a question of a task, with the result that its method has.
    pub async fn answer(&self, id: &str, question: &Question, answer: Value) -> Result<(), Error> {
        self.answer_all(id, Map::from_iter([(question.key.clone(), answer)])).await
    }

    /// Answers questions of a task by their keys, each with the result that its method has.
    ///
    /// # Errors
    /// [`Error::SessionGone`] if the server has forgotten the session of revision `2025-11-25` in which it asked, and
    /// asks again.
    pub async fn answer_all(&self, id: &str, answers: Map<String, Value>) -> Result<(), Error> {
        match &self.lifecycle {
            Lifecycle::PerRequest => {
                let params = json!({"taskId": id, "inputResponses": answers});
                self.result("tasks/update", params, Some(id)).await.map(drop)
            }
            Lifecycle::Handshake(_) => {
                for (key, answer) in answers {
                    self.respond(&key, json!({"result": answer})).await?;
                }
                Ok(())
            }
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

    /// Makes a new task that continues a failed one. It takes over the steps before the step `from`, or before the
    /// first one that failed. The same `key` with the same request is the same task.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the server resumes no tasks; otherwise what it answers, or why there is no answer.
    pub async fn resume_task(&self, id: &str, from: Option<&str>, key: Option<&str>) -> Result<Task, Error> {
        let unsupported = || Error::Unsupported("the server does not resume tasks".to_owned());
        if matches!(self.lifecycle, Lifecycle::Handshake(_)) {
            return Err(unsupported());
        }
        let meta = key.map_or(Value::Null, |key| json!({"dev.longhaul/idempotencyKey": key}));
        let mut params = json!({"taskId": id});
        if let Some(from) = from {
            params["from"] = from.into();
        }
        let params = connect::with_meta(params, meta, &self.identity);
        let sent = self.send_with(RESUME, &params, |client| client.headers(RESUME, Some(id)));
        match in_time(async { self.read(sent.await?).await }).await {
            Err(Error::Refused(Refusal { code: METHOD_NOT_FOUND, .. })) => Err(unsupported()),
            resumed => {
                Task::read(&resumed?).ok_or_else(|| Error::Unexpected(format!("`{RESUME}` is answered without a task")))
            }
        }
    }

    /// Keeps the session when this client ends: a task may be shown to it only.
    pub(crate) fn keep_session(&self) {
        match &self.lifecycle {
            Lifecycle::Handshake(session) => session.keep(),
            Lifecycle::PerRequest => {}
        }
    }

    /// Has [`close`](Self::close) end the session too if another client has begun it, or a task was shown to it.
    pub fn release(&self) {
        if let Lifecycle::Handshake(session) = &self.lifecycle {
            session.release();
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
        in_time(async { self.read(self.send(method, params, name).await?).await }).await
    }

    /// The result in an answer. Nothing that the server asks meanwhile is answered, but that this client is there.
    async fn read(&self, mut answer: Reply) -> Result<Value, Error> {
        while let Some(message) = answer.next().await? {
            match message {
                Message::End(end) => return end.map_err(Error::Refused),
                Message::Request { id, method, .. } if method == PING => self.pong(&id).await?,
                Message::Request { .. } | Message::Notification { .. } => {}
            }
        }
        Err(Error::Lost("the stream ended without it".to_owned()))
    }

    async fn send(&self, method: &'static str, params: Value, name: Option<&str>) -> Result<Reply, Error> {
        let params = match &self.lifecycle {
            Lifecycle::PerRequest => {
                let owner = self.owner.as_ref().map_or(Value::Null, |owner| json!({"dev.longhaul/owner": owner}));
                connect::with_meta(params, owner, &self.identity)
            }
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
        let (other, _info) = Session::begin(&self.wire, &self.identity).await?;
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
