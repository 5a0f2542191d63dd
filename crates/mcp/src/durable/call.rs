//! `tools/call`: whether it becomes a task, and accepting it as one.

use std::borrow::Cow;
use std::collections::BTreeMap;

use longhaul_core::{RequestedTerms, TaskKey, Timestamp};
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::Durable;
use super::plain::Verified;
use super::waiting::{Heard, View, Waiting};
use crate::backend::must_have;
use crate::policy::{Need, Start, TaskPolicy};
use crate::revision::{Generation, InputErrors};
use crate::shared::accept::NewTask;
use crate::shared::caller::{self, Caller};
use crate::shared::record::StoredCall;
use crate::shared::{accept, arguments, errors, start};
use crate::views::job_tools::JobTool;
use crate::views::task as view;

/// How a call is answered.
enum Plan<'a> {
    /// It is answered by the tool itself.
    Plain,
    /// It becomes a task, and its caller gets a handle, perhaps after a while.
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
        let plan = self.plan(&request, &caller, start::asked(&context.meta)?).await?;
        if let Err(faults) = arguments::check(&self.inner, &self.shared, &request.name, &mut request.arguments).await {
            return match caller.input_errors {
                InputErrors::Results => Ok(CallToolResult::error(vec![ContentBlock::text(faults)]).into()),
                InputErrors::Errors => Err(ErrorData::invalid_params(faults, None)),
            };
        }
        let verified = self.verify_state(&request, &caller)?;
        match plan {
            Plan::Plain => self.call_plainly(request, context, &caller, verified).await,
            Plan::Task(policy) => self.call_as_task(request, context, &caller, verified, &policy).await,
            Plan::Job(policy) => self.call_as_job(request, context, &caller, verified, &policy).await,
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
                return Err(start::never_a_task(&request.name));
            }
            return Ok(self.job_tool(&request.name).map_or(Plan::Plain, Plan::AboutJob));
        };
        if policy.need() == Need::Required && !caller.knows_tasks() && caller.generation == Generation::PerRequest {
            return Err(errors::tasks_not_declared());
        }
        must_have(&self.inner, &self.shared, &request.name).await?;
        match policy.start() {
            // A tool that asks first must not run now either: it asks when its task has started.
            Start::AfterInput if request.input_responses.is_none() && not_before.is_none() => Ok(Plan::Plain),
            Start::AtOnce | Start::AfterInput if caller.knows_tasks() => Ok(Plan::Task(policy)),
            Start::AtOnce | Start::AfterInput => Ok(Plan::Job(policy)),
        }
    }

    /// Answers with the result if it is there soon enough for the policy, and with the task's handle otherwise.
    async fn call_as_task(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
        caller: &Caller,
        verified: Verified,
        policy: &TaskPolicy,
    ) -> Result<CallToolResponse, ErrorData> {
        let Verified { answers, state, binding, job, .. } = verified;
        let (handle_after_ms, questions_within_ms) = (policy.handle_after_ms(), policy.questions_within_ms());
        let shared = &*self.shared;
        let (heard, wait_ms) = match job {
            Some(task) => {
                let key = self.answer_job(TaskKey::new(caller.owner, task), &request).await?;
                let mut listener = shared.engine.listener();
                let task = listener.poll(&key).await.map_err(errors::of_poll)?;
                (Heard { task, listener }, handle_after_ms)
            }
            None => {
                let heard = self.begin(request, &context, caller, (answers, state), policy).await?;
                (heard, handle_after_ms.max(questions_within_ms))
            }
        };
        let (task, wait_ms) = (&heard.task, wait_ms.min(shared.settings.inline_wait_ms));
        if wait_ms == 0 || task.awaited_start().is_some() {
            return Ok(view::created(task, shared.engine.ports().clock.now()).into());
        }
        let view = if questions_within_ms == 0 { View::ResultOrHandle } else { View::ResultOrQuestionsOrHandle };
        let (context, binding) = (&context, &binding);
        Waiting { shared, context, caller, binding, view, wait_ms }.follow_heard(heard).await
    }

    /// Makes the task of a call, and listens to it.
    pub(super) async fn begin(
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
        let call = StoredCall::new(request, meta, answers);
        let new = NewTask {
            caller: &caller.principal,
            tool,
            call,
            policy,
            requested: RequestedTerms::default(),
            idempotency,
        };
        let mut listener = self.shared.engine.listener();
        let task = listener.accept(accept::call(&self.shared, new)?).await.map_err(errors::of_accept)?;
        Ok(Heard { task, listener })
    }
}
