//! Polling at something again and again until it is there.

use std::future::Future;

use longhaul_engine::Every;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Run, TaskContext, read, write};

impl TaskContext {
    /// Polls at something until it is there, and returns what was found: for a job that runs elsewhere, a file that
    /// will come, a state that will be reached. `poll` returns `None` to be called again after a pause. Between two
    /// polls the task sleeps: nothing runs, and nothing is paid.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use std::time::Duration;
    /// # use longhaul::{Every, TaskContext};
    /// # use rmcp::ErrorData;
    /// # async fn start(_key: &str) -> Result<String, ErrorData> { Ok("job-17".to_owned()) }
    /// # async fn report_of(_job: &str) -> Result<Option<String>, ErrorData> { Ok(None) }
    /// async fn report(task: TaskContext) -> Result<String, ErrorData> {
    ///     let key = task.idempotency_key();
    ///     let job = task.try_step("start", || start(&key)).await?;
    ///     let every = Every::growing(Duration::from_secs(1), Duration::from_secs(300));
    ///     task.poll_until("report", every, || report_of(&job)).await
    /// }
    /// ```
    ///
    /// The interval is a [`Duration`](std::time::Duration), or [`Every::growing`]. Only what was found is recorded, as
    /// a [step](Self::try_step) of this name: a week of polls takes no more of the task's journal than one. An interval
    /// that grows takes one entry more, a timer that says when it began, so that a crash does not begin it again.
    ///
    /// A poll may be repeated at any time, so it should change nothing. Each attempt that comes here polls at once,
    /// also if it began for another reason, such as an answer to a question that is asked concurrently. The tool runs
    /// from its first line for every look after a long pause; put what comes before into steps. In a race
    /// ([`select!`](futures::select)) that another branch wins, the polls end.
    ///
    /// In a plain call, the polls and the pauses between them are limited as [`sleep`](Self::sleep) is.
    ///
    /// # Errors
    /// Those of `poll`. They are not recorded: calling this again polls again.
    pub async fn poll_until<T, E, F, Fut>(&self, name: &str, interval: impl Into<Every>, mut poll: F) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<Option<T>, E>>,
    {
        let every = interval.into();
        let attempt = match &self.0.run {
            Run::Task(attempt) => attempt,
            Run::Plain(call) => return call.poll_until(every, poll).await,
        };
        let poll = || {
            let polled = poll();
            async {
                match polled.await? {
                    Some(value) => Ok(Some(write(attempt, name, value).await)),
                    None => Ok(None),
                }
            }
        };
        let text = attempt.poll_until(name, every, poll).await?;
        Ok(read(attempt, name, &text).await)
    }
}
