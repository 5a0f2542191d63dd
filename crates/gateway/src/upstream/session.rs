//! A session of revision `2025-11-25` over Streamable HTTP, for the tasks of that revision, which `rmcp` does not know.
//! It has an id, by which it goes on over other connections, and from other processes.

use std::sync::atomic::{AtomicBool, Ordering};

use longhaul_client::{Error, Message, Raw, Refusal, Reply};
use longhaul_core::strict_json;
use reqwest::header::{HeaderMap, HeaderValue};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ErrorCode, Implementation, InputRequest, InputResponses,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::tasks::{Seen, Started, cancelled, tool_result};
use super::{RequestError, failed};
use crate::limits;

/// What identifies a session; nothing if the server keeps none.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct SessionId(Option<String>);

impl SessionId {
    /// The session, wherever it was begun.
    pub(crate) fn resume<'s>(&self, server: &'s Raw) -> Session<'s> {
        Session { server, id: self.clone(), is_gone: AtomicBool::new(false) }
    }
}

/// A session, which is not ended when this is dropped.
pub(crate) struct Session<'s> {
    server: &'s Raw,
    id: SessionId,
    /// Whether the server has said that it does not know the session.
    is_gone: AtomicBool,
}

/// What a call became.
pub(crate) enum Began {
    Task(Started),
    /// The server answered at once.
    Result(Box<CallToolResult>),
}

/// What a server sends to a request.
enum Answer {
    Result(Value),
    /// It asks before it answers.
    Asks(Value, Box<InputRequest>),
}

const REVISION: &str = "2025-11-25";

impl<'s> Session<'s> {
    /// A new session, and what the server says about itself.
    pub(crate) async fn begin(server: &'s Raw, declared: &ClientCapabilities) -> Result<(Self, Value), RequestError> {
        let mut session = SessionId(None).resume(server);
        let client = Implementation::new("longhaul-gateway", env!("CARGO_PKG_VERSION"));
        let params = json!({"protocolVersion": REVISION, "capabilities": declared, "clientInfo": client});
        let reply = session.post(&request("initialize", &params)).await?;
        let id = reply.session.as_ref().and_then(|id| id.to_str().ok());
        session.id = SessionId(id.map(str::to_owned));
        let info = match in_time(read(reply)).await? {
            Answer::Result(info) => info,
            Answer::Asks(..) => {
                return Err(RequestError::Lost("it asks before it has answered `initialize`".to_owned()));
            }
        };
        session.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await?;
        Ok((session, info))
    }

    /// Calls a tool as a task that is kept for so many milliseconds.
    pub(crate) async fn start_task(
        &self,
        server: &str,
        params: &CallToolRequestParams,
        ttl_ms: Option<u64>,
    ) -> Result<Began, RequestError> {
        let task = ttl_ms.map_or_else(|| json!({}), |ttl| json!({"ttl": ttl}));
        let params = json!({"name": params.name, "arguments": params.arguments, "task": task});
        let result = self.result("tools/call", &params).await?;
        let Some(task_id) = text(&result, "/task/taskId") else {
            return tool_result(server, result).map(Box::new).map(Began::Result).map_err(RequestError::Refused);
        };
        let every_ms = result.pointer("/task/pollInterval").and_then(Value::as_u64);
        Ok(Began::Task(Started::in_session(task_id.to_owned(), every_ms, self.id.clone())))
    }

    pub(crate) const fn id(&self) -> &SessionId {
        &self.id
    }

    /// Whether the server has said that it does not know the session any more: a new one is needed.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }

    /// The state of a task.
    pub(crate) async fn see(&self, server: &str, task_id: &str) -> Result<Seen, RequestError> {
        let params = json!({"taskId": task_id});
        let task = self.result("tasks/get", &params).await?;
        let message = text(&task, "/statusMessage").map(str::to_owned);
        match text(&task, "/status") {
            Some("completed" | "failed") => match self.ask("tasks/result", &params).await {
                Ok(Answer::Result(result)) => Ok(Seen::Ended(tool_result(server, result).map(Box::new))),
                Ok(Answer::Asks(..)) => Ok(Seen::Working { message }),
                Err(RequestError::Refused(error)) => Ok(Seen::Ended(Err(error))),
                Err(lost) => Err(lost),
            },
            Some("cancelled") => Ok(Seen::Ended(Err(cancelled(server, message)))),
            Some("input_required") => Ok(self.question(&params).await?.unwrap_or(Seen::Working { message })),
            _ => Ok(Seen::Working { message }),
        }
    }

    /// The question of a task that waits for an answer, if it comes soon: it is sent to whoever waits for the result.
    async fn question(&self, params: &Value) -> Result<Option<Seen>, RequestError> {
        match tokio::time::timeout(limits::QUESTION_MAX, self.ask("tasks/result", params)).await {
            Ok(Ok(Answer::Asks(id, request))) => Ok(Some(Seen::Asks([(id.to_string(), *request)].into()))),
            Err(_) | Ok(Ok(Answer::Result(_)) | Err(RequestError::Refused(_))) => Ok(None),
            Ok(Err(lost)) => Err(lost),
        }
    }

    /// Answers questions. A server that does not know the session any more asks again.
    pub(crate) async fn respond(&self, answers: &InputResponses) -> Result<(), RequestError> {
        for (id, answer) in answers {
            let id: Value = strict_json::from_str(id).unwrap_or_default();
            match self.post(&json!({"jsonrpc": "2.0", "id": id, "result": answer})).await {
                Err(_) if self.is_gone() => return Ok(()),
                posted => posted?,
            };
        }
        Ok(())
    }

    pub(crate) async fn cancel(&self, task_id: &str) -> Result<(), RequestError> {
        self.result("tasks/cancel", &json!({"taskId": task_id})).await.map(|_task| ())
    }

    /// Ends the session. A server that does not hear of it ends it later.
    pub(crate) async fn end(self) {
        self.server.end_session(self.headers()).await;
    }

    /// A request whose answer is a result.
    pub(crate) async fn result(&self, method: &str, params: &Value) -> Result<Value, RequestError> {
        match self.ask(method, params).await? {
            Answer::Result(result) => Ok(result),
            Answer::Asks(..) => {
                Err(RequestError::Refused(failed("the server asks before it makes a task of the call")))
            }
        }
    }

    async fn ask(&self, method: &str, params: &Value) -> Result<Answer, RequestError> {
        let reply = self.post(&request(method, params)).await?;
        in_time(read(reply)).await
    }

    async fn post(&self, message: &Value) -> Result<Reply, RequestError> {
        let sent =
            async { self.server.post(message.to_string(), self.headers()).await.map_err(|error| self.lost(error)) };
        in_time(sent).await
    }

    fn lost(&self, error: Error) -> RequestError {
        if matches!(error, Error::SessionGone) {
            self.is_gone.store(true, Ordering::Relaxed);
        }
        RequestError::Lost(error.to_string())
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("mcp-protocol-version", HeaderValue::from_static(REVISION));
        if let Some(id) = self.id.0.as_ref().and_then(|id| HeaderValue::from_str(id).ok()) {
            headers.insert("mcp-session-id", id);
        }
        headers
    }
}

pub(super) fn text<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer).and_then(Value::as_str)
}

async fn in_time<T>(answer: impl Future<Output = Result<T, RequestError>>) -> Result<T, RequestError> {
    let late = |_late| RequestError::Lost(format!("no answer within {} seconds", limits::ANSWER_MAX.as_secs()));
    tokio::time::timeout(limits::ANSWER_MAX, answer).await.map_err(late)?
}

fn request(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// The answer, or the first question before it.
async fn read(mut reply: Reply) -> Result<Answer, RequestError> {
    while let Some(message) = reply.next().await.map_err(|error| RequestError::Lost(error.to_string()))? {
        match message {
            Message::End(Ok(result)) => return Ok(Answer::Result(result)),
            Message::End(Err(Refusal { code, message, data })) => {
                let code = i32::try_from(code).map_or(ErrorCode::INTERNAL_ERROR, ErrorCode);
                return Err(RequestError::Refused(ErrorData::new(code, message, data)));
            }
            Message::Request { id, method, params } => {
                if let Ok(request) = strict_json::from_value(json!({"method": method, "params": params})) {
                    return Ok(Answer::Asks(id, Box::new(request)));
                }
            }
            Message::Notification { .. } => {}
        }
    }
    Err(RequestError::Lost("it did not answer the request".to_owned()))
}
