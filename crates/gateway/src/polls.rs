//! One poll of something that a server does without us: a connection, a quick request, and nothing is held after it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::try_join_all;
use longhaul::{Every, TaskContext};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, InputRequest, InputRequests,
    InputResponses, JsonObject,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::limits;
use crate::upstream::client::Client;
use crate::upstream::tasks::{Seen, Started, completed};
use crate::upstream::{RequestError, Upstream, failed};

/// The pauses between two polls: as long as somebody says, within limits, otherwise longer and longer.
pub(crate) fn pauses(said: Option<Duration>) -> Every {
    match said {
        Some(said) => Every::fixed(said.clamp(limits::POLL_EVERY_LEAST, limits::POLL_EVERY_MOST)),
        None => Every::growing(limits::POLL_FIRST, limits::POLL_LONGEST),
    }
}

/// Nothing, if the request was lost: that is no reason to stop polling.
pub(crate) fn unless_lost<T>(upstream: &Upstream, seen: Result<T, RequestError>) -> Result<Option<T>, ErrorData> {
    match seen {
        Ok(seen) => Ok(Some(seen)),
        Err(RequestError::Lost(why)) => {
            tracing::warn!(server = upstream.name(), why, "a poll of a server's work failed; the next one will tell");
            Ok(None)
        }
        Err(RequestError::Refused(error)) => Err(error),
    }
}

/// Calls a tool that is quick and asks nothing, on a connection of its own.
pub(crate) async fn call_once(
    upstream: &Upstream,
    task: String,
    tool: &str,
    arguments: JsonObject,
) -> Result<CallToolResult, RequestError> {
    let client = Client::unheard(upstream.name(), Some(task), &ClientCapabilities::default());
    let connection = upstream.connect_once(client).await?;
    let mut params = CallToolRequestParams::new(tool.to_owned());
    params.arguments = Some(arguments);
    match connection.request(async |peer| peer.call_tool_once(params).await).await? {
        CallToolResponse::Complete(result) => Ok(completed(result)),
        _ => Err(RequestError::Refused(failed(&format!("`{tool}` of `{}` did not answer at once", upstream.name())))),
    }
}

/// Reports the words of a server, if there are any, as the progress of our task. Those that begin as "3/10 reading"
/// have the numbers in them.
pub(crate) async fn report(task: &TaskContext, words: Option<&str>) {
    let Some(words) = words else { return };
    let (done, total, rest) = numbers(words);
    note(task, done, total, rest).await;
}

/// Reports how far the work is, in numbers and words.
pub(crate) async fn note(task: &TaskContext, done: f64, total: Option<f64>, words: impl Into<String>) {
    let report = task.progress(done).message(words);
    match total {
        Some(total) => report.of(total).await,
        None => report.await,
    }
}

/// What an earlier attempt has recorded as this step.
pub(crate) async fn recorded<T: Serialize + DeserializeOwned>(task: &TaskContext, step: &str) -> Option<T> {
    // Nothing is recorded here: a try that fails records nothing.
    if task.attempt() > 1 { task.try_step(step, async || Err::<T, ()>(())).await.ok() } else { None }
}

/// A state or message as a text.
pub(crate) fn in_words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn numbers(words: &str) -> (f64, Option<f64>, &str) {
    let (first, rest) = words.split_once(' ').unwrap_or((words, ""));
    let (done, total) = first.split_once('/').map_or((first, None), |(done, total)| (done, Some(total)));
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    match (number(done), total.map(number)) {
        (Some(done), None) => (done, None, rest),
        (Some(done), Some(Some(total))) => (done, Some(total), rest),
        _ => (0.0, None, words),
    }
}

/// The step that records which task of the server the call became.
pub(crate) const STARTED: &str = "task";

/// A task of a server, as one attempt of our task sees it.
pub(crate) struct Following<'c> {
    pub(crate) upstream: &'c Upstream,
    pub(crate) task: &'c TaskContext,
    /// What the caller can be asked.
    pub(crate) declared: &'c ClientCapabilities,
    pub(crate) started: Started,
}

/// How a poll ended the polling.
type End = Result<CallToolResponse, ErrorData>;

impl Following<'_> {
    /// Polls until the server's task has ended, and passes its questions on.
    ///
    /// # Errors
    /// Those of the server's task; that it was cancelled, or is not known any more.
    pub(crate) async fn to_the_end(&self) -> Result<CallToolResponse, ErrorData> {
        let every = pauses(self.started.every_ms.map(Duration::from_millis));
        let mut answered = BTreeSet::new();
        for round in 0..limits::ASKED_MAX {
            let asked: Result<InputRequests, End> =
                self.task.poll_until(&format!("asked {round}"), every, || self.poll(&answered)).await;
            let asked = match asked {
                Ok(asked) => asked,
                Err(end) => return end,
            };
            let answers = match self.ask(round, &asked).await {
                Ok(answers) => answers,
                Err(error) => return self.leave(error).await,
            };
            let sent: Result<(), ErrorData> =
                self.task.poll_until(&format!("answered {round}"), every, || self.answer(&answers)).await;
            sent?;
            answered.extend(asked.into_keys());
        }
        Err(failed(&format!("`{}` asked {} times", self.upstream.name(), limits::ASKED_MAX)))
    }

    /// Polls once, for questions that were not answered yet. An end is returned as the error, so that it is not
    /// recorded twice: it is the result of our task.
    async fn poll(&self, answered: &BTreeSet<String>) -> Result<Option<InputRequests>, End> {
        let seen = self.upstream.see_task(&self.started, self.task.idempotency_key(), self.declared).await;
        match unless_lost(self.upstream, seen).map_err(Err)? {
            None => Ok(None),
            Some(Seen::Working { message }) => {
                report(self.task, message.as_deref()).await;
                Ok(None)
            }
            Some(Seen::Asks(mut requests)) => {
                requests.retain(|key, _| !answered.contains(key));
                Ok(Some(requests).filter(|requests| !requests.is_empty()))
            }
            Some(Seen::Ended(end)) => Err(end.map(|result| (*result).into())),
        }
    }

    /// Asks the caller all questions at once.
    async fn ask(&self, round: u32, asked: &BTreeMap<String, InputRequest>) -> Result<InputResponses, ErrorData> {
        let asking = asked.iter().enumerate().map(async |(index, (key, request))| {
            let answer = self.task.request_input(&format!("task-{round}-{index}"), request.clone()).await?;
            Ok((key.clone(), answer))
        });
        try_join_all(asking).await.map(|answers| answers.into_iter().collect())
    }

    /// Cancels the server's task, whose question nobody answers, and ends ours with the error.
    async fn leave(&self, error: ErrorData) -> End {
        if let Err(why) = self.upstream.cancel_task(&self.started).await {
            tracing::warn!(server = self.upstream.name(), why, "a task of a server could not be cancelled");
        }
        Err(error)
    }

    /// Sends the answers. They may be sent twice: a server ignores those to questions that are not open.
    async fn answer(&self, answers: &InputResponses) -> Result<Option<()>, ErrorData> {
        let sent = self.upstream.answer_task(&self.started, self.declared, answers).await;
        unless_lost(self.upstream, sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_the_beginning_of_words_are_progress() {
        assert_eq!(numbers("3/10 reading files"), (3.0, Some(10.0), "reading files"));
        assert_eq!(numbers("0.5"), (0.5, None, ""));
        assert_eq!(numbers("reading 3/10"), (0.0, None, "reading 3/10"));
        assert_eq!(numbers("and/or more"), (0.0, None, "and/or more"));
        assert_eq!(numbers("inf more"), (0.0, None, "inf more"));
        assert_eq!(numbers(""), (0.0, None, ""));
    }

    #[test]
    fn what_a_server_says_about_pauses_is_kept_within_limits() {
        assert_eq!(pauses(Some(Duration::ZERO)), Every::fixed(limits::POLL_EVERY_LEAST));
        assert_eq!(pauses(Some(Duration::from_secs(2))), Every::fixed(Duration::from_secs(2)));
        assert_eq!(pauses(Some(Duration::MAX)), Every::fixed(limits::POLL_EVERY_MOST));
    }
}
