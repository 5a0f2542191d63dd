//! Compensations: what undoes the work of a tool that does not end with success.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use longhaul_core::{FailureKind, limits};
use longhaul_engine::{Compensate, Retry, Tried};
use serde::Serialize;
use serde_json::Value;

use super::step_work::{StepContext, StepWork, is_final};
use super::{Run, TaskContext};
use crate::tools::handler::{Panicked, catch};

/// The first pause between two tries of a compensation that does not say it.
const PAUSE: Duration = Duration::from_secs(1);

impl TaskContext {
    /// Registers a compensation: work that undoes something if the task does not end with success. Await it, which
    /// takes no time and writes nothing.
    ///
    /// It runs if the tool returns an error, or a result that says so (`is_error`). It also runs if the task is
    /// cancelled, misses its deadline, or crashes too often. The client sees that end at once. Then a worker replays
    /// the tool up to the end of its record, and runs what the tool has registered by then, the last first. The tool
    /// needs a policy that says so: [`TaskPolicy::compensates`](crate::TaskPolicy::compensates).
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskContext;
    /// # use rmcp::ErrorData;
    /// # async fn book_hotel() -> Result<u64, ErrorData> { Ok(17) }
    /// # async fn cancel_hotel(_booking: u64) -> Result<(), ErrorData> { Ok(()) }
    /// # async fn pay(_key: &str) -> Result<(), ErrorData> { Ok(()) }
    /// # async fn refund(_key: &str) -> Result<(), ErrorData> { Ok(()) }
    /// # async fn tool(task: TaskContext) -> Result<(), ErrorData> {
    /// let hotel = task.try_step("hotel", book_hotel).await?;
    /// task.on_failure("cancel the hotel", move || cancel_hotel(hotel)).await;
    ///
    /// // Registered before the step: it also covers a payment whose worker died before it was recorded.
    /// let key = task.idempotency_key();
    /// let paid = key.clone();
    /// task.on_failure("refund", move || { let key = paid.clone(); async move { refund(&key).await } }).await;
    /// task.try_step("pay", || pay(&key)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Each compensation is a step of its own: it runs at least once, and its outcome is recorded. An error is tried
    /// again for six hours, unless [`Compensation::retry`] says otherwise, or the error cannot get better, as with
    /// [`try_step`](Self::try_step). One that is given up does not keep the others from running. The task's status
    /// message, a metric and a webhook then say so.
    ///
    /// Register it right after the step that it undoes, or right before, without other work in between. Its name is
    /// unique among the steps and compensations of the task. It cannot borrow from the tool.
    ///
    /// In a plain call, it runs before an error of the tool is returned, while the call has time. Nothing is recorded:
    /// if the caller leaves or the process dies, nothing is undone.
    pub fn on_failure<'a, W, Args>(&'a self, name: &'a str, work: W) -> Compensation<'a, W, Args>
    where
        W: StepWork<Args> + 'static,
        W::Error: Serialize,
    {
        Compensation { task: self, name, work, retry: None, args: PhantomData }
    }
}

/// A compensation, from [`TaskContext::on_failure`]. It is not registered until it is awaited.
#[must_use = "a compensation is not registered until it is awaited"]
pub struct Compensation<'a, W, Args> {
    task: &'a TaskContext,
    name: &'a str,
    work: W,
    retry: Option<Retry>,
    args: PhantomData<fn() -> Args>,
}

impl<W, Args> Compensation<'_, W, Args> {
    /// How often it is tried, instead of for six hours with growing pauses. No try begins after the task has expired.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }
}

impl<'a, W, Args> IntoFuture for Compensation<'a, W, Args>
where
    W: StepWork<Args> + 'static,
    W::Value: Send,
    W::Error: Serialize + Send + Sync + 'static,
    W::Future: 'static,
    Args: 'static,
{
    type Output = ();
    type IntoFuture = BoxFuture<'a, ()>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { task, name, work, retry, args: _ } = self;
        let retry = retry.unwrap_or_else(default_retry);
        let work = compensate(task.idempotency_key(), name.to_owned(), work);
        async move {
            let attempt = &task.0.attempt;
            match &task.0.run {
                Run::Task(tools) if !tools.shared.policies.compensates(&attempt.task().tool) => {
                    let message = format!(
                        "the tool registers the compensation `{name}`, and its policy does not allow that: add \
                         `.compensates()` to its `TaskPolicy`"
                    );
                    attempt.fail(FailureKind::Misuse, message).await
                }
                Run::Task(_) | Run::Plain(_) => attempt.on_failure(name, retry, work).await,
            }
        }
        .boxed()
    }
}

fn default_retry() -> Retry {
    let longest = Duration::from_millis(limits::CLEANUP_PAUSE_MS_MAX);
    Retry::exponential(PAUSE, longest).for_at_most(Duration::from_millis(limits::CLEANUP_MS_MAX))
}

/// The tries of a compensation. A panic is an error like others, so that it does not keep the others from running.
fn compensate<W, Args>(key: String, name: String, mut work: W) -> Compensate
where
    W: StepWork<Args> + 'static,
    W::Value: Send,
    W::Error: Serialize + Send + Sync + 'static,
    W::Future: 'static,
{
    Box::new(move |number| {
        let step = StepContext::of(&key, &name, number);
        let tried = work.run(step.clone());
        async move { outcome(catch(tried).await, &step) }.boxed()
    })
}

fn outcome<T, E: Serialize + 'static>(tried: Result<Result<T, E>, Panicked>, step: &StepContext) -> Tried {
    let error = match tried {
        Ok(Ok(_done)) => return Tried::Value("null".to_owned()),
        Ok(Err(error)) => error,
        Err(Panicked(words)) => return Tried::Failed(text(&format!("it panicked: {words}"))),
    };
    let text = serde_json::to_string(&error).unwrap_or_else(|error| text(&error.to_string()));
    if is_final(&error, step, None) { Tried::FailedForGood(text) } else { Tried::Failed(text) }
}

fn text(words: &str) -> String {
    Value::from(words).to_string()
}
