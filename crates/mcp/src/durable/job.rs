//! Calls by clients that know no tasks, of tools that may become tasks: a task beneath, whose end is waited for within
//! a bound. Whoever comes too late gets a job id.
//!
//! What the tool asks reaches the client as in a plain call: since `2026-07-28` the call ends with the questions, and
//! its retry brings the answers; before, the client is asked while the call is open.

use std::collections::{BTreeMap, BTreeSet};

use longhaul_core::{Ask, Progress, State, Task, TaskId, TaskKey, Timestamp, Wish};
use longhaul_engine::PollError;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, InputRequest, InputRequests, InputRequiredResult,
    ProgressNotificationParam, ResultType,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::Durable;
use super::plain::Verified;
use crate::policy::TaskPolicy;
use crate::revision::Generation;
use crate::shared::Shared;
use crate::shared::accept::{self, NewTask};
use crate::shared::asking;
use crate::shared::caller::{self, Caller};
use crate::shared::record::StoredCall;
use crate::shared::signer::{Binding, Rounds};
use crate::shared::{capabilities, errors};
use crate::views::job as wire;
use crate::views::job_tools::JobTool;
use crate::views::outcome::Outcome;

/// The first pause between two looks at a task; each is twice the one before, up to the pause of subscriptions.
const PAUSE_MS_FIRST: u64 = 4;

/// What the caller gets of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    /// What the tool itself would have answered.
    Result,
    /// How the job is.
    Status,
}

/// A caller who waits.
struct Waiting<'a> {
    shared: &'a Shared,
    context: &'a RequestContext<RoleServer>,
    caller: &'a Caller,
    binding: &'a Binding,
    view: View,
    wait_ms: u64,
}

impl<H: ServerHandler> Durable<H> {
    /// The job tool of this name, unless the handler has a tool of the name itself.
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
        let key = match job {
            Some(job) => self.go_on(TaskKey::new(caller.owner, job), &request).await?,
            None => self.begin_job(request, &context, caller, (answers, state), policy).await?,
        };
        let wait_ms = self.shared.settings.inline_wait_ms;
        let (shared, context) = (&*self.shared, &context);
        Waiting { shared, context, caller, binding: &binding, view: View::Result, wait_ms }.follow(key).await
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
            JobTool::Status => wait_ms(argument("wait_s"), longest_ms),
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
            self.go_on(key, &request).await?;
        }
        let (shared, context, binding) = (&*self.shared, &context, &verified.binding);
        Waiting { shared, context, caller, binding, view: View::Status, wait_ms }.follow(key).await
    }

    /// Takes the answers that a later round of the call brings.
    async fn go_on(&self, key: TaskKey, request: &CallToolRequestParams) -> Result<TaskKey, ErrorData> {
        let given = request.input_responses.iter().flatten();
        let answers: BTreeMap<_, _> = given.map(|(key, answer)| (key.clone(), answer.to_string())).collect();
        self.shared.engine.answer(&key, &answers).await.map_err(errors::of_answer)?;
        Ok(key)
    }

    async fn begin_job(
        &self,
        mut request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        caller: &Caller,
        (answers, state): (BTreeMap<String, serde_json::Value>, Option<String>),
        policy: &TaskPolicy,
    ) -> Result<TaskKey, ErrorData> {
        let idempotency = caller::idempotency(&request, context);
        let tool = request.name.to_string();
        request.request_state = state;
        let mut meta = context.meta.clone();
        meta.set_client_capabilities(caller.capabilities.clone());
        let call = StoredCall::new(request, meta, answers);
        let new = NewTask { owner: caller.owner, tool, call, policy, wish: Wish::default(), idempotency };
        Ok(accept::accept(&self.shared, new).await?.into_task().key())
    }
}

fn wait_ms(wished_s: Option<&serde_json::Value>, longest_ms: u64) -> u64 {
    let wished = wished_s.and_then(serde_json::Value::as_f64).filter(|seconds| *seconds >= 0.0);
    let wished = wished.and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
    wished.map_or(longest_ms, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).min(longest_ms))
}

impl Waiting<'_> {
    /// Waits for the end of the task, or for its questions, or until the time is over.
    async fn follow(&self, key: TaskKey) -> Result<CallToolResponse, ErrorData> {
        let (clock, settings) = (&self.shared.engine.ports().clock, &self.shared.settings);
        let mut ends_at = clock.now().plus_ms(self.wait_ms);
        let (mut told, mut asked, mut pause_ms) = (None, BTreeSet::new(), PAUSE_MS_FIRST);
        loop {
            let task = match self.shared.engine.poll(&key).await {
                Ok(task) => task,
                Err(PollError::NotFound) if self.view == View::Status => {
                    return Ok(wire::not_found(&key.id.to_string()).into());
                }
                Err(error) => return Err(errors::of_poll(error)),
            };
            self.tell_progress(&task, &mut told).await;
            if let Some(ended) = self.ended(&task).await? {
                return Ok(ended);
            }
            let asks = self.may_ask(&task);
            match self.caller.generation {
                Generation::PerRequest if !asks.is_empty() => return self.round(&task, asks),
                Generation::Handshake if asks.keys().any(|key| !asked.contains(key)) => {
                    asked.extend(asks.keys().cloned());
                    self.ask_all(&key, asks).await?;
                    // The time that the user takes is the user's.
                    ends_at = clock.now().plus_ms(self.wait_ms);
                    continue;
                }
                Generation::PerRequest | Generation::Handshake => {}
            }
            let now = clock.now();
            if now >= ends_at || self.shared.closing.is_cancelled() {
                return Ok(wire::unfinished(&task, now, settings.inline_wait_ms).into());
            }
            self.pause(&key, pause_ms.min(ends_at.since_ms(now))).await?;
            pause_ms = (pause_ms * 2).min(settings.listen_poll_ms.max(1));
        }
    }

    /// Waits, and ends the task where its caller leaves before it has heard of the job: nobody else can know of it,
    /// unless the caller has a key to find it again.
    async fn pause(&self, key: &TaskKey, ms: u64) -> Result<(), ErrorData> {
        tokio::select! {
            biased;
            () = self.context.ct.cancelled() => {
                if self.view == View::Result && !caller::has_idempotency_key(self.context) {
                    self.shared.engine.cancel(key).await.map_err(errors::of_poll)?;
                }
                Err(ErrorData::internal_error("the client has left", None))
            }
            () = self.shared.engine.ports().clock.sleep_ms(ms.max(1)) => Ok(()),
        }
    }

    async fn tell_progress(&self, task: &Task, told: &mut Option<Progress>) {
        let (Some(token), Some(progress)) = (self.context.meta.get_progress_token(), &task.progress) else { return };
        if told.as_ref().is_some_and(|told| progress.done <= told.done) {
            return;
        }
        let mut param = ProgressNotificationParam::new(token, progress.done);
        param.total = progress.total;
        param.message.clone_from(&progress.message);
        if let Err(error) = self.context.peer.notify_progress(param).await {
            tracing::debug!(%error, "a progress notification was not sent");
        }
        *told = Some(progress.clone());
    }

    /// The end, as the caller is to see it.
    async fn ended(&self, task: &Task) -> Result<Option<CallToolResponse>, ErrorData> {
        let engine = &self.shared.engine;
        let Some(outcome) = Outcome::of(engine, task).await.map_err(errors::of_load)? else { return Ok(None) };
        match (self.view, outcome) {
            (View::Status, outcome) => Ok(Some(wire::ended(task, outcome).into())),
            (View::Result, Outcome::Result(result)) => {
                let mut result: CallToolResult = serde_json::from_value(result.into())
                    .map_err(|error| errors::internal("the stored result of this task cannot be read", &error))?;
                // For those of its time; `rmcp` takes it from what older clients get.
                result.result_type = Some(ResultType::COMPLETE);
                Ok(Some(result.into()))
            }
            (View::Result, Outcome::Error(error)) => Err(match self.caller.generation {
                Generation::PerRequest => error,
                Generation::Handshake => errors::for_older(error),
            }),
            (View::Result, Outcome::Cancelled) => Err(ErrorData::internal_error("the call was cancelled", None)),
        }
    }

    /// What the task asks, where this client can be asked all of it.
    fn may_ask(&self, task: &Task) -> InputRequests {
        let State::InputRequired { asks, .. } = &task.state else { return InputRequests::new() };
        let read = |ask: &Ask| Some((ask.key.clone(), serde_json::from_str::<InputRequest>(&ask.request).ok()?));
        let requests: InputRequests = asks.iter().filter_map(read).collect();
        let can = requests.len() == asks.len()
            && requests.values().all(|request| capabilities::check(&self.caller.capabilities, request).is_ok());
        if can { requests } else { InputRequests::new() }
    }

    /// The questions as the end of the call; its retry goes on with the task.
    fn round(&self, task: &Task, asks: InputRequests) -> Result<CallToolResponse, ErrorData> {
        let until: Timestamp = self.shared.engine.ports().clock.now().plus_ms(self.shared.settings.state_ms_max);
        let rounds = Rounds { job: Some(task.id), ..Rounds::default() };
        let state = self.shared.signer.sign_rounds(rounds, self.binding, until)?;
        Ok(InputRequiredResult::new(Some(asks), Some(state)).into())
    }

    /// Asks the client while its call is open.
    async fn ask_all(&self, key: &TaskKey, asks: InputRequests) -> Result<(), ErrorData> {
        let answers = asks.into_iter().map(|(name, request)| async move { (name, self.ask(request).await) });
        let answers: BTreeMap<_, _> = futures::future::join_all(answers).await.into_iter().collect();
        self.shared.engine.answer(key, &answers).await.map_err(errors::of_answer)
    }

    async fn ask(&self, request: InputRequest) -> String {
        match asking::ask(&self.context.peer, request).await {
            Ok(answer) => answer.to_string(),
            Err(error) => asking::refusal(&error),
        }
    }
}
