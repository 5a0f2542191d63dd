//! A session of revision `2025-11-25` over Streamable HTTP, for the tasks of that revision, which `rmcp` does not know.
//! It has an id, by which it goes on over other connections, and from other processes.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Response, StatusCode};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, Implementation, InputRequest, InputResponses,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sse_stream::SseStream;

use super::http::{Endpoint, Reached};
use super::tasks::{Seen, Started, cancelled, tool_result};
use crate::call::failed;
use crate::limits;
use crate::polls::RequestError;

/// What identifies a session; nothing if the server keeps none.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct SessionId(Option<String>);

impl SessionId {
    /// The session, wherever it was begun.
    pub(crate) fn resume<'e>(&self, server: Reached<'e>) -> Session<'e> {
        let Reached { endpoint, client: http } = server;
        Session { http, endpoint, id: self.clone(), is_gone: AtomicBool::new(false) }
    }
}

/// A session, which is not ended when this is dropped.
pub(crate) struct Session<'e> {
    http: reqwest::Client,
    endpoint: &'e Endpoint,
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

impl<'e> Session<'e> {
    /// A new session, and what the server says about itself.
    pub(crate) async fn begin(
        server: Reached<'e>,
        declared: &ClientCapabilities,
    ) -> Result<(Self, Value), RequestError> {
        let mut session = SessionId(None).resume(server);
        let client = Implementation::new("longhaul-gateway", env!("CARGO_PKG_VERSION"));
        let params = json!({"protocolVersion": REVISION, "capabilities": declared, "clientInfo": client});
        let response = session.post(&request("initialize", &params)).await?;
        let id = response.headers().get("mcp-session-id").and_then(|id| id.to_str().ok());
        session.id = SessionId(id.map(str::to_owned));
        let info = match in_time(read(response)).await? {
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
        Ok(Began::Task(Started { task_id: task_id.to_owned(), every_ms, session: Some(self.id.clone()) }))
    }

    /// Whether the server has said that it does not know the session any more: a new one is needed.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }

    /// Polls at a task.
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
            let id: Value = serde_json::from_str(id).unwrap_or_default();
            match self.post(&json!({"jsonrpc": "2.0", "id": id, "result": answer})).await {
                Err(_) if self.is_gone() => return Ok(()),
                posted => posted?,
            };
        }
        Ok(())
    }

    /// Cancels a task.
    pub(crate) async fn cancel(&self, task_id: &str) -> Result<(), RequestError> {
        self.result("tasks/cancel", &json!({"taskId": task_id})).await.map(|_task| ())
    }

    /// Ends the session. A server that does not hear of it ends it later.
    pub(crate) async fn end(self) {
        if self.id.0.is_some() {
            let request = self.with_headers(self.http.delete(self.endpoint.url.as_str()));
            drop(tokio::time::timeout(limits::ANSWER_MAX, request.send()).await);
        }
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
        let response = self.post(&request(method, params)).await?;
        in_time(read(response)).await
    }

    async fn post(&self, message: &Value) -> Result<Response, RequestError> {
        let request = self.http.post(self.endpoint.url.as_str()).body(message.to_string());
        let request =
            request.header(CONTENT_TYPE, "application/json").header(ACCEPT, "application/json, text/event-stream");
        let sent = self.with_headers(request).send();
        let response = in_time(async { sent.await.map_err(|error| lost(&error.without_url())) }).await?;
        match response.status() {
            status if status.is_success() => Ok(response),
            StatusCode::NOT_FOUND if self.id.0.is_some() => {
                self.is_gone.store(true, Ordering::Relaxed);
                Err(RequestError::Lost("it does not know the session any more".to_owned()))
            }
            // A refusal may say why.
            StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND if is_json(&response) => Ok(response),
            status => Err(RequestError::Lost(format!("it answers with the status {status}"))),
        }
    }

    fn with_headers(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        let headers = self.endpoint.headers.iter();
        let request = headers.fold(request, |request, (name, value)| request.header(name, value));
        let request = request.header("mcp-protocol-version", REVISION);
        self.id.0.iter().fold(request, |request, id| request.header("mcp-session-id", id))
    }
}

/// The text that a pointer finds.
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

fn lost(error: &(dyn std::error::Error + 'static)) -> RequestError {
    RequestError::Lost(format!("the connection was lost: {}", longhaul_client::with_causes(error)))
}

fn is_json(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/json"))
}

/// The answer, or the first question before it.
async fn read(response: Response) -> Result<Answer, RequestError> {
    let is_json = is_json(&response);
    let mut left = limits::LINE_BYTES_MAX;
    let mut bytes = response.bytes_stream().map(move |chunk| {
        let chunk = chunk.map_err(|error| std::io::Error::other(error.without_url()))?;
        left = left.checked_sub(chunk.len()).ok_or_else(|| std::io::Error::other("the answer is too long"))?;
        Ok::<_, std::io::Error>(chunk)
    });
    if is_json {
        let mut body = Vec::new();
        while let Some(chunk) = bytes.next().await {
            body.extend_from_slice(&chunk.map_err(|error| lost(&error))?);
        }
        let message = serde_json::from_slice(&body).map_err(|error| RequestError::Lost(format!("no JSON: {error}")))?;
        return understood(message)
            .unwrap_or_else(|| Err(RequestError::Lost("it did not answer the request".to_owned())));
    }
    let mut events = SseStream::from_bytes_stream(bytes);
    while let Some(event) = events.next().await {
        let event = event.map_err(|error| lost(&error))?;
        let message = event.data.and_then(|data| serde_json::from_str(&data).ok());
        if let Some(answer) = message.and_then(understood) {
            return answer;
        }
    }
    Err(RequestError::Lost("its stream ended without an answer".to_owned()))
}

/// What a message says, if it is an answer or a question.
fn understood(mut message: Value) -> Option<Result<Answer, RequestError>> {
    if let Some(error) = message.get_mut("error") {
        let error = serde_json::from_value::<ErrorData>(error.take());
        return Some(Err(error.map_or_else(|error| RequestError::Lost(error.to_string()), RequestError::Refused)));
    }
    if let Some(result) = message.get_mut("result") {
        return Some(Ok(Answer::Result(result.take())));
    }
    let id = message.get("id")?.clone();
    serde_json::from_value(message).ok().map(|request| Ok(Answer::Asks(id, Box::new(request))))
}
