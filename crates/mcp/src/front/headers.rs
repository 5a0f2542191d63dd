//! Headers that clients in the field leave out, put in before `rmcp` looks for them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, HeaderMap, HeaderValue};

use crate::message::TaskParams;

pub(crate) const NAME: &str = "mcp-name";

/// A client has to say that it takes JSON and event streams. One that says neither, or "anything", is taken to mean
/// both: it asked for an answer, and there are only these two kinds.
pub(crate) fn widen_accept(headers: &mut HeaderMap) {
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
}

/// `Mcp-Name` is the task's id, for routers in between. A client that leaves it out means no other task; one that names
/// another task is refused, later.
pub(crate) fn insert_name(headers: &mut HeaderMap, params: Option<TaskParams<'_>>) {
    let Some(TaskParams { task_id }) = params else { return };
    if headers.contains_key(NAME) {
        return;
    }
    let encoded = || format!("=?base64?{}?=", STANDARD.encode(task_id.as_bytes()));
    let plain =
        Some(task_id.as_ref()).filter(|id| id.bytes().all(|byte| byte.is_ascii_graphic()) && !id.starts_with("=?"));
    let value = plain.map_or_else(encoded, str::to_owned);
    // Printable ASCII in both cases, so that there is nothing that a header could refuse.
    if let Ok(value) = HeaderValue::from_str(&value) {
        headers.insert(NAME, value);
    }
}
