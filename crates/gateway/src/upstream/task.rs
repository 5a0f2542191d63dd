//! A task that a server offers itself: its id, and the results of polling it.

use longhaul_core::strict_json;
use longhaul_core::verbatim::KEY;
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, CreateTaskResult, InputRequests, TaskPayload};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::failed;
use super::results;

/// Which task of the server a call became.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Started {
    pub(crate) task_id: String,
    /// The poll interval that the server suggests, in milliseconds.
    pub(crate) every_ms: Option<u64>,
    /// For a task of revision `2025-11-25`, the session in which it was started; `None` for one of the Tasks extension.
    pub(crate) session: Option<SessionId>,
}

impl Started {
    pub(crate) fn extension(created: CreateTaskResult) -> Self {
        Self { task_id: created.task.task_id, every_ms: created.task.poll_interval_ms, session: None }
    }
}

/// The result of delivering answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The server has them.
    Done,
    /// The server has forgotten the session in which it asked: it asks again in another one.
    Forgotten,
}

/// The result of a poll of a server's task.
pub(crate) enum Seen {
    Working {
        message: Option<String>,
    },
    /// It waits for answers.
    Asks(InputRequests),
    Ended(Result<Box<CallToolResult>, ErrorData>),
}

/// The ID of a session; `None` if the server keeps no sessions. Records store an empty string for `None`. A task
/// without any session is one of the Tasks extension.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(from = "String", into = "String")]
pub(crate) struct SessionId(pub(super) Option<String>);

impl From<String> for SessionId {
    fn from(id: String) -> Self {
        Self(Some(id).filter(|id| !id.is_empty()))
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.0.unwrap_or_default()
    }
}

/// Reads the state of a task of the extension.
pub(crate) fn seen(server: &str, payload: TaskPayload, message: Option<String>) -> Seen {
    match payload {
        TaskPayload::InputRequired { input_requests } => Seen::Asks(input_requests),
        TaskPayload::Completed { result } => {
            let text = result.get(KEY).and_then(Value::as_str).map(str::to_owned);
            let text = text.unwrap_or_else(|| Value::Object(result).to_string());
            Seen::Ended(tool_result(server, &text).map(Box::new))
        }
        TaskPayload::Failed { error } => {
            let text = error.get(KEY).and_then(Value::as_str).map(str::to_owned);
            Seen::Ended(Err(task_error(server, text.as_deref())))
        }
        TaskPayload::Cancelled => Seen::Ended(Err(cancelled(server, message))),
        // Working, or anything that a later version of `rmcp` may add.
        _ => Seen::Working { message },
    }
}

pub(crate) fn tool_result(server: &str, text: &str) -> Result<CallToolResult, ErrorData> {
    results::of_a_tool(text).map_err(|why| {
        failed(&format!("a task of `{server}` ended with something that is not the result of a tool: {why}"))
    })
}

/// The error that a task ended with.
pub(crate) fn task_error(server: &str, text: Option<&str>) -> ErrorData {
    match text.map(strict_json::from_str) {
        Some(Ok(error)) => results::error_data(error, text),
        _ => failed(&format!("a task of `{server}` failed without a reason")),
    }
}

pub(crate) fn cancelled(server: &str, message: Option<String>) -> ErrorData {
    let why = message.map(|message| format!(": {message}")).unwrap_or_default();
    failed(&format!("`{server}` cancelled its task{why}"))
}
