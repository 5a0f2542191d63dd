//! A task of a server behind a URL: polled until it has ended. Between two polls nothing is held.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::try_join_all;
use longhaul::TaskContext;
use rmcp::ErrorData;
use rmcp::model::{CallToolResponse, ClientCapabilities, InputRequest, InputRequests, InputResponses};

use crate::call::failed;
use crate::limits;
use crate::polls::{self, RequestError};
use crate::upstream::Upstream;
use crate::upstream::tasks::{Seen, Started};

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
        let every = polls::pauses(self.started.every_ms.map(Duration::from_millis));
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
        match self.upstream.see_task(&self.started, self.task.idempotency_key(), self.declared).await {
            Ok(Seen::Working { message }) => {
                polls::report(self.task, message.as_deref()).await;
                Ok(None)
            }
            Ok(Seen::Asks(mut requests)) => {
                requests.retain(|key, _| !answered.contains(key));
                Ok(Some(requests).filter(|requests| !requests.is_empty()))
            }
            Ok(Seen::Ended(end)) => Err(end.map(|result| (*result).into())),
            Err(RequestError::Lost(why)) => {
                polls::poll_again(self.upstream, &why);
                Ok(None)
            }
            Err(RequestError::Refused(error)) => Err(Err(error)),
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
        match self.upstream.answer_task(&self.started, self.declared, answers).await {
            Ok(()) => Ok(Some(())),
            Err(RequestError::Lost(why)) => {
                polls::poll_again(self.upstream, &why);
                Ok(None)
            }
            Err(RequestError::Refused(error)) => Err(error),
        }
    }
}
