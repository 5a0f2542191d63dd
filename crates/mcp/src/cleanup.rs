//! Cleanup of tasks that did not end with success.

use std::fmt::Display;
use std::future::{self, Future};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use longhaul_core::{FailureKind, ResultKind, State, TaskKey, strict_json, with_causes};
use longhaul_engine::{Ended, LoadError};
use rmcp::ErrorData;
use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::policy::{Cleaner, Policies};
use crate::tool_calls::accept::StoredCall;
use crate::tool_calls::caller::VerifiedCaller;

/// A task that has ended, and not with success, as its cleanup code sees it. `Server::clean_up` describes when that
/// code runs. Clones are the same task.
///
/// ```
/// # use longhaul_mcp as longhaul;
/// # use rmcp::ErrorData;
/// use longhaul::EndedTask;
///
/// # async fn stop_machine(_machine: u64) -> Result<(), ErrorData> { Ok(()) }
/// async fn clean_up(ended: EndedTask) -> Result<(), ErrorData> {
///     if let Some(machine) = ended.step::<u64>("machine").await? {
///         stop_machine(machine).await?;
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct EndedTask(Arc<Inner>);

struct Inner {
    ended: Ended,
    arguments: Option<JsonObject>,
    caller: Option<VerifiedCaller>,
    end: End,
}

/// How a task ended that did not end with success.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// Its client cancelled it.
    Cancelled,
    /// It failed, or its tool returned a result that says so.
    Failed {
        /// The kind of reason. [`FailureKind::Tool`] if its tool returned an error. [`FailureKind::TimedOut`] if it
        /// missed its deadline. [`FailureKind::RetriesExhausted`] if too many attempts in a row died or failed.
        kind: FailureKind,
        /// The message to its client.
        message: String,
    },
}

impl End {
    /// Whether the tool itself returned an error, or a result that says so.
    #[must_use]
    pub fn is_of_its_tool(&self) -> bool {
        matches!(self, Self::Failed { kind: FailureKind::Tool, .. })
    }
}

/// A recorded value of a task could not be read. With `?` it ends this try of the cleanup, and another one follows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndedTaskError {
    /// It is something else than the type that was asked for.
    #[error("{what} of the task cannot be read as the expected type: {cause}")]
    WrongType {
        /// Which part of the task.
        what: String,
        /// The cause.
        cause: serde_json::Error,
    },
    /// The store does not answer, or does not have it any more.
    #[error("{what} of the task could not be loaded: {}", with_causes(&**.cause))]
    NotLoaded {
        /// Which part of the task.
        what: String,
        /// Why.
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl From<EndedTaskError> for ErrorData {
    fn from(error: EndedTaskError) -> Self {
        Self::internal_error(error.to_string(), None)
    }
}

impl EndedTask {
    fn read(ended: Ended) -> Result<Self, String> {
        let call: StoredCall = strict_json::from_str(ended.request())
            .map_err(|error| format!("the stored call cannot be read: {error}"))?;
        let end = match &ended.task().state {
            State::Failed { failure } => End::Failed { kind: failure.kind, message: failure.message.clone() },
            State::Cancelled => End::Cancelled,
            State::Completed { kind: ResultKind::ToolError, .. } => {
                End::Failed { kind: FailureKind::Tool, message: "the result says that the tool failed".to_owned() }
            }
            State::Queued
            | State::Running { .. }
            | State::Sleeping { .. }
            | State::InputRequired { .. }
            | State::Completed { kind: ResultKind::Success, .. } => {
                return Err("the task has not ended, or has succeeded".to_owned());
            }
        };
        Ok(Self(Arc::new(Inner { ended, arguments: call.arguments, caller: call.caller, end })))
    }

    /// The name of the tool.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.0.ended.task().tool
    }

    /// The key that [`TaskContext::idempotency_key`](crate::TaskContext::idempotency_key) gave to the tool: the task's
    /// id.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        self.0.ended.task().id.to_string()
    }

    /// The task's id and its owner, as in [`TaskContext::task_key`](crate::TaskContext::task_key).
    #[must_use]
    pub fn task_key(&self) -> TaskKey {
        self.0.ended.task().key()
    }

    /// The arguments of the call, as the type that the tool takes in its
    /// [`Parameters`](rmcp::handler::server::wrapper::Parameters).
    pub fn arguments<T: DeserializeOwned>(&self) -> Result<T, EndedTaskError> {
        let arguments = Value::Object(self.0.arguments.clone().unwrap_or_default());
        strict_json::from_value(arguments)
            .map_err(|cause| EndedTaskError::WrongType { what: "the arguments".to_owned(), cause })
    }

    /// The caller, as in [`TaskContext::caller`](crate::TaskContext::caller).
    #[must_use]
    pub fn caller(&self) -> Option<&VerifiedCaller> {
        self.0.caller.as_ref()
    }

    /// How many attempts to run the tool there were: 0 if the task ended before a worker took it.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.0.ended.task().attempt
    }

    /// How the task ended.
    #[must_use]
    pub fn end(&self) -> &End {
        &self.0.end
    }

    /// How long ago the task ended.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::EndedTask;
    /// # use std::time::Duration;
    /// fn is_worth_a_log_line(task: &EndedTask) -> bool {
    ///     !task.end().is_of_its_tool() && task.since_end() > Duration::from_secs(60)
    /// }
    ///
    /// fn name_for_others(task: &EndedTask) -> String {
    ///     task.task_key().id.to_string()
    /// }
    /// ```
    #[must_use]
    pub fn since_end(&self) -> Duration {
        Duration::from_millis(self.0.ended.since_end_ms())
    }

    /// The recorded value of the tool's step `name`. `None` if it has none: the tool did not come to this step, its
    /// work failed, or its worker died before the record. In the last case the work may have been done.
    pub async fn step<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, EndedTaskError> {
        let what = || format!("the step `{name}`");
        let not_loaded = |cause: LoadError| EndedTaskError::NotLoaded { what: what(), cause: cause.into() };
        let text = self.0.ended.step(name).await.map_err(not_loaded)?;
        let value = text.map(|text| strict_json::from_str(&text)).transpose();
        value.map_err(|cause| EndedTaskError::WrongType { what: what(), cause })
    }
}

impl std::fmt::Debug for EndedTask {
    /// Nothing of the arguments.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let id = self.0.ended.task().id;
        f.debug_struct("EndedTask").field("tool", &self.tool()).field("id", &id).field("end", self.end()).finish()
    }
}

impl Policies {
    /// Has `clean_up` run for each task of this tool that has ended, and not with success. It replaces an earlier one.
    pub fn clean_up<F, Fut, E>(&mut self, tool: String, clean_up: F)
    where
        F: Fn(EndedTask) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Display,
    {
        self.insert_cleaner(tool, cleaner(clean_up));
    }

    /// The same for all tools that are not named and that `covers` says to have something to clean up.
    pub fn clean_up_where<F, Fut, E>(&mut self, covers: impl Fn(&str) -> bool + Send + Sync + 'static, clean_up: F)
    where
        F: Fn(EndedTask) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Display,
    {
        self.clean_others(Arc::new(covers), cleaner(clean_up));
    }
}

fn cleaner<F, Fut, E>(clean_up: F) -> Arc<Cleaner>
where
    F: Fn(EndedTask) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send + 'static,
    E: Display,
{
    Arc::new(move |ended| match EndedTask::read(ended) {
        Ok(ended) => clean_up(ended).map(|cleaned| cleaned.map_err(|error| format!("{error:#}"))).boxed(),
        Err(error) => future::ready(Err(error)).boxed(),
    })
}
