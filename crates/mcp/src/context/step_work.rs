//! The work of a step, as its author writes it, and what it sees of its try.

use std::any::Any;
use std::fmt::Write as _;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use longhaul_core::strict_json;
use rmcp::ErrorData;
use rmcp::model::ErrorCode;
use serde::{Deserialize, Serialize};

use crate::signing::derived;

/// The member of an error's data that says what a step's work did not say itself.
const STEP_ERROR: &str = "dev.longhaul/stepError";

/// Bytes of the hash in an idempotency key: 32 hexadecimal digits, which every system takes.
const KEY_BYTES: usize = 16;

/// The work of a [step](crate::TaskContext::try_step): a closure without an argument, or with a [`StepContext`], that
/// returns a future of a `Result`. There is nothing to implement: every such closure has it.
pub trait StepWork<Args>: Send {
    /// The value of a success.
    type Value;
    /// The error.
    type Error;
    /// One try.
    type Future: Future<Output = Result<Self::Value, Self::Error>> + Send;

    /// Begins a try.
    fn run(&mut self, step: StepContext) -> Self::Future;
}

impl<F, Fut, T, E> StepWork<()> for F
where
    F: FnMut() -> Fut + Send,
    Fut: Future<Output = Result<T, E>> + Send,
{
    type Value = T;
    type Error = E;
    type Future = Fut;

    fn run(&mut self, _step: StepContext) -> Fut {
        self()
    }
}

impl<F, Fut, T, E> StepWork<(StepContext,)> for F
where
    F: FnMut(StepContext) -> Fut + Send,
    Fut: Future<Output = Result<T, E>> + Send,
{
    type Value = T;
    type Error = E;
    type Future = Fut;

    fn run(&mut self, step: StepContext) -> Fut {
        self(step)
    }
}

/// A try of a step, as its work sees it: take it as the closure's argument. Clones are the same try.
#[derive(Clone, Debug)]
pub struct StepContext {
    attempt: u32,
    key: String,
    is_terminal: Arc<AtomicBool>,
}

impl StepContext {
    pub(super) fn of(task_key: &str, name: &str, attempt: u32) -> Self {
        let hash = derived::hash(&[b"step", task_key.as_bytes(), name.as_bytes()]);
        let mut key = String::with_capacity(2 * KEY_BYTES);
        for byte in hash.iter().take(KEY_BYTES) {
            // Writing to a string cannot fail.
            write!(key, "{byte:02x}").unwrap_or_default();
        }
        Self { attempt, key, is_terminal: Arc::default() }
    }

    /// The number of this try: 1, and one more for each try that has failed.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// A key for other systems that recognise a repeated request by one: 32 hexadecimal digits. It is the same in every
    /// try of this step of this task, and in no other step.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        self.key.clone()
    }

    /// Whether the failure of this try was [marked](Self::terminal) as final.
    pub(super) fn is_terminal(&self) -> bool {
        self.is_terminal.load(Ordering::Relaxed)
    }

    /// Marks the failure of this try as final: every other try would meet it too. Returns the error.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::{StepContext, TaskContext};
    /// async fn pay(task: TaskContext) -> Result<u64, String> {
    ///     let charge = |step: StepContext| async move { Err(step.terminal("the card has expired".to_owned())) };
    ///     task.try_step("pay", charge).await
    /// }
    /// ```
    #[must_use = "the work returns this error"]
    pub fn terminal<E>(&self, error: E) -> E {
        self.is_terminal.store(true, Ordering::Relaxed);
        error
    }
}

/// Errors of a [step](crate::TaskContext::try_step) that its work did not return. The error type of a step with a
/// [timeout](crate::Step::timeout), and of one that runs [at most once](crate::Step::at_most_once), is made of it by
/// [`From`]; [`ErrorData`] is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum StepError {
    /// A try took too long, and was dropped.
    #[error("step `{step}` took longer than {after_ms} ms")]
    TimedOut {
        /// The name of the step.
        step: String,
        /// How long it could take, in milliseconds.
        after_ms: u64,
    },
    /// The work of a step that runs at most once began, and how it ended is not known.
    #[error("step `{step}` was interrupted, and may have run: it is not run again")]
    MayHaveRun {
        /// The name of the step.
        step: String,
    },
}

impl StepError {
    /// The step error that `error` was made of, if there is one.
    #[must_use]
    pub fn of(error: &ErrorData) -> Option<Self> {
        strict_json::from_value(error.data.as_ref()?.get(STEP_ERROR)?.clone()).ok()
    }
}

impl From<StepError> for ErrorData {
    fn from(error: StepError) -> Self {
        let data = serde_json::to_value(&error).map(|error| serde_json::json!({ STEP_ERROR: error })).ok();
        Self::internal_error(error.to_string(), data)
    }
}

/// Whether an error is worth another try.
pub(super) type IsWorth<'a, E> = Box<dyn Fn(&E) -> bool + Send + Sync + 'a>;

/// Whether no other try is worth it.
pub(super) fn is_final<E: 'static>(error: &E, step: &StepContext, is_worth: Option<&IsWorth<'_, E>>) -> bool {
    step.is_terminal()
        || match is_worth {
            Some(is_worth) => !is_worth(error),
            None => (error as &dyn Any).downcast_ref().is_some_and(is_wrong_request),
        }
}

/// Whether the code of an error says that the request is wrong, and not that the other side could not answer it.
fn is_wrong_request(error: &ErrorData) -> bool {
    let codes = [
        ErrorCode::PARSE_ERROR,
        ErrorCode::INVALID_REQUEST,
        ErrorCode::METHOD_NOT_FOUND,
        ErrorCode::INVALID_PARAMS,
        ErrorCode::RESOURCE_NOT_FOUND,
    ];
    codes.contains(&error.code)
}
