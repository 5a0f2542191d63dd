//! Calls by clients that know no tasks, of tools that may become tasks: each is a task, whose end is waited for during
//! a limited time. After that the caller gets a job id.
//!
//! What the tool asks reaches the client as in a plain call: since `2026-07-28` the call ends with the questions, and
//! its retry brings the answers; before, the client is asked while the call is open.

use std::collections::BTreeMap;

use longhaul_core::{TaskId, TaskKey};
use longhaul_engine::PollError;
use rmcp::model::{CallToolRequestParams, CallToolResponse};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::Durable;
use super::plain::Verified;
use super::waiting::{View, Waiting};
use crate::policy::TaskPolicy;
use crate::shared::caller::Caller;
use crate::shared::errors;
use crate::views::job as wire;
use crate::views::job_tools::JobTool;

impl<H: ServerHandler> Durable<H> {
    /// The job tool of this name, unless the handler has a tool with the same name.
    pub(super) fn job_tool(&self, name: &str) -> Option<JobTool> {
        let tool = JobTool::named(name)?;
        if self.inner.get_tool(name).is_some() || self.shared.policies.is_empty() { None } else { Some(tool) }
    }

    pub(super) async fn call_as_job(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
        caller: &Caller,
        verified: Verified,
        policy: &TaskPolicy,
    ) -> Result<CallToolResponse, ErrorData> {
        let Verified { answers, state, binding, job, .. } = verified;
        let longest_ms = self.shared.settings.inline_wait_ms;
        let shared = &*self.shared;
        let waiting =
            |wait_ms| Waiting { shared, context: &context, caller, binding: &binding, view: View::Result, wait_ms };
        match job {
            Some(job) => {
                let key = self.answer_job(TaskKey::new(caller.owner, job), &request).await?;
                waiting(longest_ms).follow(key).await
            }
            None => {
                let heard = self.begin(request, &context, caller, (answers, state), policy).await?;
                let wait_ms = if heard.task.awaited_start().is_some() { 0 } else { longest_ms };
                waiting(wait_ms).follow_heard(heard).await
            }
        }
    }

    /// `get_job_status` and `cancel_job`.
    pub(super) async fn manage_job(
        &self,
        tool: JobTool,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
        caller: &Caller,
        verified: &Verified,
    ) -> Result<CallToolResponse, ErrorData> {
        let argument = |name: &str| request.arguments.as_ref().and_then(|arguments| arguments.get(name));
        let Some(job_id) = argument("job_id").and_then(|id| id.as_str()) else {
            return Err(ErrorData::invalid_params("`job_id` is missing or not a string", None));
        };
        let Ok(id) = job_id.parse::<TaskId>() else { return Ok(wire::not_found(job_id).into()) };
        let key = TaskKey::new(caller.owner, id);
        let longest_ms = self.shared.settings.inline_wait_ms;
        let wait_ms = match tool {
            JobTool::Status => {
                self.shared.polls.admit(&key).await?;
                wait_ms(argument("wait_s"), longest_ms)
            }
            JobTool::Cancel => {
                match self.shared.engine.cancel(&key).await {
                    Ok(_) => {}
                    Err(PollError::NotFound) => return Ok(wire::not_found(job_id).into()),
                    Err(error @ PollError::Unavailable(_)) => return Err(errors::of_poll(error)),
                }
                0
            }
        };
        if verified.job == Some(id) {
            self.answer_job(key, &request).await?;
        }
        let (shared, context, binding) = (&*self.shared, &context, &verified.binding);
        Waiting { shared, context, caller, binding, view: View::Status, wait_ms }.follow(key).await
    }

    /// Takes the answers that a later round of the call brings.
    pub(super) async fn answer_job(&self, key: TaskKey, request: &CallToolRequestParams) -> Result<TaskKey, ErrorData> {
        let given = request.input_responses.iter().flatten();
        let answers: BTreeMap<_, _> = given.map(|(key, answer)| (key.clone(), answer.to_string())).collect();
        self.shared.engine.answer(&key, &answers).await.map_err(errors::of_answer)?;
        Ok(key)
    }
}

fn wait_ms(requested_s: Option<&serde_json::Value>, longest_ms: u64) -> u64 {
    let requested = requested_s.and_then(serde_json::Value::as_f64).filter(|seconds| *seconds >= 0.0);
    let requested = requested.and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
    requested.map_or(longest_ms, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).min(longest_ms))
}
