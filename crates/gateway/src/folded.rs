//! A call of a folded tool: the job is started once, and polled until it has ended.

use std::sync::Arc;

use longhaul::TaskContext;
use longhaul_core::strict_json;
use rmcp::ErrorData;
use rmcp::model::{CallToolResponse, CallToolResult, JsonObject};
use serde_json::Value;

use crate::call::Call;
use crate::config::{Fold, Pointer};
use crate::polls::{self, in_words, recorded};
use crate::upstream::{RequestError, Upstream, failed};

/// The step that records the id of the job.
pub(crate) const JOB: &str = "job";

/// A call, as one attempt of its task sees it.
pub(crate) struct FoldedCall<'g> {
    upstream: &'g Upstream,
    fold: &'g Arc<Fold>,
    task: TaskContext,
}

/// How a poll ended the polling.
type End = Result<CallToolResult, ErrorData>;

impl<'g> FoldedCall<'g> {
    pub(crate) fn new(upstream: &'g Upstream, fold: &'g Arc<Fold>, start: &Call<'g>) -> Self {
        Self { upstream, fold, task: start.task().clone() }
    }

    /// Starts the job, unless that is on record, and waits for its end.
    pub(crate) async fn run(self, start: Call<'g>) -> Result<CallToolResponse, ErrorData> {
        let id = match recorded(&self.task, JOB).await {
            Some(id) => id,
            None => match start.run().await? {
                CallToolResponse::Complete(result) if result.is_error == Some(true) => return Ok(result.into()),
                CallToolResponse::Complete(result) => {
                    let id = self.id_in(&result)?;
                    self.task.step(JOB, async || id).await
                }
                // It asks before it starts.
                other => return Ok(other),
            },
        };
        let every = polls::pauses(self.fold.every);
        let polled: Result<Never, End> = self.task.poll_until("end", every, || self.poll(&id)).await;
        let Err(end) = polled;
        end.map(Into::into)
    }

    fn id_in(&self, result: &CallToolResult) -> Result<Value, ErrorData> {
        let id = find(result, &self.fold.id).filter(|id| id.is_string() || id.is_number());
        id.ok_or_else(|| {
            let (tool, pointer) = (&self.fold.start, self.fold.id.as_str());
            failed(&format!("the job was started, but the answer of `{tool}` has no id at {pointer}"))
        })
    }

    /// Polls once. An end is returned as the error, so that it is not recorded twice: it is the result of the task.
    async fn poll(&self, id: &Value) -> Result<Option<Never>, End> {
        match polls::unless_lost(self.upstream, self.see(id).await).map_err(Err)?.flatten() {
            None => Ok(None),
            Some(result) => Err(Ok(result)),
        }
    }

    /// The result, if the job has ended.
    async fn see(&self, id: &Value) -> Result<Option<CallToolResult>, RequestError> {
        let mut status = self.call(&self.fold.status, id).await?;
        let Some(state) = find(&status, &self.fold.state) else {
            if status.is_error == Some(true) {
                return Ok(Some(status));
            }
            let (tool, pointer) = (&self.fold.status, self.fold.state.as_str());
            return Err(RequestError::Refused(failed(&format!("the answer of `{tool}` has no state at {pointer}"))));
        };
        let state = in_words(&state);
        if self.fold.failed.contains(&state) {
            status.is_error = Some(true);
            return Ok(Some(status));
        }
        if !self.fold.done.contains(&state) {
            self.report(&status).await;
            return Ok(None);
        }
        match &self.fold.result {
            Some(tool) => self.call(tool, id).await.map(Some),
            None => Ok(Some(status)),
        }
    }

    async fn call(&self, tool: &str, id: &Value) -> Result<CallToolResult, RequestError> {
        polls::call_once(self.upstream, self.task.idempotency_key(), tool, arguments(self.fold, id)).await
    }

    async fn report(&self, status: &CallToolResult) {
        let pointers = &self.fold.progress;
        let find = |pointer: &Option<Pointer>| pointer.as_ref().and_then(|pointer| find(status, pointer));
        let number = |pointer| find(pointer).and_then(|value| value.as_f64());
        let message = find(&pointers.message).map(|message| in_words(&message));
        match number(&pointers.done) {
            Some(done) => polls::note(&self.task, done, number(&pointers.total), message.unwrap_or_default()).await,
            None => polls::report(&self.task, message.as_deref()).await,
        }
    }
}

/// What is never found: the polls of a job end with an error, which is its result.
#[derive(serde::Deserialize, serde::Serialize)]
pub(crate) enum Never {}

/// The arguments of the tools that take the id of a job.
pub(crate) fn arguments(fold: &Fold, id: &Value) -> JsonObject {
    [(fold.id_argument.clone(), id.clone())].into_iter().collect()
}

/// What a pointer finds in the structured content, otherwise in the first text that is JSON.
fn find(result: &CallToolResult, pointer: &Pointer) -> Option<Value> {
    let structured = result.structured_content.as_ref().and_then(|content| pointer.find(content));
    structured.cloned().or_else(|| {
        let texts = result.content.iter().filter_map(|content| content.as_text());
        let mut parsed = texts.filter_map(|text| strict_json::from_str::<Value>(&text.text).ok());
        parsed.find_map(|value| pointer.find(&value).cloned())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pointer(text: &str) -> Pointer {
        let fold = json!({"name": "x", "start": "a", "status": "b", "id": text, "state": "/s", "done": ["d"]});
        let config = json!({
            "mcpServers": {"s": {"command": "x"}},
            "longhaul": {"servers": {"s": {"fold": [fold]}}}
        });
        let config = crate::Config::from_json(&config.to_string(), &longhaul::settings::ProcessEnv).unwrap();
        config.servers[0].folds[0].id.clone()
    }

    fn result(value: Value) -> CallToolResult {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_pointer_leads_into_structured_content_or_into_a_text_that_is_json() {
        let id = pointer("/job/id");
        let texts = json!([{"type": "text", "text": "started"}, {"type": "text", "text": "{\"job\": {\"id\": 7}}"}]);
        assert_eq!(find(&result(json!({"content": texts})), &id), Some(json!(7)));
        let both = result(json!({"content": texts, "structuredContent": {"job": {"id": "a"}}}));
        assert_eq!(find(&both, &id), Some(json!("a")));
        assert_eq!(find(&result(json!({"content": [{"type": "text", "text": "7"}]})), &id), None);
    }
}
