//! Requests and answers of revision `2026-07-28` with the Tasks extension, as a client sends and reads them.

use anyhow::{Context, bail};
use bytes::Bytes;
use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue};
use http_body_util::Full;
use serde::Deserialize;

/// A request that can be sent.
pub(crate) type Call = Request<Full<Bytes>>;

/// The capabilities in every request of a client without tasks.
const PLAIN_META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

/// The description of the client in every request.
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#;

/// A task as an answer shows it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskView<'a> {
    /// Its id.
    pub(crate) task_id: &'a str,
    /// Its status.
    pub(crate) status: &'a str,
    /// When it last changed.
    #[serde(default)]
    pub(crate) last_updated_at: &'a str,
}

impl TaskView<'_> {
    /// Whether the task is completed.
    pub(crate) fn is_completed(&self) -> anyhow::Result<bool> {
        match self.status {
            "completed" => Ok(true),
            "working" => Ok(false),
            other => bail!("task {} is {other}", self.task_id),
        }
    }
}

/// `tools/call` of a tool that becomes a task; `arguments` is JSON text.
pub(crate) fn call(tool: &str, arguments: &str) -> anyhow::Result<Call> {
    call_with(tool, arguments, META)
}

/// `tools/call` by a client that knows no tasks, and is answered with the result.
pub(crate) fn plain_call(tool: &str, arguments: &str) -> anyhow::Result<Call> {
    call_with(tool, arguments, PLAIN_META)
}

fn call_with(tool: &str, arguments: &str, meta: &str) -> anyhow::Result<Call> {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments},{meta}}}}}"#
    );
    request("tools/call", tool, body)
}

/// `tasks/get`.
pub(crate) fn poll(task_id: &str) -> anyhow::Result<Call> {
    about(task_id, "tasks/get")
}

/// `tasks/cancel`.
pub(crate) fn cancel(task_id: &str) -> anyhow::Result<Call> {
    about(task_id, "tasks/cancel")
}

/// `dev.longhaul/tasks/list`, the first page.
pub(crate) fn list() -> anyhow::Result<Call> {
    let method = "dev.longhaul/tasks/list";
    request(method, "", format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{META}}}}}"#))
}

/// Whether an answer is a page with tasks in it.
pub(crate) fn is_page(answer: &[u8]) -> bool {
    let page: Result<serde_json::Value, _> = serde_json::from_slice(answer);
    let tasks = |page: serde_json::Value| page.pointer("/result/tasks")?.as_array().map(|tasks| !tasks.is_empty());
    page.ok().and_then(tasks).unwrap_or(false)
}

/// `GET /readyz`.
pub(crate) fn ready() -> anyhow::Result<Call> {
    Ok(Request::get("/readyz").header(HOST, "localhost").body(Full::default())?)
}

/// The console's page with the newest tasks.
pub(crate) fn console() -> anyhow::Result<Call> {
    Ok(Request::get("/console").header(HOST, "localhost").body(Full::default())?)
}

/// The beginning of an answer, for an error.
pub(crate) fn beginning(answer: &[u8]) -> String {
    String::from_utf8_lossy(answer.get(..answer.len().min(500)).unwrap_or(answer)).into_owned()
}

/// The task in an answer.
pub(crate) fn task_in(answer: &[u8]) -> anyhow::Result<TaskView<'_>> {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        #[serde(borrow)]
        result: Option<TaskView<'a>>,
    }
    let shown = || beginning(answer);
    let envelope: Envelope<'_> =
        serde_json::from_slice(answer).with_context(|| format!("the answer is not a task: {}", shown()))?;
    envelope.result.with_context(|| format!("the answer is an error: {}", shown()))
}

fn about(task_id: &str, method: &str) -> anyhow::Result<Call> {
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"taskId":"{task_id}",{META}}}}}"#);
    request(method, task_id, body)
}

fn request(method: &str, name: &str, body: String) -> anyhow::Result<Call> {
    let request = Request::post("/mcp")
        .header(HOST, HeaderValue::from_static("localhost"))
        .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
        .header(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"))
        .header("mcp-protocol-version", HeaderValue::from_static("2026-07-28"))
        .header("mcp-method", method);
    // A list is about nothing in particular.
    let request = if name.is_empty() { request } else { request.header("mcp-name", name) };
    Ok(request.body(Full::from(body))?)
}
