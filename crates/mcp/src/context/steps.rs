//! Steps: work whose outcome is recorded once and replayed afterwards.

use std::convert::Infallible;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::pin;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Either, select};
use longhaul_core::{Clock, FailureKind, strict_json};
use longhaul_engine::{Attempt, Retry, Tried};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::step_work::{IsWorth, StepContext, StepError, StepWork, is_final};
use super::{TaskContext, read, temporary, write};

impl TaskContext {
    /// Runs `run` once and records its value; later attempts get the recorded value and do not run it again.
    ///
    /// This is for work that cannot fail; work that can is for [`try_step`](Self::try_step). The value is any type that
    /// `serde` can write and read.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskContext;
    /// # async fn tool(task: TaskContext) {
    /// let dice = task.step("roll", async || 4_u8).await;
    /// # }
    /// ```
    ///
    /// `run` runs at least once: if the process dies after the work and before the record, it runs again. The first
    /// recorded value wins. Names are unique within a task: two steps with the same name end it as failed. A store that
    /// does not answer ends the attempt and is tried again, which the tool never sees. A recorded value that is no
    /// longer a `T` ends the task as failed.
    ///
    /// A `Result` is refused by the compiler, because its error would be recorded as a value, and not tried again:
    ///
    /// ```compile_fail,E0283
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskContext;
    /// # use rmcp::ErrorData;
    /// # async fn place_order() -> Result<u64, ErrorData> { Ok(17) }
    /// # async fn tool(task: TaskContext) -> Result<(), ErrorData> {
    /// let order = task.step("order", place_order).await?; // `try_step` it must be
    /// # Ok(())
    /// # }
    /// ```
    pub async fn step<T, F, Fut, Kind>(&self, name: &str, run: F) -> T
    where
        T: StepValue<Kind>,
        F: FnOnce() -> Fut,
        Fut: Future<Output = T>,
    {
        let attempt = &self.0.attempt;
        let run = async || Ok::<_, Infallible>(write_value(attempt, name, run().await).await);
        let Ok(text) = attempt.step(name, run).await;
        read(attempt, name, &text).await
    }

    /// A step whose work can fail. Await it: an error is tried again, three times within two seconds by default, and
    /// the last one is recorded as the step's outcome. Later attempts get the recorded value or the recorded error, and
    /// do not run the work again.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use std::time::Duration;
    /// # use longhaul::{Retry, StepContext, TaskContext};
    /// # use rmcp::ErrorData;
    /// # async fn place_order(_key: &str) -> Result<u64, ErrorData> { Ok(17) }
    /// # async fn order_by_mail() -> Result<u64, ErrorData> { Ok(18) }
    /// # async fn tool(task: TaskContext) -> Result<(), ErrorData> {
    /// let placed = task
    ///     .try_step("order", |step: StepContext| async move { place_order(&step.idempotency_key()).await })
    ///     .retry(Retry::exponential(Duration::from_secs(1), Duration::from_secs(60)).tries(10))
    ///     .timeout(Duration::from_secs(30))
    ///     .await;
    /// let order = match placed {
    ///     Ok(order) => order,
    ///     Err(_) => task.try_step("order by mail", order_by_mail).await?, // the same after every crash
    /// };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The work is a closure that may be called several times, without an argument or with a [`StepContext`]. A value
    /// and an error are any types that `serde` can write and read. An [`ErrorData`](rmcp::ErrorData) with the code of a
    /// wrong request, such as `invalid params`, is final at once, unless [`Step::retry_if`] decides otherwise. An error
    /// that [`StepContext::terminal`] has marked is always final.
    ///
    /// A try that a crash interrupts does not count, and is run again: the work runs at least once. For work that must
    /// not run twice there is [`Step::at_most_once`].
    pub fn try_step<'a, W, Args>(&'a self, name: &'a str, work: W) -> Step<'a, W, Args>
    where
        W: StepWork<Args>,
        W::Value: Serialize + DeserializeOwned,
        W::Error: Serialize + DeserializeOwned,
    {
        let args = PhantomData;
        Step { task: self, name, work, retry: None, timeout: None, is_worth: None, may_have_run: None, args }
    }

    /// The value that the step of this name has recorded. `None` if it failed, or recorded nothing, though its work may
    /// have been done. Runs nothing; in a plain call there is never a value.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskContext;
    /// async fn has_paid(task: TaskContext) -> bool {
    ///     task.recorded_step::<String>("pay").await.is_some()
    /// }
    /// ```
    pub async fn recorded_step<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let attempt = &self.0.attempt;
        let text = attempt.recorded_step(name).await?.ok()?;
        Some(read(attempt, name, &text).await)
    }
}

/// A step that may fail, from [`TaskContext::try_step`]. It does nothing until it is awaited.
#[must_use = "a step does nothing until it is awaited"]
pub struct Step<'a, W: StepWork<Args>, Args> {
    task: &'a TaskContext,
    name: &'a str,
    work: W,
    retry: Option<Retry>,
    timeout: Option<(Duration, OfStep<W::Error>)>,
    is_worth: Option<IsWorth<'a, W::Error>>,
    may_have_run: Option<OfStep<W::Error>>,
    args: PhantomData<fn() -> Args>,
}

/// Makes an error of the step one of the tool's.
type OfStep<E> = fn(StepError) -> E;

impl<'a, W: StepWork<Args>, Args> Step<'a, W, Args> {
    /// How often the work is tried, instead of the default.
    ///
    /// Each failed try is recorded, with the time of the next one: a crash does not begin to count again. A wait of
    /// more than a second holds no worker. No try begins after the task's deadline. In a plain call nothing is
    /// recorded, and the last error is returned when the call has no time for another pause.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Which errors are worth another try, instead of the default.
    pub fn retry_if(mut self, is_worth: impl Fn(&W::Error) -> bool + Send + Sync + 'a) -> Self {
        self.is_worth = Some(Box::new(is_worth));
        self
    }

    /// How long each try may take. One that takes longer is dropped, and has failed with [`StepError::TimedOut`].
    pub fn timeout(mut self, time: Duration) -> Self
    where
        W::Error: From<StepError>,
    {
        self.timeout = Some((time, W::Error::from));
        self
    }

    /// Runs the work once, and never again. That it begins is recorded before, which takes one more write. If a crash
    /// comes before its end is recorded, the step fails with [`StepError::MayHaveRun`], in this and every later
    /// attempt.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::{StepError, TaskContext};
    /// # use rmcp::ErrorData;
    /// # async fn pay() -> Result<u64, ErrorData> { Ok(17) }
    /// # async fn was_paid() -> Result<u64, ErrorData> { Ok(17) }
    /// # async fn tool(task: TaskContext) -> Result<u64, ErrorData> {
    /// match task.try_step("pay", pay).at_most_once().await {
    ///     Err(error) if matches!(StepError::of(&error), Some(StepError::MayHaveRun { .. })) => {
    ///         task.try_step("look for the payment", was_paid).await
    ///     }
    ///     paid => paid,
    /// }
    /// # }
    /// ```
    ///
    /// An error of the work is final. With [`retry`](Self::retry), which contradicts it, the task fails.
    pub fn at_most_once(mut self) -> Self
    where
        W::Error: From<StepError>,
    {
        self.may_have_run = Some(W::Error::from);
        self
    }
}

impl<'a, W, Args, T, E> IntoFuture for Step<'a, W, Args>
where
    W: StepWork<Args, Value = T, Error = E> + 'a,
    W::Future: 'a,
    Args: 'a,
    T: Serialize + DeserializeOwned + Send + 'a,
    E: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    type Output = Result<T, E>;
    type IntoFuture = BoxFuture<'a, Result<T, E>>;

    fn into_future(self) -> Self::IntoFuture {
        self.run().boxed()
    }
}

impl<W, Args, T, E> Step<'_, W, Args>
where
    W: StepWork<Args, Value = T, Error = E>,
    T: Serialize + DeserializeOwned + Send,
    E: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    async fn run(mut self) -> Result<T, E> {
        let attempt = &self.task.0.attempt;
        let (name, timeout, is_worth) = (self.name, self.timeout, self.is_worth.as_ref());
        let mut one_try = |number| {
            let step = StepContext::of(&self.task.idempotency_key(), name, number);
            let work = self.work.run(step.clone());
            async move {
                let result = in_time(attempt.clock(), name, timeout, work).await;
                let is_final = result.as_ref().err().is_some_and(|error| is_final(error, &step, is_worth));
                match result {
                    Ok(value) => Tried::Value(write_value(attempt, name, value).await),
                    Err(error) if is_final => Tried::FailedForGood(write_error(attempt, name, &error).await),
                    Err(error) => Tried::Failed(write_error(attempt, name, &error).await),
                }
            }
        };
        let outcome = match (self.may_have_run, self.retry) {
            (None, retry) => {
                let retry = retry.unwrap_or_else(|| self.task.default_retry());
                attempt.step_with_tries(name, retry, one_try).await
            }
            (Some(error), None) => {
                let error = error(StepError::MayHaveRun { step: name.to_owned() });
                let may_have_run = async { write_error(attempt, name, &error).await };
                attempt.step_at_most_once(name, may_have_run, || one_try(1)).await
            }
            (Some(_), Some(_)) => {
                let message = format!("step `{name}` has both `at_most_once` and `retry`; take one of them away");
                return attempt.fail(FailureKind::Misuse, message).await;
            }
        };
        match outcome {
            Ok(text) => Ok(read(attempt, name, &text).await),
            Err(text) => Err(read_error(attempt, name, &text).await),
        }
    }
}

/// The value of a [`step`](TaskContext::step): any type that `serde` can write and read, except `Result`.
///
/// There is nothing to implement: every such type has it. For a `Result` both implementations below match, so that the
/// compiler cannot choose one, and reports `E0283` with the hint [`UseTryStep`].
pub trait StepValue<Kind>: Serialize + DeserializeOwned {}

impl<T: Serialize + DeserializeOwned> StepValue<()> for T {}

impl<T, E> StepValue<UseTryStep> for Result<T, E> where Self: Serialize + DeserializeOwned {}

/// The hint in the compiler's message when a [`step`](TaskContext::step) returns a `Result`: use
/// [`try_step`](TaskContext::try_step), which tries again and records the last error.
#[derive(Clone, Copy, Debug)]
pub enum UseTryStep {}

/// The outcome of one try, which is an error after its time.
async fn in_time<T, E>(
    clock: &dyn Clock,
    name: &str,
    timeout: Option<(Duration, OfStep<E>)>,
    work: impl Future<Output = Result<T, E>> + Send,
) -> Result<T, E>
where
    T: Send,
    E: Send,
{
    let Some((time, error)) = timeout else { return work.await };
    let after_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    match select(pin!(work), pin!(clock.sleep_ms(after_ms))).await {
        Either::Left((result, _)) => result,
        Either::Right(((), _)) => Err(error(StepError::TimedOut { step: name.to_owned(), after_ms })),
    }
}

/// The JSON text of the value of step `name`.
async fn write_value<T: Serialize>(attempt: &Attempt, name: &str, value: T) -> String {
    let text = write(attempt, name, value).await;
    if attempt.is_stored() {
        temporary::warn_of(attempt, name, &text);
    }
    text
}

/// The JSON text of the error of step `name`.
async fn write_error<E: Serialize + Sync>(attempt: &Attempt, name: &str, error: &E) -> String {
    match serde_json::to_string(error) {
        Ok(text) => text,
        Err(error) => {
            let message = format!("the error of step `{name}` cannot be written as JSON: {error}");
            attempt.fail(FailureKind::Misuse, message).await
        }
    }
}

async fn read_error<E: DeserializeOwned>(attempt: &Attempt, name: &str, text: &str) -> E {
    match strict_json::from_str(text) {
        Ok(error) => error,
        Err(error) => {
            let message = format!("the recorded error of step `{name}` is not what the tool expects: {error}");
            attempt.fail(FailureKind::Corrupt, message).await
        }
    }
}
