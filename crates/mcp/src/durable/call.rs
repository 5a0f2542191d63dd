//! `tools/call`: whether it becomes a task, and accepting it as one.
//!
//! Calls by clients that know no tasks, of tools that may become tasks, are tasks whose end is waited for during a
//! limited time. After that the caller gets a job id. Questions of the tool reach the client as in a plain call. Since
//! `2026-07-28` the call ends with the questions, and its retry brings the answers. In older revisions the client is
//! asked while the call is open.

use std::borrow::Cow;
use std::collections::BTreeMap;

use longhaul_core::{RequestedTerms, TaskId, TaskKey, Terms, Timestamp};
use longhaul_engine::PollError;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::Durable;
use super::plain::Verified;
use super::waiting::{Heard, View, Waiting};
use crate::policy::{Need, Start, TaskPolicy};
use crate::reply::errors;
use crate::revision::{Generation, InputErrors};
use crate::tool_calls::accept::{self, StoredCall};
use crate::tool_calls::caller::{self, Caller};
use crate::views::job::JobTool;
use crate::views::{job as wire, task as view};

enum Plan<'a> {
    Plain,
    /// It becomes a task, and its caller gets the task's id, perhaps after a while.
    Task(Cow<'a, TaskPolicy>),
    /// It becomes a task, and its caller waits.
    Job(Cow<'a, TaskPolicy>),
    /// It is about another call that became a task.
    AboutJob(JobTool),
}

impl<H: ServerHandler> Durable<H> {
    pub(super) async fn call(
        &self,
        mut request: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(ending) = caller::ending(&context) {
            context.ct = ending.left;
        }
        let caller = Caller::of(&context)?;
        let plan = self.plan(&request, &caller, accept::later_start(&context.meta)?).await?;
        if let Err(faults) = self
            .shared
            .tools
            .check_arguments(&self.inner, &self.shared.policies, &request.name, &mut request.arguments)
            .await
        {
            return match caller.input_errors {
                InputErrors::Results => Ok(CallToolResult::error(vec![ContentBlock::text(faults)]).into()),
                InputErrors::Errors => Err(ErrorData::invalid_params(faults, None)),
            };
        }
        let verified = self.verify_state(&request, &caller)?;
        match plan {
            Plan::Plain => self.call_plainly(request, context, &caller, verified).await,
            Plan::Task(policy) => {
                let asks = policy.questions_within_ms() > 0;
                let view = if asks { View::ResultOrQuestionsOrHandle } else { View::ResultOrHandle };
                self.call_as_task(request, &context, &caller, verified, (&policy, view)).await
            }
            Plan::Job(policy) => self.call_as_task(request, &context, &caller, verified, (&policy, View::Result)).await,
            Plan::AboutJob(tool) => self.manage_job(tool, request, context, &caller, &verified).await,
        }
    }

    /// Decides before anything is written, so that a refused call leaves nothing behind.
    async fn plan(
        &self,
        request: &CallToolRequestParams,
        caller: &Caller,
        not_before: Option<Timestamp>,
    ) -> Result<Plan<'_>, ErrorData> {
        let Some(policy) = self.shared.policies.get(&request.name) else {
            if not_before.is_some() {
                return Err(accept::never_a_task(&request.name));
            }
            return Ok(self.job_tool(&request.name).map_or(Plan::Plain, Plan::AboutJob));
        };
        if policy.need == Need::Required && !caller.knows_tasks() && caller.generation == Generation::PerRequest {
            return Err(errors::tasks_not_declared());
        }
        self.shared.tools.must_have(&self.inner, &self.shared.policies, &request.name).await?;
        match policy.start {
            // A tool that asks first must not run now either: it asks when its task has started.
            Start::AfterInput if request.input_responses.is_none() && not_before.is_none() => Ok(Plan::Plain),
            Start::AtOnce | Start::AfterInput if caller.knows_tasks() && policy.may_be_seen_as_task() => {
                Ok(Plan::Task(policy))
            }
            Start::AtOnce | Start::AfterInput => Ok(Plan::Job(policy)),
        }
    }

    /// Makes the call a task, or takes the answers that a later round of it brings. Answers with the result if it is
    /// there soon enough, and otherwise with the form that `view` names.
    async fn call_as_task(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        caller: &Caller,
        verified: Verified,
        (policy, view): (&TaskPolicy, View),
    ) -> Result<CallToolResponse, ErrorData> {
        let Verified { answers, state, binding, job, .. } = verified;
        let shared = &*self.shared;
        let longest_ms = shared.settings.inline_wait_ms;
        let (first_ms, later_ms) = match view {
            View::Result | View::Status => (longest_ms, longest_ms),
            View::ResultOrHandle | View::ResultOrQuestionsOrHandle => {
                (policy.handle_after_ms().max(policy.questions_within_ms()), policy.handle_after_ms())
            }
        };
        let (heard, wait_ms) = match job {
            Some(task) => {
                let key = self.answer_job(TaskKey::new(caller.owner, task), &request).await?;
                let mut listener = shared.engine.listener();
                let task = listener.poll(&key).await.map_err(errors::of_poll)?;
                (Heard { task, listener }, later_ms)
            }
            None => (self.begin(request, context, caller, (answers, state), policy).await?, first_ms),
        };
        let wait_ms = if heard.task.awaited_start().is_some() { 0 } else { wait_ms.min(longest_ms) };
        if wait_ms == 0 && view != View::Result {
            return Ok(view::created(&heard.task, shared.engine.ports().clock.now()).into());
        }
        let binding = &binding;
        Waiting { shared, context, caller, binding, view, wait_ms }.follow_heard(heard).await
    }

    /// Makes the task of a call, and listens to it.
    async fn begin(
        &self,
        mut request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        caller: &Caller,
        (answers, state): (BTreeMap<String, serde_json::Value>, Option<String>),
        policy: &TaskPolicy,
    ) -> Result<Heard, ErrorData> {
        let idempotency = caller.scope.bind(caller::idempotency(&request, context)?)?;
        let tool = request.name.to_string();
        request.request_state = state;
        let mut meta = context.meta.clone();
        meta.set_client_capabilities(caller.capabilities.clone());
        let text = caller::arguments_text(context);
        let call = StoredCall::of_round(request, meta, answers, text).with_meta_text(caller::meta_text(context));
        let terms = Terms::negotiate(&policy.terms, RequestedTerms::default());
        let call = accept::call(&self.shared, &caller.principal, (tool, call), terms, idempotency)?;
        let mut listener = self.shared.engine.listener();
        let task = listener.accept(call).await.map_err(errors::of_accept)?;
        Ok(Heard { task, listener })
    }

    /// The job tool of this name, unless the handler has a tool with the same name.
    pub(super) fn job_tool(&self, name: &str) -> Option<JobTool> {
        let tool = JobTool::named(name)?;
        if self.inner.get_tool(name).is_some() || self.shared.policies.is_empty() { None } else { Some(tool) }
    }

    /// `get_job_status` and `cancel_job`.
    async fn manage_job(
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
    async fn answer_job(&self, key: TaskKey, request: &CallToolRequestParams) -> Result<TaskKey, ErrorData> {
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
