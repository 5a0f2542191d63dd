//! One poll of work that a server does on its own: a connection and a quick request, of which nothing is held
//! afterwards.

use std::time::Duration;

use crate::jobs::JobProgress;
use longhaul::{Every, TaskContext};
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, JsonObject};
use serde_json::Value;

use crate::limits;
use crate::upstream::client::Client;
use crate::upstream::{RequestError, Upstream, failed};

/// The pauses between two polls: the interval that the server or the configuration gives, within limits, otherwise
/// growing ones.
pub(crate) fn pauses(said: Option<Duration>) -> Every {
    match said {
        Some(said) => Every::fixed(said.clamp(limits::POLL_EVERY_LEAST, limits::POLL_EVERY_MOST)),
        None => Every::growing(limits::POLL_FIRST, limits::POLL_LONGEST),
    }
}

/// Calls a tool that is quick and asks nothing, on a connection of its own.
pub(crate) async fn call_once(
    upstream: &Upstream,
    task: String,
    tool: &str,
    arguments: JsonObject,
) -> Result<CallToolResult, RequestError> {
    let client = Client::unheard(upstream.name(), Some(task), &ClientCapabilities::default());
    let connection = upstream.connect_once(client).await?;
    let mut params = CallToolRequestParams::new(tool.to_owned());
    params.arguments = Some(arguments);
    match connection.request(async |peer| peer.call_tool_once(params).await).await? {
        CallToolResponse::Complete(result) => Ok(result),
        _ => Err(RequestError::Refused(failed(&format!("`{tool}` of `{}` did not answer at once", upstream.name())))),
    }
}

/// Reports the words of a server, if there are any, as the progress of the gateway's task.
pub(crate) async fn report(task: &TaskContext, words: Option<&str>) {
    let Some(JobProgress { done, total, message }) = words.map(progress) else { return };
    note(task, done, total, message).await;
}

/// The words of a server as progress. Numbers in them are not read.
pub(crate) fn progress(words: &str) -> JobProgress {
    JobProgress { done: 0.0, total: None, message: words.to_owned() }
}

/// Reports how far the work is, in numbers and words.
pub(crate) async fn note(task: &TaskContext, done: f64, total: Option<f64>, words: impl Into<String>) {
    let report = task.progress(done).message(words);
    match total {
        Some(total) => report.of(total).await,
        None => report.await,
    }
}

/// A state or message as a text.
pub(crate) fn in_words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_about_pauses_is_kept_within_limits() {
        assert_eq!(pauses(Some(Duration::ZERO)), Every::fixed(limits::POLL_EVERY_LEAST));
        assert_eq!(pauses(Some(Duration::from_secs(2))), Every::fixed(Duration::from_secs(2)));
        assert_eq!(pauses(Some(Duration::MAX)), Every::fixed(limits::POLL_EVERY_MOST));
    }
}
