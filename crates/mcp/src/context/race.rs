//! Timeouts, and races of branches: every attempt continues with the branch that came first.

use std::future::Future;
use std::time::Duration;

use rmcp::ErrorData;

use super::TaskContext;

/// The time of a [`TaskContext::timeout`] has elapsed. A tool may return it as an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the timeout `{name}` has elapsed, {} ms after it began", .after.as_millis())]
#[non_exhaustive]
pub struct TimedOut {
    /// The name of the timeout.
    pub name: String,
    /// How long it was.
    pub after: Duration,
}

impl From<TimedOut> for ErrorData {
    fn from(timed_out: TimedOut) -> Self {
        Self::internal_error(timed_out.to_string(), None)
    }
}

impl TaskContext {
    /// Runs `future` for at most `time`: steps, sleeps, questions, callbacks, calls of other tools, or anything that is
    /// made of them. While it only waits, nothing runs. The task resumes when the wait or the time ends.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use std::time::Duration;
    /// # use longhaul::{Answer, TaskContext};
    /// # use rmcp::{ErrorData, schemars};
    /// # #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// # struct Approval { approved: bool }
    /// async fn is_approved(task: &TaskContext) -> Result<bool, ErrorData> {
    ///     let question = task.ask::<Approval>("approve", "Refund 120 euros?");
    ///     match task.timeout("approval", Duration::from_secs(3600), question).await {
    ///         Ok(answer) => Ok(answer?.accepted().is_some_and(|form| form.approved)),
    ///         Err(_timed_out) => Ok(false), // in every later attempt too
    ///     }
    /// }
    /// ```
    ///
    /// The deadline is recorded when this is first called, and the outcome as a step of this name. So every attempt has
    /// the same deadline and takes the same branch. That takes two writes and two entries of the journal. A future that
    /// can end with recorded values when the tool is resumed counts as in time. It begins no step after the deadline.
    ///
    /// After the time, the future is dropped at its await point. Later attempts replay only the entries that it had
    /// seen. Its question is withdrawn. A step of it may have been done. A tool that it called runs on, unless this
    /// task fails. A token of its callback stays valid. Its compensations stay registered.
    ///
    /// Pass a pinned future by reference (`&mut question`) to continue to wait for it afterwards.
    ///
    /// A timeout that ends after the task's deadline fails the task at once. A second step, race or timeout of this
    /// name fails it too. In a plain call nothing is recorded, and a call that starts again with answers begins to
    /// count again.
    ///
    /// # Errors
    /// [`TimedOut`] after the time.
    pub fn timeout<'a, F: Future + 'a>(
        &'a self,
        name: &'a str,
        time: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, TimedOut>> {
        let future = Box::pin(future);
        async move {
            let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            let output = self.0.attempt.timeout(name, ms, future).await;
            output.ok_or_else(|| TimedOut { name: name.to_owned(), after: time })
        }
    }

    /// Runs branches until the first one ends, and returns its output. A branch is a step, a sleep, a question, a
    /// callback, a call of another tool, or anything that is made of them. Box branches of different types.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use std::time::Duration;
    /// # use futures::FutureExt;
    /// # use longhaul::TaskContext;
    /// # use rmcp::ErrorData;
    /// # async fn has_arrived() -> Result<Option<bool>, ErrorData> { Ok(Some(true)) }
    /// # async fn mail(_to: &str, _token: String) -> Result<(), ErrorData> { Ok(()) }
    /// async fn arrival(task: &TaskContext) -> Result<bool, ErrorData> {
    ///     let day = Duration::from_secs(86_400);
    ///     let seen = task.poll_until("arrival", Duration::from_secs(600), has_arrived);
    ///     let told = async {
    ///         let told = task.callback("told", day, |token| mail("stock@example.com", token)).await?;
    ///         Ok(told.unwrap_or(false))
    ///     };
    ///     task.race("arrived", [seen.boxed(), told.boxed()]).await
    /// }
    /// ```
    ///
    /// The branch that came first is recorded as a step of this name, in one write, and wins in every later attempt.
    /// The others replay only the entries that they had seen. If several are ready at the same time, the first of them
    /// counts. No branch begins a step once another one is ready.
    ///
    /// The other branches are dropped when it ends. Their questions are withdrawn. A step of them may have been done. A
    /// tool that they called runs on, unless this task fails. Tokens of their callbacks stay valid. Their compensations
    /// stay registered.
    ///
    /// Sleeps in a branch are counted on their own, and `now()`, `random()` and `uuid()` are the same in every attempt.
    ///
    /// A race without branches fails the task. A second step, race or timeout of this name fails it too. In a plain
    /// call nothing is recorded.
    pub fn race<'a, B: Future + 'a>(
        &'a self,
        name: &'a str,
        branches: impl IntoIterator<Item = B>,
    ) -> impl Future<Output = B::Output> {
        self.0.attempt.race(name, branches)
    }
}
