//! Waits for values from outside. A tool polls until the value is there, or gives away a token and waits for its
//! holder.

use std::future::Future;
use std::time::Duration;

use longhaul_core::{FailureKind, Timestamp, strict_json};
use longhaul_engine::{Attempt, Every};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Run, TaskContext, read, write};
use crate::callbacks::CallbackToken;

impl TaskContext {
    /// Polls until a value is there, and returns it. It is for a job that runs elsewhere, a file that will come, or a
    /// state that will be reached. `look` returns `None` to be called again after a pause. Between two polls the task
    /// sleeps: nothing runs, and nothing is paid.
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
    /// a [step](Self::try_step) of this name: a week of looks takes no more of the task's journal than one. An interval
    /// that grows takes one entry more, a timer that says when it began, so that a crash does not begin it again.
    ///
    /// A poll may be repeated at any time, so it should change nothing. Each attempt that comes here polls at once.
    /// This includes attempts that began for another reason, such as an answer to a concurrent question. The tool runs
    /// from its first line for every poll after a long pause, so put earlier work into steps. In a race
    /// ([`select!`](futures::select)) that another branch wins, the polls end.
    ///
    /// In a plain call, the polls and the pauses between them are limited as [`sleep`](Self::sleep) is.
    ///
    /// # Errors
    /// The errors of `look`. They are not recorded: another call of this method polls again.
    pub async fn poll_until<T, E, F, Fut>(&self, name: &str, interval: impl Into<Every>, mut look: F) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<Option<T>, E>>,
    {
        let (every, attempt) = (interval.into(), &self.0.attempt);
        let look = || {
            let looked = look();
            async { Ok(found(attempt, name, every, looked.await?).await) }
        };
        let text = attempt.poll_until(name, every, look).await?;
        Ok(read(attempt, name, &text).await)
    }

    /// Gives away a token, and waits until its holder sends a value: `POST /callbacks/TOKEN` with JSON. Meanwhile
    /// nothing runs, for days if need be. `None` if no value has come after `wait`.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use std::time::Duration;
    /// # use longhaul::TaskContext;
    /// # use rmcp::ErrorData;
    /// # #[derive(serde::Deserialize)]
    /// # struct Decision { approved: bool }
    /// # async fn mail(_to: &str, _link: String) -> Result<(), ErrorData> { Ok(()) }
    /// # async fn tool(task: TaskContext) -> Result<(), ErrorData> {
    /// let two_days = Duration::from_secs(2 * 24 * 3600);
    /// let ask = |token| mail("boss@example.com", format!("https://approvals.example.com/?token={token}"));
    /// let decision: Option<Decision> = task.callback("approval", two_days, ask).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// `hand_out` is a [step](Self::try_step) of this name: it does not run again once it is recorded. After a crash
    /// before that, it runs again with another token, and the first value for any of the tokens counts. A token is
    /// valid for this callback of this task alone, until its time has passed. Its holder may send the value, and
    /// nothing else. So give it only to people and systems that may decide.
    ///
    /// A value that is not a `T` ends the task as failed. A `T` of [`Value`](serde_json::Value) takes anything. A plain
    /// call cannot wait for callbacks: there, the tool ends with an error that says so.
    ///
    /// # Errors
    /// The errors of `hand_out`. They are not recorded: another call of this method is a new try.
    pub async fn callback<T, E, F, Fut>(&self, name: &str, wait: Duration, hand_out: F) -> Result<Option<T>, E>
    where
        T: DeserializeOwned,
        F: FnOnce(String) -> Fut,
        Fut: Future<Output = Result<(), E>>,
    {
        let attempt = &self.0.attempt;
        match &self.0.run {
            Run::Task(_) => {}
            Run::Plain(call) if call.is_outside => {
                tracing::error!(
                    name,
                    "this callback cannot come: serve the handler with Longhaul, and call its \
                                       tool as a task"
                );
                return Ok(None);
            }
            Run::Plain(_) => {
                let message =
                    format!("this tool waits for the callback `{name}`, which a plain call cannot; call it as a task");
                return attempt.needs_a_task(message).await;
            }
        }
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let text = attempt
            .step(name, async || {
                let at = attempt.now();
                let until = at.plus_ms(wait_ms);
                attempt.fits_until(&format!("the callback `{name}`"), until).await;
                let token = CallbackToken::random(attempt.task().key(), attempt.ids());
                // On record before anybody has it: the value may come before the hand-out is over.
                attempt.admit_token(&token.hash(), name, until).await;
                hand_out(token.text()).await?;
                Ok(write(attempt, name, HandedOut { at, until }).await)
            })
            .await?;
        let HandedOut { at, until } = read(attempt, name, &text).await;
        match attempt.signal(name, at, Some(until)).await {
            Some(text) => Ok(Some(read_value(attempt, name, &text).await)),
            None => Ok(None),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct HandedOut {
    at: Timestamp,
    until: Timestamp,
}

async fn read_value<T: DeserializeOwned>(attempt: &Attempt, name: &str, text: &str) -> T {
    match strict_json::from_str(text) {
        Ok(value) => value,
        Err(error) => {
            let message = format!("the value that the callback `{name}` brought is not what the tool expects: {error}");
            attempt.fail(FailureKind::Tool, message).await
        }
    }
}

/// The text of the value that a poll has found. If it has found nothing, and no second poll can follow, the task fails.
async fn found<T: Serialize>(attempt: &Attempt, name: &str, every: Every, found: Option<T>) -> Option<String> {
    if let Some(value) = found {
        return Some(write(attempt, name, value).await);
    }
    // The same in every attempt: polls that had time when they began continue for as long as the task.
    if !every.is_growing() {
        let second = attempt.recorded_now().plus_ms(every.pause_ms(0));
        attempt.fits_until(&format!("the pause before the second poll of `{name}`"), second).await;
    }
    None
}
