//! A tool's view of its call: the same in a task, in a plain call, and in a local run.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longhaul_core::verbatim::Object;
use longhaul_core::{FailureKind, TaskKey, Timestamp, strict_json};
use longhaul_engine::{Attempt, Retry};
use rmcp::handler::server::common::{AsRequestContext, FromContextPart};
use rmcp::model::ClientCapabilities;
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::VerifiedCaller;
use crate::backend::Backend;
use crate::state::Shared;

mod calling;
mod chance;
mod compensation;
mod form;
mod input;
mod labels;
mod outside;
mod parallel;
mod plain;
mod progress;
mod race;
mod step_work;
mod steps;
mod temporary;
mod variables;
mod version;
mod waiting;

pub use compensation::Compensation;
pub use form::form_of;
pub use input::{Answer, InputResponse};
pub use labels::LabelError;
pub use parallel::{Outcomes, Parallel};
pub(crate) use plain::{PlainCall, Rounds};
pub use progress::{Amount, ProgressReport};
pub use race::TimedOut;
pub use step_work::{StepContext, StepError, StepWork};
pub use steps::{Step, StepValue, UseTryStep};
pub use variables::VariableError;

/// A tool's handle on its own call: steps, sleeps, questions, progress and variables. Take it as a parameter of a tool,
/// next to [`Parameters`](rmcp::handler::server::wrapper::Parameters). Clones are the same handle.
///
/// In a task, a tool runs in *attempts*. Its future is dropped when it waits for the client, sleeps for long, or its
/// worker dies. Later the tool runs again from its first line. Recorded [steps](Self::step) do not run again: they
/// return their recorded values. The same applies to answers and sleeps. Code between steps runs in every attempt and
/// should do the same each time. In a plain call nothing is recorded: steps simply run.
///
/// ```
/// # use longhaul_mcp as longhaul;
/// # use std::time::Duration;
/// # use longhaul::TaskContext;
/// # use rmcp::ErrorData;
/// # async fn place(_item: &str) -> Result<u64, ErrorData> { Ok(17) }
/// # async fn has_arrived(_order: u64) -> Result<bool, ErrorData> { Ok(true) }
/// async fn order(item: &str, task: TaskContext) -> Result<String, ErrorData> {
///     let order = task.try_step("place the order", || place(item)).await?;
///     task.progress(1).of(2).message("ordered").await;
///     task.sleep("delivery", Duration::from_secs(3600)).await;
///     let arrived = task.try_step("check the order", || has_arrived(order)).await?;
///     Ok(format!("order {order} has arrived: {arrived}"))
/// }
/// ```
///
/// (`rmcp::task_manager` has a type of the same name, which is unrelated to this one.)
#[derive(Clone)]
pub struct TaskContext(Arc<Inner>);

struct Inner {
    attempt: Attempt,
    run: Run,
    /// The requests that the client declares to support.
    capabilities: ClientCapabilities,
    /// The answers of the client before this call became a task, or in earlier rounds of a plain call.
    given: BTreeMap<String, Value>,
    caller: Option<VerifiedCaller>,
    /// How many numbers a plain call has drawn.
    draws: AtomicU64,
}

/// The kind of call that an attempt belongs to.
pub(crate) enum Run {
    /// A task, which may call these tools.
    Task(Tools),
    Plain(PlainCall),
}

/// The tools of a server, for those that call each other.
#[derive(Clone)]
pub(crate) struct Tools {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) shared: Arc<Shared>,
}

impl TaskContext {
    pub(crate) fn new(
        attempt: Attempt,
        run: Run,
        capabilities: ClientCapabilities,
        given: BTreeMap<String, Value>,
        caller: Option<VerifiedCaller>,
    ) -> Self {
        Self(Arc::new(Inner { attempt, run, capabilities, given, caller, draws: AtomicU64::default() }))
    }

    /// The context of the call that a handler answers, for a `call_tool` that is written by hand. Tools made by the
    /// macros of `rmcp` take it as a parameter.
    ///
    /// Where `rmcp` alone serves the handler, such as in a test, the call is plain. Steps run, [sleeps](Self::sleep) of
    /// any length sleep, progress goes to the client, and [questions](Self::ask) are asked. Nothing survives the
    /// process. An error names everything else that a plain call cannot do. A [callback](Self::callback) is logged as
    /// an error, and never comes.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// use longhaul::TaskContext;
    /// use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock};
    /// use rmcp::service::RequestContext;
    /// use rmcp::{ErrorData, RoleServer, ServerHandler};
    ///
    /// struct Reports;
    ///
    /// impl ServerHandler for Reports {
    ///     async fn call_tool(
    ///         &self,
    ///         request: CallToolRequestParams,
    ///         context: RequestContext<RoleServer>,
    ///     ) -> Result<CallToolResponse, ErrorData> {
    ///         let task = TaskContext::of(&context);
    ///         let sum = task.step("add up", async || 42).await;
    ///         Ok(CallToolResult::success(vec![ContentBlock::text(format!("{}: {sum}", request.name))]).into())
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn of(context: &RequestContext<RoleServer>) -> Self {
        context.extensions.get::<Self>().cloned().unwrap_or_else(|| {
            let capabilities = context.client_capabilities().unwrap_or_default();
            let (attempt, call) = outside::call_of(context);
            Self::new(attempt, Run::Plain(call), capabilities, BTreeMap::new(), None)
        })
    }

    /// The JSON text of the arguments as the caller wrote it, for a tool that passes them on. The order of members, the
    /// digits and the escapes are the caller's. `None` if they are not of a request, or were changed since.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskContext;
    /// fn as_written(task: &TaskContext) -> (Option<&str>, Option<&str>) {
    ///     (task.arguments_text(), task.meta_text())
    /// }
    /// ```
    #[must_use]
    pub fn arguments_text(&self) -> Option<&str> {
        Object::read(self.0.attempt.request()).ok()?.get("arguments")
    }

    /// The JSON text of the request's `_meta`, in the same way. Members that Longhaul itself reads may be missing.
    #[must_use]
    pub fn meta_text(&self) -> Option<&str> {
        Object::read(self.0.attempt.request()).ok()?.get("_meta")
    }

    /// The attempt of a task; `None` in a plain call.
    fn task_attempt(&self) -> Option<&Attempt> {
        matches!(self.0.run, Run::Task(_)).then_some(&self.0.attempt)
    }

    /// Sleeps. In a task this costs nothing, for hours or days. In a plain call the time is limited: a tool that sleeps
    /// longer than its server allows ends with an error that says so.
    ///
    /// The name says in the task's journal what the tool waits for. Sleeps of one name, such as those of a loop, are
    /// counted when this is called, not when it is first polled. A sleep of another name that is inserted before this
    /// one does not change what a running task waits for.
    pub fn sleep<'a>(&'a self, name: &'a str, time: Duration) -> impl Future<Output = ()> + Send + 'a {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.0.attempt.named_sleep_until(name, self.0.attempt.now().plus_ms(ms))
    }

    /// Sleeps until `moment`, as [`sleep`](Self::sleep) does; returns at once if `moment` is in the past.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskContext;
    /// # use std::time::{Duration, UNIX_EPOCH};
    /// async fn wait(task: TaskContext) {
    ///     task.sleep_until("new year", UNIX_EPOCH + Duration::from_secs(1_798_761_600)).await;
    /// }
    /// ```
    pub fn sleep_until<'a>(&'a self, name: &'a str, moment: SystemTime) -> impl Future<Output = ()> + Send + 'a {
        let since_epoch = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
        let until = Timestamp::from_ms(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX));
        self.0.attempt.named_sleep_until(name, until)
    }

    /// Fires when the work is no longer wanted: the task was cancelled or timed out, or the caller of a plain call has
    /// left. The tool's future is dropped at its next await point in any case; this token is for work that runs
    /// elsewhere, such as in `spawn_blocking`.
    #[must_use]
    pub fn cancelled(&self) -> CancellationToken {
        self.0.attempt.cancelled().clone()
    }

    /// How many times the task was started, this time included. In a plain call always 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.task_attempt().map_or(1, |attempt| attempt.task().attempt)
    }

    /// When the task fails if it has not ended by then. `None` in a plain call, which ends when its caller leaves.
    #[must_use]
    pub fn deadline(&self) -> Option<SystemTime> {
        UNIX_EPOCH.checked_add(Duration::from_millis(self.task_attempt()?.task().deadline().as_ms()))
    }

    /// How much longer this call may run in one piece. The end of its worker limits it, less the time to record that.
    /// [`TaskPolicy::attempt_at_most`](crate::TaskPolicy::attempt_at_most) limits it too. A step that takes longer is
    /// interrupted, and begun again in the next attempt. `None` in a plain call.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskContext;
    /// # use std::time::Duration;
    /// fn has_a_minute(task: &TaskContext) -> bool {
    ///     task.attempt_left().is_none_or(|left| left >= Duration::from_secs(60))
    /// }
    /// ```
    #[must_use]
    pub fn attempt_left(&self) -> Option<Duration> {
        self.task_attempt()?.left_ms().map(Duration::from_millis)
    }

    /// The caller, as verified when the call was made: the same in every attempt and on every machine. If a team shares
    /// the task, it is the member who made the call. `None` for anonymous callers, such as those of a local server for
    /// one user, and in tasks that a version without this began.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskContext;
    /// # fn tool(task: TaskContext) -> Option<String> {
    /// let caller = task.caller()?;
    /// let team = caller.claims().get("team")?.as_str()?;
    /// # Some(
    /// format!("{} of {team}", caller.subject())
    /// # )
    /// # }
    /// ```
    #[must_use]
    pub fn caller(&self) -> Option<&VerifiedCaller> {
        self.0.caller.as_ref()
    }

    /// The task's id and its owner, the key under which it is stored. It is for other systems that are to name the task
    /// when they have something for it. `None` in a plain call.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskContext;
    /// fn name_for_others(task: &TaskContext) -> Option<String> {
    ///     task.task_key().map(|key| key.id.to_string())
    /// }
    /// ```
    #[must_use]
    pub fn task_key(&self) -> Option<TaskKey> {
        Some(self.task_attempt()?.task().key())
    }

    /// A key for other systems that recognise a repeated request by one. In a task it is the task's id, the same in
    /// every attempt. In a plain call it is derived from the caller and the idempotency key that it sent, so that a
    /// retry has the same one. Without such a key it is generated for this call, and stays the same through its rounds
    /// of questions.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        match &self.0.run {
            Run::Task(_) => self.0.attempt.task().id.to_string(),
            Run::Plain(call) => call.key.clone(),
        }
    }

    /// The retry policy of the tool.
    fn default_retry(&self) -> Retry {
        match &self.0.run {
            Run::Task(tools) => tools.shared.retry_of(&self.0.attempt.task().tool),
            Run::Plain(call) => call.retry,
        }
    }
}

/// The JSON text of the value of step `name`.
async fn write<T: Serialize>(attempt: &Attempt, name: &str, value: T) -> String {
    match serde_json::to_string(&value) {
        Ok(text) => text,
        Err(error) => {
            let message = format!("the value of step `{name}` cannot be written as JSON: {error}");
            attempt.fail(FailureKind::Misuse, message).await
        }
    }
}

async fn read<T: DeserializeOwned>(attempt: &Attempt, name: &str, text: &str) -> T {
    match strict_json::from_str(text) {
        Ok(value) => value,
        Err(error) => {
            let message = format!("the recorded value of step `{name}` is not what the tool expects: {error}");
            attempt.fail(FailureKind::Corrupt, message).await
        }
    }
}

impl<C: AsRequestContext> FromContextPart<C> for TaskContext {
    fn from_context_part(context: &mut C) -> Result<Self, ErrorData> {
        Ok(Self::of(context.as_request_context()))
    }
}
