//! The tool runner: calls the author's handler on the worker's side, for one attempt of a task.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::{Ask, ResultKind, WEBHOOK_DELIVERY_TOOL, strict_json};
use longhaul_engine::{Attempt, AttemptEnd, Cleaned, Driven, Ended, Round, ToolRunner};
use pump::Pump;
use rmcp::model::{
    CallToolResponse, CallToolResult, ClientCapabilities, InitializeRequestParams, InputRequiredResult, InputResponses,
    NumberOrString, ProgressToken, ProtocolVersion,
};
use rmcp::service::{RequestContext, RunningService, serve_directly};
use rmcp::{ErrorData, RoleServer, ServerHandler};

use crate::backend::Backend;
use crate::context::{Run, Tools};
use crate::policy::Cleaners;
use crate::reply::{self, errors};
use crate::state::Shared;
use crate::tool_calls::accept::StoredCall;
use crate::tool_calls::asking;
use crate::tools::handler::{Panicked, UnusedService, Wire, catch};
use crate::views::verbatim;
use crate::{TaskContext, tools};

mod pump;

pub(crate) struct Runner<H> {
    make_handler: Arc<dyn Fn() -> H + Send + Sync>,
    /// The tools that have policies. When the server started, the handler had them.
    tools: BTreeSet<String>,
    cleaners: Cleaners,
    backend: Arc<dyn Backend>,
    shared: Arc<Shared>,
}

/// How a call of the handler ended, or that it is waiting.
type Called = Driven<Result<Result<CallToolResponse, ErrorData>, Panicked>>;

impl<H: ServerHandler> Runner<H> {
    pub(crate) const fn new(
        make_handler: Arc<dyn Fn() -> H + Send + Sync>,
        tools: BTreeSet<String>,
        cleaners: Cleaners,
        backend: Arc<dyn Backend>,
        shared: Arc<Shared>,
    ) -> Self {
        Self { make_handler, tools, cleaners, backend, shared }
    }

    /// Whether the handler does not have the tool of a task: another server has accepted it, with other tools or
    /// another version of this one. A handler that names no tools has every one, but not that of webhook deliveries.
    async fn lacks(&self, tool: &str) -> bool {
        if tool == WEBHOOK_DELIVERY_TOOL {
            return true;
        }
        if self.tools.contains(tool) {
            return false;
        }
        let make_handler = Arc::clone(&self.make_handler);
        let (tools, tool) = (self.tools.clone(), tool.to_owned());
        let lacks = async move {
            let handler = make_handler();
            if handler.get_tool(&tool).is_some() {
                return false;
            }
            if tools.iter().any(|tool| handler.get_tool(tool).is_some()) {
                return true;
            }
            let listed = tools::list(&handler).await.unwrap_or_default();
            !listed.is_empty() && !listed.contains_key(&tool)
        };
        // A handler that panics here does so again when it is called, which is reported then.
        catch(lacks).await.unwrap_or(false)
    }

    /// Calls the tool with what came with the call, or with the answers of the latest round.
    async fn call(&self, attempt: &Attempt, call: StoredCall, round: LastRound) -> AttemptEnd {
        let declared = call.meta.client_capabilities().unwrap_or_default();
        match self.drive(attempt, call, declared.clone(), round).await {
            Ok(called) => end(attempt, called, &declared).await,
            Err(reason) => AttemptEnd::Crashed { reason },
        }
    }

    /// Calls the tool, and returns how that ended, or what is known about a tool that died.
    async fn drive(
        &self,
        attempt: &Attempt,
        call: StoredCall,
        declared: ClientCapabilities,
        round: LastRound,
    ) -> Result<Called, String> {
        let (wire, pipes) = Wire::new();
        let service = serve_directly::<RoleServer, _, _, _, _>(UnusedService, wire, Some(client(declared.clone())));
        let tools = Tools { backend: Arc::clone(&self.backend), shared: Arc::clone(&self.shared) };
        let context = context(&service, attempt, &call, &declared, tools);
        let params = call.into_params(&attempt.task().tool, round);
        let make_handler = Arc::clone(&self.make_handler);
        let tool = {
            let attempt = attempt.clone();
            // The handler is made inside, so that a panic there is caught too.
            let call = async move { make_handler().call_tool(params, context).await };
            async move { attempt.drive(catch(call)).await }
        };
        Pump::new(attempt.clone(), declared, pipes, self.shared.logs.of(attempt.task().id)).run(tool).await
    }

    /// Replays the tool of a task that has ended, and runs the compensations that it registers.
    async fn undo(&self, ended: &Ended) -> Cleaned {
        let attempt = ended.replay();
        let call: StoredCall = match strict_json::from_str(ended.request()) {
            Ok(call) => call,
            Err(error) => return Cleaned::Failed { reason: format!("the stored call cannot be read: {error}") },
        };
        let declared = call.meta.client_capabilities().unwrap_or_default();
        let round = match attempt.drive(attempt.last_round()).await {
            Driven::Ended(None) => None,
            Driven::Ended(Some((carry, answers))) => match read_round(&carry, answers) {
                Ok(round) => Some(round),
                Err(error) => return Cleaned::Failed { reason: format!("the answers cannot be read: {error}") },
            },
            Driven::Suspended(suspended) => return attempt.undo(Driven::Suspended(suspended)).await,
        };
        match Box::pin(self.drive(&attempt, call, declared, round)).await {
            Ok(Driven::Suspended(suspended)) => attempt.undo(Driven::Suspended(suspended)).await,
            Ok(Driven::Ended(ended)) => attempt.undo(Driven::Ended(has_succeeded(&ended))).await,
            // It died where it died before. Nothing of it is left.
            Err(_died) => attempt.undo(Driven::Ended(false)).await,
        }
    }
}

/// The state that the tool wanted back from its latest round of questions, and the answers.
type LastRound = Option<(Option<String>, InputResponses)>;

#[async_trait]
impl<H: ServerHandler> ToolRunner for Runner<H> {
    async fn run(&self, attempt: Attempt) -> AttemptEnd {
        if self.lacks(&attempt.task().tool).await {
            return AttemptEnd::NoSuchTool;
        }
        let Some(_held) = self.shared.memory.for_attempt(attempt.request()) else { return AttemptEnd::NoMemory };
        if let Some(policy) = self.shared.policies.get(&attempt.task().tool) {
            attempt.end_within_ms(policy.attempt_ms());
        }
        let call: StoredCall = match strict_json::from_str(attempt.request()) {
            Ok(call) => call,
            Err(error) => return failed(&errors::internal("the stored call cannot be read", &error)),
        };
        let round = match attempt.drive(attempt.last_round()).await {
            Driven::Ended(None) => None,
            Driven::Ended(Some((carry, answers))) => match read_round(&carry, answers) {
                Ok(round) => Some(round),
                Err(error) => return failed(&errors::internal("the answers to a round cannot be read", &error)),
            },
            Driven::Suspended(suspended) => return AttemptEnd::Suspended(suspended),
        };
        self.call(&attempt, call, round).await
    }

    /// The compensations come first: they are closer to the work than what the server has for all tasks of the tool.
    async fn clean(&self, ended: &Ended) -> Cleaned {
        let task = ended.task();
        let cleaner = self.cleaners.of(&task.tool);
        let compensates = self.shared.policies.compensates(&task.tool);
        if cleaner.is_none() && !compensates || compensates && self.lacks(&task.tool).await {
            return Cleaned::NoSuchTool;
        }
        let Some(_held) = self.shared.memory.for_attempt(ended.request()) else { return Cleaned::NoMemory };
        // The author's code is called inside, so that a panic there is caught too.
        let cleaned = catch(Box::pin(async {
            // A tool that never ran has registered nothing.
            let undone = if compensates && task.attempt > 0 { Box::pin(self.undo(ended)).await } else { Cleaned::Done };
            match (undone, cleaner) {
                (undone @ (Cleaned::Done | Cleaned::GivenUp { .. }), Some(cleaner)) => {
                    match cleaner(ended.clone()).await {
                        Ok(()) => undone,
                        Err(reason) => Cleaned::Unfinished { reason },
                    }
                }
                (undone, _) => undone,
            }
        }));
        cleaned.await.unwrap_or_else(|Panicked(words)| Cleaned::Failed { reason: format!("it panicked: {words}") })
    }
}

fn read_round(
    carry: &str,
    answers: std::collections::BTreeMap<String, String>,
) -> Result<(Option<String>, InputResponses), serde_json::Error> {
    let state = strict_json::from_str(carry)?;
    let answers = answers.into_iter().map(|(key, answer)| Ok((key, strict_json::from_str(&answer)?)));
    Ok((state, answers.collect::<Result<_, serde_json::Error>>()?))
}

/// The client as the handler sees it. Its version is the last one in which a tool could send requests to its client:
/// those become questions of the task.
fn client(capabilities: ClientCapabilities) -> InitializeRequestParams {
    let mut client = InitializeRequestParams::default();
    client.protocol_version = ProtocolVersion::V_2025_11_25;
    client.capabilities = capabilities;
    client
}

fn context(
    service: &RunningService<RoleServer, UnusedService>,
    attempt: &Attempt,
    call: &StoredCall,
    declared: &ClientCapabilities,
    tools: Tools,
) -> RequestContext<RoleServer> {
    let id = NumberOrString::String(attempt.task().id.to_string().into());
    let mut context = RequestContext::new(id.clone(), service.peer().clone());
    context.ct = attempt.cancelled().clone();
    context.meta = call.meta_for(ProgressToken(id), attempt.trace());
    call.caller.clone().into_iter().for_each(|caller| drop(context.extensions.insert(caller)));
    let (given, caller) = (call.given.clone(), call.caller.clone());
    context.extensions.insert(TaskContext::new(attempt.clone(), Run::Task(tools), declared.clone(), given, caller));
    context
}

async fn end(attempt: &Attempt, called: Called, declared: &ClientCapabilities) -> AttemptEnd {
    match called {
        Driven::Suspended(suspended) => AttemptEnd::Suspended(suspended),
        Driven::Ended(Err(Panicked(words))) => {
            // The panic's message is for the tool's author; clients are shown the reason.
            tracing::error!(panic = words, task_id = %attempt.task().id, "the tool panicked");
            AttemptEnd::Crashed { reason: "the tool panicked".to_owned() }
        }
        Driven::Ended(Ok(Err(error))) => failed(&error),
        Driven::Ended(Ok(Ok(CallToolResponse::Complete(result)))) => completed(result),
        Driven::Ended(Ok(Ok(CallToolResponse::InputRequired(asked)))) => match round(asked, declared) {
            Ok(round) => attempt.ask_round(round).await,
            Err(error) => failed(&error),
        },
        // A task, or anything that a later version of `rmcp` may add.
        Driven::Ended(Ok(Ok(_))) => failed(&errors::made_a_task()),
    }
}

fn has_succeeded(ended: &Result<Result<CallToolResponse, ErrorData>, Panicked>) -> bool {
    matches!(ended, Ok(Ok(CallToolResponse::Complete(result))) if result.is_error != Some(true))
}

fn completed(mut result: CallToolResult) -> AttemptEnd {
    let kind = if result.is_error == Some(true) { ResultKind::ToolError } else { ResultKind::Success };
    let written = match verbatim::take(&mut result) {
        Some(text) => verbatim::stored(&text),
        None => serde_json::to_string(&result),
    };
    match written {
        Ok(result) => AttemptEnd::Completed { result, kind },
        Err(error) => failed(&errors::internal("the tool's result is not JSON", &error)),
    }
}

fn failed(error: &ErrorData) -> AttemptEnd {
    AttemptEnd::Failed { message: error.message.to_string(), detail: reply::error_object_text(error) }
}

fn round(asked: InputRequiredResult, declared: &ClientCapabilities) -> Result<Round, ErrorData> {
    let unwritten = |error| errors::internal("a question could not be written", &error);
    let mut asks = Vec::new();
    for (key, request) in asked.input_requests.unwrap_or_default() {
        asking::check_declared(declared, &request)?;
        asks.push(Ask { key, request: asking::written(&request)? });
    }
    let carry = serde_json::to_string(&asked.request_state).map_err(unwritten)?;
    Ok(Round { asks, carry })
}
