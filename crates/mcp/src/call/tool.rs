//! `tools/call`: whether the call becomes a task, or is about one, or is left to the handler.
//!
//! Calls by clients that know no tasks, of tools that may become tasks, are tasks whose end is waited for during a
//! limited time. After that the caller gets a job id. Questions of the tool reach the client as in a plain call. Since
//! `2026-07-28` the call ends with the questions, and its retry brings the answers. In older revisions the client is
//! asked while the call is open.

use std::borrow::Cow;
use std::collections::BTreeMap;

use longhaul_core::{RequestedTerms, TaskId, TaskKey, strict_json};
use longhaul_engine::PollError;
use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock, ErrorCode, InputResponses};
use serde_json::Value;
use serde_json::value::RawValue;

use super::answered::written;
use super::arguments;
use super::waiting::{View, Waiting};
use crate::policy::{Need, Start, TaskPolicy};
use crate::protocol_version::Endpoint;
use crate::reply::errors;
use crate::request::incoming::Incoming;
use crate::revision::{Generation, InputErrors};
use crate::signing::derived;
use crate::signing::signer::{Binding, Rounds};
use crate::state::Shared;
use crate::tool_calls::accept::{self, Arguments, Brought};
use crate::tool_calls::caller;
use crate::tool_calls::cancelling::Leaving;
use crate::views::job::{self, JobTool};
use crate::views::task as view;

/// The next step of a call.
pub(super) enum Next<'a> {
    /// The handler answers it. Its arguments have this text, if that is known.
    Handler(Box<CallToolRequestParams>, Option<&'a RawValue>),
    /// It has this result.
    Result(String),
    Waits(Box<Waiting>),
}

pub(super) async fn next<'a>(call: &Incoming<'a>, endpoint: &Endpoint) -> Result<Next<'a>, ErrorData> {
    let missing = || ErrorData::invalid_params("the params of tools/call are malformed: missing field `name`", None);
    let tool = call.members.text("name").ok_or_else(missing)?;
    let plan = plan(call, endpoint, &tool).await?;
    let arguments = arguments::read(call, endpoint, &tool)?;
    let arguments = match arguments::checked(endpoint, &tool, arguments).await {
        Ok(arguments) => arguments,
        Err(refused) => {
            return match InputErrors::of_version(Some(call.client.revision())) {
                // A model can correct its arguments. It cannot correct a schema.
                InputErrors::Results if refused.code == ErrorCode::INVALID_PARAMS => {
                    let refused = CallToolResult::error(vec![ContentBlock::text(refused.message)]);
                    written(call.client.revision(), refused.into()).map(Next::Result)
                }
                InputErrors::Results | InputErrors::Errors => Err(refused),
            };
        }
    };
    if let Some((policy, view)) = plan {
        return as_task(call, endpoint, (&tool, &policy, view), arguments).await;
    }
    let has_jobs = !endpoint.shared().policies.is_empty();
    if let Some(job_tool) = JobTool::named(&tool).filter(|_| has_jobs && !endpoint.backend().has_tool(&tool)) {
        return manage_job(call, endpoint, (&tool, job_tool), &arguments).await;
    }
    let mut params = CallToolRequestParams::new(tool);
    params.arguments = arguments.read;
    (params.input_responses, params.request_state) = (answers(call), call.members.text("requestState"));
    Ok(Next::Handler(Box::new(params), arguments.given))
}

/// The policy of a call that becomes a task, and the view that its caller gets. This is decided before anything is
/// written, so that a refused call leaves nothing behind.
async fn plan<'a>(
    call: &Incoming<'_>,
    endpoint: &'a Endpoint,
    tool: &str,
) -> Result<Option<(Cow<'a, TaskPolicy>, View)>, ErrorData> {
    let Some(policy) = endpoint.shared().policies.get(tool) else { return Ok(None) };
    let is_per_request = call.client.generation() == Generation::PerRequest;
    // A handshake may declare the extension too, in a revision that has no task handles: that does not count.
    let knows_tasks = is_per_request && call.supports_tasks();
    if policy.need == Need::Required && !knows_tasks && is_per_request {
        return Err(errors::tasks_not_declared());
    }
    endpoint.backend().must_have(tool).await?;
    // A tool that asks first must not run now either: it asks when its task has started.
    if policy.start == Start::AfterInput
        && answers(call).is_none()
        && accept::later_start(&call.meta.whole())?.is_none()
    {
        return Ok(None);
    }
    let view = match policy.questions_within_ms() {
        _ if !knows_tasks || !policy.may_be_seen_as_task() => View::Result,
        0 => View::ResultOrHandle,
        _ => View::ResultOrQuestionsOrHandle,
    };
    Ok(Some((policy, view)))
}

/// The answers that a later round of the call brings.
fn answers(call: &Incoming<'_>) -> Option<InputResponses> {
    strict_json::from_str(call.members.get("inputResponses")?.get()).ok()
}

/// The binding of the state of a call.
fn binding(call: &Incoming<'_>, tool: &str, arguments: &Arguments<'_>) -> Binding {
    Binding::new(&call.owner, "tools/call", derived::digest_of_call(tool, arguments.read.as_ref()))
}

/// The state that the earlier rounds of a call left.
fn rounds(call: &Incoming<'_>, shared: &Shared, binding: &Binding) -> Result<Rounds, ErrorData> {
    let state = call.members.text("requestState");
    state.map_or_else(|| Ok(Rounds::default()), |state| shared.signer.verify_rounds(&state, binding))
}

/// Makes the call a task, or takes the answers that a later round of it brings. Answers with the result if it is there
/// soon enough, and otherwise with the form that `view` names.
async fn as_task<'a>(
    call: &Incoming<'_>,
    endpoint: &Endpoint,
    (tool, policy, view): (&str, &TaskPolicy, View),
    arguments: Arguments<'_>,
) -> Result<Next<'a>, ErrorData> {
    let shared = endpoint.shared();
    let ports = shared.engine.ports();
    let longest_ms = shared.settings.inline_wait_ms;
    let (first_ms, later_ms) = match view {
        View::Result | View::Status => (longest_ms, longest_ms),
        View::ResultOrHandle | View::ResultOrQuestionsOrHandle => {
            (policy.handle_after_ms().max(policy.questions_within_ms()), policy.handle_after_ms())
        }
    };
    let waits = view == View::Result || first_ms > 0;
    let is_later_round = call.members.get("requestState").is_some();
    let binding = (waits || is_later_round).then(|| binding(call, tool, &arguments));
    let rounds = binding.as_ref().map(|binding| rounds(call, shared, binding)).transpose()?;
    let Rounds { answers: mut given, state, job, .. } = rounds.unwrap_or_default();
    let answers = answers(call);
    let mut leaving = Leaving::default();
    let key = TaskKey::new(call.owner, job.unwrap_or_else(|| ports.ids.task_id(ports.clock.now())));
    // A caller with an idempotency key can find the task again.
    let is_unnamed = waits && !caller::has_idempotency_key(call.http.headers(), &call.meta.whole());
    let cancelled = is_unnamed.then(|| (shared.engine.clone(), key));
    let (task, listener, wait_ms) = if job.is_some() {
        answer_job(call, shared, &key).await?;
        let mut listener = shared.engine.listener();
        let task = listener.poll(&key).await.map_err(errors::of_poll)?;
        leaving.cancels(cancelled);
        (task, listener, later_ms)
    } else {
        given.extend(answers.clone().unwrap_or_default());
        let brought = Brought { given, answers, state };
        let new = accept::call_of(shared, call, (tool, policy), (arguments, brought), RequestedTerms::default())?;
        if !waits {
            let accepted = shared.engine.accept_as(key.id, new).await.map_err(errors::of_accept)?;
            return view::render_created(&accepted.into_task(), ports.clock.now()).map(Next::Result);
        }
        leaving.cancels(cancelled);
        let (task, listener) = leaving.accept(key.id, new, &shared.engine).await.map_err(errors::of_accept)?;
        (task, listener, first_ms)
    };
    let wait_ms = if task.awaited_start().is_some() { 0 } else { wait_ms.min(longest_ms) };
    let Some(binding) = binding.filter(|_| wait_ms > 0 || view == View::Result) else {
        leaving.cancels(None);
        return view::render_created(&task, ports.clock.now()).map(Next::Result);
    };
    let waiting = Waiting::new(call, endpoint, (task, listener, leaving), binding, (view, wait_ms)).await;
    Ok(Next::Waits(Box::new(waiting)))
}

/// `get_job_status` and `cancel_job`.
async fn manage_job<'a>(
    call: &Incoming<'_>,
    endpoint: &Endpoint,
    (name, tool): (&str, JobTool),
    arguments: &Arguments<'_>,
) -> Result<Next<'a>, ErrorData> {
    let shared = endpoint.shared();
    if accept::later_start(&call.meta.whole())?.is_some() {
        return Err(accept::never_a_task(name));
    }
    let binding = binding(call, name, arguments);
    let Rounds { job, .. } = rounds(call, shared, &binding)?;
    let argument = |name: &str| arguments.read.as_ref().and_then(|arguments| arguments.get(name));
    let Some(job_id) = argument("job_id").and_then(Value::as_str) else {
        return Err(ErrorData::invalid_params("`job_id` is missing or not a string", None));
    };
    let not_found = || written(call.client.revision(), job::not_found(job_id).into()).map(Next::Result);
    let Ok(id) = job_id.parse::<TaskId>() else { return not_found() };
    let key = TaskKey::new(call.owner, id);
    let wait_ms = match tool {
        JobTool::Status => {
            shared.polls.admit(&key).await?;
            wait_ms(argument("wait_s"), shared.settings.inline_wait_ms)
        }
        JobTool::Cancel => match shared.engine.cancel(&key).await {
            Ok(_) => 0,
            Err(PollError::NotFound) => return not_found(),
            Err(error @ PollError::Unavailable(_)) => return Err(errors::of_poll(error)),
        },
    };
    if job == Some(id) {
        answer_job(call, shared, &key).await?;
    }
    let mut listener = shared.engine.listener();
    let task = match listener.poll(&key).await {
        Ok(task) => task,
        Err(PollError::NotFound) => return not_found(),
        Err(error @ PollError::Unavailable(_)) => return Err(errors::of_poll(error)),
    };
    let heard = (task, listener, Leaving::default());
    Ok(Next::Waits(Box::new(Waiting::new(call, endpoint, heard, binding, (View::Status, wait_ms)).await)))
}

/// Gives the task the answers that a later round of the call brings.
async fn answer_job(call: &Incoming<'_>, shared: &Shared, key: &TaskKey) -> Result<(), ErrorData> {
    let answers: BTreeMap<_, _> =
        answers(call).into_iter().flatten().map(|(name, answer)| (name, answer.to_string())).collect();
    shared.engine.answer(key, &answers).await.map_err(errors::of_answer)
}

fn wait_ms(requested_s: Option<&Value>, longest_ms: u64) -> u64 {
    let requested = requested_s.and_then(Value::as_f64).filter(|seconds| *seconds >= 0.0);
    let requested = requested.and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
    requested.map_or(longest_ms, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).min(longest_ms))
}
