//! What a tool sees of its call: the same in a task, in a plain call, and in a local run.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::Either;
use longhaul_core::{FailureKind, Progress, Timestamp};
use longhaul_engine::{Leg, VariableError};
use rmcp::ErrorData;
use rmcp::handler::server::common::{AsRequestContext, FromContextPart};
use rmcp::model::ClientCapabilities;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

mod input;
mod plain;

pub use input::{Answer, InputResponse};
pub(crate) use plain::{PlainCall, PlainEnd, Rounds, Start as PlainStart};

/// A tool's handle on its own call. Take it as a parameter of a tool, beside
/// [`Parameters`](rmcp::handler::server::wrapper::Parameters); clones are the same handle.
///
/// In a task, a tool runs in *legs*: whenever it waits for the client, sleeps long, or its worker dies, its future is
/// dropped, and later the tool is run again from its start. What it did in [`step`](Self::step)s is then not done
/// again: the recorded values are replayed, and so are answers and sleeps. Code between steps should therefore do the
/// same in every leg. In a plain call there is no record: steps just run.
///
/// (`rmcp::task_manager` has a type of the same name; this one has nothing to do with it.)
#[derive(Clone)]
pub struct TaskContext(Arc<Inner>);

struct Inner {
    run: Run,
    /// What the client said that it can be asked.
    capabilities: ClientCapabilities,
    /// What the client answered before this call became a task, or in earlier rounds of a plain call.
    given: BTreeMap<String, Value>,
}

enum Run {
    Task(Leg),
    Plain(PlainCall),
}

impl TaskContext {
    pub(crate) fn task(leg: Leg, capabilities: ClientCapabilities, given: BTreeMap<String, Value>) -> Self {
        Self(Arc::new(Inner { run: Run::Task(leg), capabilities, given }))
    }

    pub(crate) fn plain(call: PlainCall, capabilities: ClientCapabilities, given: BTreeMap<String, Value>) -> Self {
        Self(Arc::new(Inner { run: Run::Plain(call), capabilities, given }))
    }

    /// Runs `run` and records what it gives; in later legs gives the recorded value instead. The first recorded value
    /// wins. `run` happens at least once: a crash before the record is written runs it again. Its errors are not
    /// recorded. Names are unique within a task.
    ///
    /// # Errors
    /// Those of `run`. A store that does not answer ends the leg and never reaches the tool; a recorded value that is
    /// no `T` any more ends the task as failed.
    pub async fn step<T, E, F, Fut>(&self, name: &str, run: F) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let leg = match &self.0.run {
            Run::Task(leg) => leg,
            Run::Plain(call) => return call.step(run).await,
        };
        let write = async || {
            let value = run().await?;
            match serde_json::to_string(&value) {
                Ok(text) => Ok(text),
                Err(error) => {
                    leg.fail(FailureKind::Misuse, format!("the value of step `{name}` is no JSON: {error}")).await
                }
            }
        };
        let text = leg.step(name, write).await?;
        match serde_json::from_str(&text) {
            Ok(value) => Ok(value),
            Err(error) => {
                let message = format!("the recorded value of step `{name}` is not what the tool expects: {error}");
                leg.fail(FailureKind::Corrupt, message).await
            }
        }
    }

    /// Sleeps. In a task this costs nothing, for hours or days. In a plain call it is bounded: a tool that sleeps longer
    /// than its server allows there ends with an error that says so.
    ///
    /// The sleep is counted when this is called, not when it is first polled: sleeps are told apart by their order.
    pub fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send + '_ {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        match &self.0.run {
            Run::Task(leg) => Either::Left(leg.sleep_ms(ms)),
            Run::Plain(call) => Either::Right(call.sleep_ms(ms)),
        }
    }

    /// Sleeps until `moment`, as [`sleep`](Self::sleep) does; returns at once where that is over.
    pub fn sleep_until(&self, moment: SystemTime) -> impl Future<Output = ()> + Send + '_ {
        let since_epoch = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
        let until = Timestamp::from_ms(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX));
        match &self.0.run {
            Run::Task(leg) => Either::Left(leg.sleep_until(until)),
            Run::Plain(call) => Either::Right(call.sleep_until(until)),
        }
    }

    /// Tells how far the work is: the task's status message, or a progress notification where a plain caller asked for
    /// them. `done` should grow with every call. An empty message is left out.
    pub async fn progress(&self, done: f64, total: Option<f64>, message: impl Into<String>) {
        let message: String = message.into();
        let progress = Progress { done, total, message: Some(message).filter(|message| !message.is_empty()) };
        match &self.0.run {
            Run::Task(leg) => leg.progress(progress),
            Run::Plain(call) => call.progress(progress).await,
        }
    }

    /// The variable `name` as it was last set, in this leg or an earlier one.
    pub async fn variable(&self, name: &str) -> Option<Value> {
        match &self.0.run {
            Run::Task(leg) => leg.variable(name).await,
            Run::Plain(call) => call.variable(name),
        }
    }

    /// Sets a variable: small state that outlives legs; `null` removes it. In a plain call it lives as long as the call.
    ///
    /// # Errors
    /// [`VariableError`], where the value is over a limit; the variables are as they were then.
    pub async fn set_variable(&self, name: &str, value: Value) -> Result<(), VariableError> {
        match &self.0.run {
            Run::Task(leg) => leg.set_variable(name, value).await,
            Run::Plain(call) => call.set_variable(name, value),
        }
    }

    /// Fires when the work is no longer wanted: the task was cancelled or timed out, or the plain caller has left.
    /// Ending early is a courtesy: the tool's future is dropped in any case, at its next await point.
    #[must_use]
    pub fn cancelled(&self) -> CancellationToken {
        match &self.0.run {
            Run::Task(leg) => leg.cancelled().clone(),
            Run::Plain(call) => call.cancelled().clone(),
        }
    }

    /// How often the task was begun, this time included; 1 in a plain call.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        match &self.0.run {
            Run::Task(leg) => leg.task().attempt,
            Run::Plain(_) => 1,
        }
    }

    /// When the task fails if it has not ended; none in a plain call, which ends when its caller leaves.
    #[must_use]
    pub fn deadline(&self) -> Option<SystemTime> {
        match &self.0.run {
            Run::Task(leg) => UNIX_EPOCH.checked_add(Duration::from_millis(leg.task().deadline().as_ms())),
            Run::Plain(_) => None,
        }
    }

    /// A key for other systems that recognise a repeated request by one. In a task it is the task's id, the same in
    /// every leg. In a plain call it belongs to the caller and the idempotency key that it sent, so that a retry has the
    /// same one; without such a key it is made up for this call, and kept through its rounds of questions.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        match &self.0.run {
            Run::Task(leg) => leg.task().id.to_string(),
            Run::Plain(call) => call.key().to_owned(),
        }
    }
}

impl<C: AsRequestContext> FromContextPart<C> for TaskContext {
    fn from_context_part(context: &mut C) -> Result<Self, ErrorData> {
        context.as_request_context().extensions.get::<Self>().cloned().ok_or_else(|| {
            tracing::error!("a tool takes a TaskContext, but its handler is not served by Longhaul");
            ErrorData::internal_error("this tool needs Longhaul around its handler", None)
        })
    }
}
