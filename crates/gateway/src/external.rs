//! The work of a server that needs no connection: tasks of its own, and jobs that its tools start, show and stop. The
//! driver of `jobs` runs both.

use std::sync::Arc;
use std::time::Duration;

use crate::jobs::{
    Again, CleanUpError, Driver, ExternalJob, JobError, JobKey, JobProgress, JobRef, Poll, Start, Started, Steps,
};
use async_trait::async_trait;
use longhaul::{EndedTask, Every};
use longhaul_core::strict_json;
use rmcp::ErrorData;
use rmcp::model::{CallToolResponse, CallToolResult, InputResponses, JsonObject};
use serde_json::Value;

use crate::call::Call;
use crate::catalog::Repeatable;
use crate::config::{Fold, Pointer};
use crate::polls::{self, in_words};
use crate::upstream::task::{Delivery, Seen, Started as StartedTask};
use crate::upstream::{RequestError, Upstream, failed};
use crate::verbatim;

/// Makes a call, and waits for the end of the task that the server may make of it.
pub(crate) async fn call(call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
    run(&ServerTask { upstream: call.upstream(), call: Some(call), task: call.task().idempotency_key() }, call).await
}

/// Starts a job by a call, and waits for its end.
pub(crate) async fn combined(fold: &Arc<Fold>, call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
    let task = call.task().idempotency_key();
    run(&CombinedJob { upstream: call.upstream(), fold, call: Some(call), task }, call).await
}

async fn run(job: &dyn ExternalJob, call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
    // The call has its arguments itself.
    Box::pin(Driver::new(job).run(call.task(), &JobKey::of_call(call.task()), &Value::Null)).await
}

/// Cancels the task of the server, and stops the job, if one of them is recorded.
pub(crate) async fn clean_up(
    upstream: &Upstream,
    fold: Option<&Arc<Fold>>,
    ended: &EndedTask,
) -> Result<(), CleanUpError> {
    let task = ended.idempotency_key();
    Driver::new(&ServerTask { upstream, call: None, task: task.clone() }).clean_up(ended).await?;
    match fold {
        Some(fold) => Driver::new(&CombinedJob { upstream, fold, call: None, task }).clean_up(ended).await,
        None => Ok(()),
    }
}

/// The meaning of a request without a result for a poll.
fn unseen(error: RequestError) -> JobError {
    match error {
        RequestError::Lost(why) => JobError::Unanswered(why),
        RequestError::Refused(error) => JobError::Refused(error.message.into_owned()),
    }
}

/// A stop that is answered with an error counts as answered: most often there is nothing to stop any more.
fn stopped(answer: Result<(), RequestError>) -> Result<(), JobError> {
    match answer {
        Ok(()) | Err(RequestError::Refused(_)) => Ok(()),
        Err(RequestError::Lost(why)) => Err(JobError::Unanswered(why)),
    }
}

/// A task of a server. MCP requires that a server can show a task before it answers with it. So a task that is not
/// found is gone.
struct ServerTask<'c> {
    upstream: &'c Upstream,
    /// The call that starts it. `None` after the end of the gateway's task.
    call: Option<&'c Call<'c>>,
    /// The gateway's task.
    task: String,
}

fn started_task(job: &JobRef) -> Result<StartedTask, JobError> {
    let read = strict_json::from_value(job.value().clone());
    read.map_err(|error| JobError::Refused(format!("the recorded task of the server cannot be read: {error}")))
}

#[async_trait]
impl ExternalJob for ServerTask<'_> {
    async fn start(&self, start: &Start<'_>) -> Result<Started, JobError> {
        match self.call {
            Some(call) => call.send(start).await,
            None => Err(JobError::Refused("the task has ended".to_owned())),
        }
    }

    fn again(&self) -> Again {
        match self.call.map(Call::repeatable) {
            Some(Repeatable::Yes) => Again::SameJob,
            Some(Repeatable::No) | None => Again::AnotherJob,
        }
    }

    fn can_find(&self) -> bool {
        false
    }

    async fn poll(&self, job: &JobRef) -> Result<Poll, JobError> {
        let declared = self.call.map(Call::declared).cloned().unwrap_or_default();
        match self.upstream.see_task(&started_task(job)?, self.task.clone(), &declared).await.map_err(unseen)? {
            Seen::Working { message } => Ok(Poll::Going(message.as_deref().map(polls::progress))),
            Seen::Asks(asked) => Ok(Poll::Asks(asked)),
            Seen::Ended(end) => Ok(Poll::Done(end.map(|result| *result))),
        }
    }

    async fn answer(&self, job: &JobRef, answers: &InputResponses) -> Result<(), JobError> {
        let declared = self.call.map(Call::declared).cloned().unwrap_or_default();
        match self.upstream.answer_task(&started_task(job)?, &declared, answers).await.map_err(unseen)? {
            Delivery::Done => Ok(()),
            Delivery::Forgotten => Err(JobError::NotFound("the server has forgotten the session".to_owned())),
        }
    }

    async fn stop(&self, job: &JobRef, _why: &str) -> Result<(), JobError> {
        stopped(self.upstream.cancel_task(&started_task(job)?).await)
    }

    fn steps(&self) -> Steps {
        Steps { job: "task", poll: "asked" }
    }

    fn mark_of(&self, number: u32) -> String {
        let round = self.call.map_or(0, Call::round);
        if number == 0 { format!("send {round}") } else { format!("send {round}, try {number}") }
    }

    fn poll_every(&self, job: &JobRef) -> Every {
        polls::pauses(started_task(job).ok().and_then(|task| task.every_ms).map(Duration::from_millis))
    }

    fn may_have_started(&self, why: &str) -> String {
        format!("the call may have been carried out; it was not repeated: {why}")
    }
}

/// A job that one tool of a server starts, another one shows, and a third one stops.
struct CombinedJob<'c> {
    upstream: &'c Upstream,
    fold: &'c Arc<Fold>,
    /// The call that starts it. `None` after the end of the gateway's task.
    call: Option<&'c Call<'c>>,
    /// The gateway's task.
    task: String,
}

impl CombinedJob<'_> {
    fn id_in(&self, result: &CallToolResult) -> Result<JobRef, ErrorData> {
        let id = find(result, &self.fold.id).filter(|id| id.is_string() || id.is_number());
        id.map(JobRef::new).ok_or_else(|| {
            let (tool, pointer) = (&self.fold.start, self.fold.id.as_str());
            failed(&format!("the job was started, but the answer of `{tool}` has no id at {pointer}"))
        })
    }

    async fn ask(&self, tool: &str, job: &JobRef) -> Result<CallToolResult, RequestError> {
        let arguments = JsonObject::from_iter([(self.fold.id_argument.clone(), job.value().clone())]);
        polls::call_once(self.upstream, self.task.clone(), tool, arguments).await
    }

    /// The progress of the job, from the parts that the answer has.
    fn progress(&self, status: &CallToolResult) -> Option<JobProgress> {
        let pointers = &self.fold.progress;
        let find = |pointer: &Option<Pointer>| pointer.as_ref().and_then(|pointer| find(status, pointer));
        let number = |pointer| find(pointer).and_then(|value| value.as_f64());
        let message = find(&pointers.message).map(|message| in_words(&message));
        match number(&pointers.done) {
            Some(done) => {
                Some(JobProgress { done, total: number(&pointers.total), message: message.unwrap_or_default() })
            }
            None => message.as_deref().map(polls::progress),
        }
    }
}

#[async_trait]
impl ExternalJob for CombinedJob<'_> {
    /// The driver of the call marks it as sent.
    async fn start(&self, _start: &Start<'_>) -> Result<Started, JobError> {
        let Some(start) = self.call else { return Err(JobError::Refused("the task has ended".to_owned())) };
        let answer = match Box::pin(call(start)).await {
            Ok(answer) => answer,
            Err(error) => return Ok(Started::Ended(Err(error))),
        };
        Ok(match answer {
            CallToolResponse::Complete(result) if result.is_error != Some(true) => match self.id_in(&result) {
                Ok(job) => Started::Job(job),
                Err(error) => Started::Ended(Err(error)),
            },
            // It was not started, or it asks before.
            other => Started::Ended(Ok(other)),
        })
    }

    fn again(&self) -> Again {
        Again::SameJob
    }

    fn can_find(&self) -> bool {
        false
    }

    async fn poll(&self, job: &JobRef) -> Result<Poll, JobError> {
        let mut status = self.ask(&self.fold.status, job).await.map_err(unseen)?;
        let Some(state) = find(&status, &self.fold.state) else {
            if status.is_error == Some(true) {
                return Ok(Poll::Done(Ok(status)));
            }
            let (tool, pointer) = (&self.fold.status, self.fold.state.as_str());
            return Err(JobError::Refused(format!("the answer of `{tool}` has no state at {pointer}")));
        };
        let state = in_words(&state);
        if self.fold.failed.contains(&state) {
            verbatim::set_member(&mut status.meta, "isError", "true");
            status.is_error = Some(true);
            return Ok(Poll::Done(Ok(status)));
        }
        if !self.fold.done.contains(&state) {
            return Ok(Poll::Going(self.progress(&status)));
        }
        match &self.fold.result {
            Some(tool) => self.ask(tool, job).await.map(|result| Poll::Done(Ok(result))).map_err(unseen),
            None => Ok(Poll::Done(Ok(status))),
        }
    }

    async fn stop(&self, job: &JobRef, _why: &str) -> Result<(), JobError> {
        match &self.fold.stop {
            Some(tool) => stopped(self.ask(tool, job).await.map(drop)),
            None => Ok(()),
        }
    }

    fn steps(&self) -> Steps {
        Steps { job: "job", poll: "end" }
    }

    fn poll_every(&self, _job: &JobRef) -> Every {
        polls::pauses(self.fold.every)
    }
}

/// The value that a pointer finds in the structured content, otherwise in the first text that is JSON.
fn find(result: &CallToolResult, pointer: &Pointer) -> Option<Value> {
    let read = verbatim::text(result.meta.as_ref()).and_then(|text| strict_json::from_str::<Value>(text).ok());
    let read = read.or_else(|| serde_json::to_value(result).ok())?;
    let structured = read.get("structuredContent").and_then(|content| pointer.find(content));
    structured.cloned().or_else(|| {
        let blocks = read.get("content").and_then(Value::as_array).into_iter().flatten();
        let texts = blocks.filter_map(|block| block.get("text")?.as_str());
        let mut parsed = texts.filter_map(|text| strict_json::from_str::<Value>(text).ok());
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
