//! One call of a tool, and what its server says and asks before it answers.

use std::time::Duration;

use reqwest::header::HeaderMap;
use serde_json::{Map, Value, json};

use crate::answer::Message;
use crate::client::{Client, PING};
use crate::connect::{self, Lifecycle};
use crate::error::Error;
use crate::request_id::request_id;
use crate::resume::Tries;
use crate::task::{Progress, Question, Task, questions};
use crate::tool::{TaskSupport, Tool, ToolHeaders};

/// How often a server may ask before it answers a call.
const ROUNDS_MAX: usize = 50;

/// How long a server that was not there, or had too much to do, may stay so.
const AWAY_MAX: Duration = Duration::from_secs(30);

const METHOD: &str = "tools/call";

/// A call of a tool.
#[derive(Clone, Debug)]
pub struct Call {
    /// The tool's name.
    pub tool: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// The key by which the server recognises the call, if it is sent again. A call with one is sent again if its
    /// answer was lost.
    pub key: Option<String>,
    /// The server's description of the tool, if it is known.
    pub listed: Option<Tool>,
    /// When it is to start, if that is not now.
    pub not_before: Option<jiff::Timestamp>,
    /// How long its task is to be kept, in milliseconds, by a server of revision `2025-11-25`.
    pub ttl_ms: Option<u64>,
    /// More members of its `_meta`.
    pub meta: Map<String, Value>,
}

impl Call {
    /// A call without a key, of a tool that nothing else is known of.
    #[must_use]
    pub fn new(tool: &str, arguments: Map<String, Value>) -> Self {
        let meta = Map::new();
        Self { tool: tool.to_owned(), arguments, key: None, listed: None, not_before: None, ttl_ms: None, meta }
    }
}

/// The outcome of a call.
#[derive(Debug)]
pub enum Called {
    /// The result of the tool.
    Result(Value),
    /// A task.
    Task(Box<Task>),
    /// A question without an answer. The call was given up.
    Unanswered(Question),
}

/// Receives notifications about a call, and its questions, before it is answered.
pub trait Listener: Send {
    /// The tool has done so much.
    fn progress(&mut self, progress: Progress);

    /// The result that the question's method has; `None` if no user can be asked.
    fn ask(&mut self, question: &Question) -> impl Future<Output = Option<Value>> + Send;
}

/// A listener that ignores notifications and answers no question.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl Listener for Nobody {
    fn progress(&mut self, _progress: Progress) {}

    async fn ask(&mut self, _question: &Question) -> Option<Value> {
        None
    }
}

impl Client {
    /// Calls a tool, as a task if the server makes one of it.
    ///
    /// # Errors
    /// The server's answer, or why there is no answer. A call that has reached no server, or that the server had no
    /// time for, is sent again for up to 30 seconds. If its answer was lost, it is sent once more only with a key, or
    /// if the server says that the tool may be called twice. [`Error::Unsupported`] for a call that is to start later,
    /// if the server does not declare that it supports this: then nothing was sent.
    pub async fn call(&self, call: &Call, listener: &mut impl Listener) -> Result<Called, Error> {
        if call.not_before.is_some() && !self.starts_later() {
            return Err(Error::Unsupported("the server does not say that calls may start later".to_owned()));
        }
        let mut more = Map::new();
        for _ in 0..ROUNDS_MAX {
            let result = match self.patient_round(call, &more, listener).await? {
                Round::Result(result) => result,
                Round::Unanswered(question) => return Ok(Called::Unanswered(question)),
            };
            let task = match &self.lifecycle {
                Lifecycle::PerRequest => (result["resultType"] == "task").then_some(&result),
                Lifecycle::Handshake(_) => result.get("task"),
            };
            if let Some(task) = task {
                self.keep_session();
                let task = Task::read(task).map(Box::new).map(Called::Task);
                return task.ok_or_else(|| Error::Unexpected("its task has no id or status".to_owned()));
            }
            if result["resultType"] != "input_required" {
                return Ok(Called::Result(result));
            }
            more = match answers(&result, listener).await {
                Ok(answers) => Map::from_iter([("inputResponses".to_owned(), answers.into())]),
                Err(question) => return Ok(Called::Unanswered(question)),
            };
            more.extend(result.get("requestState").map(|state| ("requestState".to_owned(), state.clone())));
        }
        Err(Error::Unexpected(format!("it asked {ROUNDS_MAX} times and did not answer the call")))
    }

    /// One request, up to its result. It is sent again where that is safe.
    async fn patient_round(
        &self,
        call: &Call,
        more: &Map<String, Value>,
        listener: &mut impl Listener,
    ) -> Result<Round, Error> {
        let may_be_repeated = call.key.is_some() || call.listed.as_ref().is_some_and(Tool::may_be_repeated);
        let (mut tries, mut is_lost) = (Tries::new(AWAY_MAX), false);
        loop {
            let error = match self.round(call, more, listener).await {
                Err(error) => error,
                round => return round,
            };
            let is_safe = match &error {
                error if error.has_done_nothing() => true,
                error => error.may_pass() && may_be_repeated && !std::mem::replace(&mut is_lost, true),
            };
            if !is_safe {
                return Err(error);
            }
            tries.pause(error).await?;
        }
    }

    /// One request, up to its result.
    async fn round(
        &self,
        call: &Call,
        more: &Map<String, Value>,
        listener: &mut impl Listener,
    ) -> Result<Round, Error> {
        let params = self.params_of(call, more)?;
        let mut answer = self.send_with(METHOD, &params, |client| client.headers_of(call)).await?;
        let mut unanswered = None;
        while let Some(message) = answer.next().await? {
            match message {
                Message::End(end) => return end.map(Round::Result).map_err(Error::Refused),
                Message::Notification { method, params } if method == "notifications/progress" => {
                    Progress::of_params(&params).into_iter().for_each(|progress| listener.progress(progress));
                }
                Message::Notification { .. } => {}
                Message::Request { id, method, params } => {
                    let question = Question { key: id.to_string(), method, params };
                    unanswered = self.serve(question, listener).await?;
                }
            }
            if let Some(question) = unanswered {
                return Ok(Round::Unanswered(question));
            }
        }
        Err(Error::Lost("the stream ended without it".to_owned()))
    }

    /// Answers a request that a server of an older revision sends before it answers; the request, if that was not
    /// possible.
    async fn serve(&self, question: Question, listener: &mut impl Listener) -> Result<Option<Question>, Error> {
        let answer = match question.method.as_str() {
            PING => json!({"result": {}}),
            "elicitation/create" => match listener.ask(&question).await {
                Some(answer) => json!({"result": answer}),
                None => return Ok(Some(question)),
            },
            _ => json!({"error": {"code": -32601, "message": "this client does not know the method"}}),
        };
        // The call is under way: that this did not arrive does not mean that nothing was sent.
        self.respond(&question.key, answer).await.map_err(|error| match error {
            error if error.may_pass() => Error::Lost(format!("its question could not be answered: {error}")),
            error => error,
        })?;
        Ok(None)
    }

    fn params_of(&self, call: &Call, more: &Map<String, Value>) -> Result<Value, Error> {
        let mut params = more.clone();
        params.insert("name".to_owned(), call.tool.clone().into());
        params.insert("arguments".to_owned(), call.arguments.clone().into());
        let mut meta = Value::Object(call.meta.clone());
        meta["progressToken"] = request_id()?.into();
        if let Some(key) = &call.key {
            meta["dev.longhaul/idempotencyKey"] = key.clone().into();
        }
        if let Some(start) = call.not_before {
            meta["dev.longhaul/notBefore"] = start.to_string().into();
        }
        if matches!(self.lifecycle, Lifecycle::PerRequest) {
            return Ok(connect::with_meta(params.into(), meta, &self.identity));
        }
        let support = call.listed.as_ref().map_or(TaskSupport::Forbidden, Tool::task_support);
        if self.makes_tasks() && support != TaskSupport::Forbidden {
            let ttl = call.ttl_ms.map(|ttl| ("ttl".to_owned(), ttl.into()));
            params.insert("task".to_owned(), Map::from_iter(ttl).into());
        }
        params.insert("_meta".to_owned(), meta);
        Ok(params.into())
    }

    fn headers_of(&self, call: &Call) -> HeaderMap {
        let mut headers = self.headers(METHOD, Some(&call.tool));
        if let (Lifecycle::PerRequest, Some(tool)) = (&self.lifecycle, &call.listed) {
            let wanted = tool.schema().as_object().map(ToolHeaders::of);
            headers.extend(wanted.iter().flat_map(|wanted| wanted.of_call(&call.arguments)));
        }
        headers
    }
}

async fn answers(result: &Value, listener: &mut impl Listener) -> Result<Map<String, Value>, Question> {
    let mut answers = Map::new();
    for question in questions(result.get("inputRequests")) {
        let Some(answer) = listener.ask(&question).await else { return Err(question) };
        answers.insert(question.key, answer);
    }
    Ok(answers)
}

/// The outcome of a request.
enum Round {
    Result(Value),
    Unanswered(Question),
}
