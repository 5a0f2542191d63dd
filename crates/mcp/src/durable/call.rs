//! `tools/call`: whether it becomes a task, and accepting it as one.

use longhaul_core::Wish;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CreateTaskResult};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::plain::Opened;
use super::{Durable, Shared};
use crate::accept::NewTask;
use crate::caller::{self, Caller};
use crate::dialects::Generation;
use crate::dialects::job_tools::JobTool;
use crate::dialects::tasks_extension::wire;
use crate::policy::{Need, Start, TaskPolicy};
use crate::record::StoredCall;
use crate::{accept, errors};

/// What becomes of a call.
enum Plan<'a> {
    /// It is answered by the tool itself.
    Plain,
    /// It becomes a task, and its caller gets a handle.
    Task(&'a TaskPolicy),
    /// It becomes a task, and its caller waits.
    Job(&'a TaskPolicy),
    /// It is about another call that became a task.
    AboutJob(JobTool),
}

impl<H: ServerHandler> Durable<H> {
    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = Caller::of(&context)?;
        let plan = self.plan(&request, &caller)?;
        let opened = self.open_state(&request, &caller)?;
        match plan {
            Plan::Plain => self.call_plainly(request, context, &caller, opened).await,
            Plan::Task(policy) => self.accept(request, &context, &caller, opened, policy).await,
            Plan::Job(policy) => self.call_as_job(request, context, &caller, opened, policy).await,
            Plan::AboutJob(tool) => self.look_after_job(tool, request, context, &caller, &opened).await,
        }
    }

    /// Decides before anything is written, so that a refused call leaves nothing behind.
    fn plan(&self, request: &CallToolRequestParams, caller: &Caller) -> Result<Plan<'_>, ErrorData> {
        let Some(policy) = self.shared.policies.get(&*request.name) else {
            return Ok(self.job_tool(&request.name).map_or(Plan::Plain, Plan::AboutJob));
        };
        if policy.need() == Need::Required && !caller.knows_tasks() && caller.generation == Generation::PerRequest {
            return Err(errors::tasks_not_declared());
        }
        must_have(&self.inner, &self.shared, &request.name)?;
        match policy.start() {
            Start::AfterInput if request.input_responses.is_none() => Ok(Plan::Plain),
            Start::AtOnce | Start::AfterInput if caller.knows_tasks() => Ok(Plan::Task(policy)),
            Start::AtOnce | Start::AfterInput => Ok(Plan::Job(policy)),
        }
    }

    async fn accept(
        &self,
        mut request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        caller: &Caller,
        opened: Opened,
        policy: &TaskPolicy,
    ) -> Result<CallToolResponse, ErrorData> {
        let idempotency = caller::idempotency(&request, context);
        let tool = request.name.to_string();
        request.request_state = opened.state;
        let call = StoredCall::new(request, context.meta.clone(), opened.answers);
        let new = NewTask { owner: caller.owner, tool, call, policy, wish: Wish::default(), idempotency };
        let task = accept::accept(&self.shared, new).await?.into_task();
        let created = wire::created(&task, self.shared.engine.ports().clock.now());
        let created: CreateTaskResult =
            serde_json::from_str(&created).map_err(|error| errors::internal("the task could not be shown", &error))?;
        Ok(created.into())
    }
}

/// Refuses a tool that is not there. A handler that is written by hand may know its tools without being able to
/// name one, so a "no" counts only where it says "yes" to another tool.
pub(crate) fn must_have<H: ServerHandler>(handler: &H, shared: &Shared, tool: &str) -> Result<(), ErrorData> {
    let names_tools = || shared.policies.keys().any(|name| handler.get_tool(name).is_some());
    if handler.get_tool(tool).is_none() && names_tools() {
        return Err(ErrorData::invalid_params(format!("there is no tool `{tool}`"), None));
    }
    Ok(())
}

/// Whether `method` is one whose parameters `rmcp` reads itself.
pub(super) fn has_typed_params(method: &str) -> bool {
    const METHODS: [&str; 14] = [
        "completion/complete",
        "logging/setLevel",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "tasks/cancel",
        "tasks/get",
        "tasks/update",
        "tools/call",
        "tools/list",
    ];
    METHODS.contains(&method)
}
