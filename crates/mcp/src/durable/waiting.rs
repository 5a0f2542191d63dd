//! Callers who wait for the end of a task while their call is open, and what each gets.

#![expect(deprecated, reason = "clients of all revisions may ask for log messages")]

use std::collections::BTreeMap;

use longhaul_core::{Ask, Progress, ResultKind, State, Task, TaskKey};
use longhaul_engine::{Listener, PollError};
use rmcp::model::{
    CallToolResponse, InputRequests, InputRequiredResult, LoggingLevel, ProgressNotificationParam, ResultType,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use tokio_util::sync::CancellationToken;

use crate::admission::streams::Held;
use crate::reply::errors;
use crate::revision::Generation;
use crate::signing::signer::{Binding, Rounds};
use crate::state::Shared;
use crate::tool_calls::asking::{self, NoAnswer};
use crate::tool_calls::caller::{self, Caller};
use crate::views::fields::{self, Outcome};
use crate::views::{job, task as task_view, verbatim};
use crate::waiting::task_logs::{Following, Said};
use crate::waiting::watch::{Event, Reported, TaskWatch};

/// Which view of a task the caller gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// The tool's own answer; while the task has not ended, the id of a job.
    Result,
    /// The tool's own answer; while the task has not ended, the task itself.
    ResultOrHandle,
    /// The same, and what the tool asks meanwhile as the tool itself would have asked it.
    ResultOrQuestionsOrHandle,
    Status,
}

/// A task, and a listener that has listened to it since before it was read.
pub(super) struct Heard {
    pub(super) task: Task,
    pub(super) listener: Listener,
}

pub(super) struct Waiting<'a> {
    pub(super) shared: &'a Shared,
    pub(super) context: &'a RequestContext<RoleServer>,
    pub(super) caller: &'a Caller,
    pub(super) binding: &'a Binding,
    pub(super) view: View,
    pub(super) wait_ms: u64,
}

impl Waiting<'_> {
    /// Waits until the task ends or asks something, or the time has passed.
    pub(super) async fn follow(&self, key: TaskKey) -> Result<CallToolResponse, ErrorData> {
        let mut listener = self.shared.engine.listener();
        match listener.poll(&key).await {
            Ok(task) => self.follow_heard(Heard { task, listener }).await,
            Err(PollError::NotFound) => self.gone(&key),
            Err(error @ PollError::Unavailable(_)) => Err(errors::of_poll(error)),
        }
    }

    pub(super) async fn follow_heard(&self, heard: Heard) -> Result<CallToolResponse, ErrorData> {
        let Heard { task, listener } = heard;
        let key = task.key();
        self.shared.polls.told(&task);
        let (wait_ms, _held) = self.may_wait(&task).await;
        let mut watch = self.watch(listener, task, wait_ms);
        let mut log = self.wanted_level().map(|level| Following::new(self.shared.logs.of(key.id), level));
        while let Some(event) = self.next(&mut watch, log.as_mut()).await {
            if let Some(answer) = self.react(&key, &event, &mut watch).await? {
                return Ok(answer);
            }
        }
        self.gone(&key)
    }

    /// The next event. Log messages of the tool until then are passed on.
    async fn next(&self, watch: &mut TaskWatch, log: Option<&mut Following>) -> Option<Event> {
        let Some(log) = log else { return watch.next().await };
        // It goes on while messages are sent: a tool that never stops logging would hold it up otherwise.
        let mut next = std::pin::pin!(watch.next());
        loop {
            let (messages, event) = tokio::select! {
                biased;
                event = &mut next => (log.unread(), Some(event)),
                messages = log.next() => (messages, None),
            };
            for message in messages {
                self.notify(message).await;
            }
            if let Some(event) = event {
                return event;
            }
        }
    }

    /// From which level on the caller wants log messages.
    fn wanted_level(&self) -> Option<LoggingLevel> {
        match self.caller.generation {
            Generation::PerRequest => self.context.meta.log_level(),
            Generation::Handshake => caller::parts(self.context).map(|parts| self.shared.logs.level(&parts.headers)),
        }
    }

    /// The caller's answer after `event`; `None` if it keeps waiting.
    async fn react(
        &self,
        key: &TaskKey,
        event: &Event,
        watch: &mut TaskWatch,
    ) -> Result<Option<CallToolResponse>, ErrorData> {
        match event {
            Event::Progress(_, progress) => {
                self.notify_progress(progress).await;
                Ok(None)
            }
            Event::Question(task, _) => self.question(task, event, watch).await,
            Event::Ended(task) => self.ended(task).await,
            Event::Left => self.left(key).await.map(Some),
            Event::Close(tasks) => match tasks.first() {
                Some(task) => Ok(Some(self.unfinished(task))),
                None => self.gone(key).map(Some),
            },
            Event::Gone(_) => self.gone(key).map(Some),
            Event::Changed(_) | Event::Status(_) | Event::KeepAlive => Ok(None),
        }
    }

    /// The answer if the task has not ended when the time has passed.
    fn unfinished(&self, task: &Task) -> CallToolResponse {
        let now = self.shared.engine.ports().clock.now();
        match self.view {
            View::Result | View::Status => job::unfinished(task, now, self.shared.settings.inline_wait_ms).into(),
            View::ResultOrHandle | View::ResultOrQuestionsOrHandle => task_view::created(task, now).into(),
        }
    }

    /// Asks the questions of the task; returns the answer to the call if the call ends with them.
    async fn question(
        &self,
        task: &Task,
        event: &Event,
        watch: &mut TaskWatch,
    ) -> Result<Option<CallToolResponse>, ErrorData> {
        if self.view == View::ResultOrHandle {
            return Ok(Some(self.unfinished(task)));
        }
        let asks = self.may_ask(task)?;
        if asks.is_empty() && self.view == View::ResultOrQuestionsOrHandle {
            return Ok(Some(self.unfinished(task)));
        }
        if asks.is_empty() {
            // Once another client has answered some of them, this client may be able to answer the others.
            watch.put_back(event);
            return Ok(None);
        }
        match self.caller.generation {
            Generation::PerRequest => self.round(task, asks).map(Some),
            Generation::Handshake => self.converse(task, asks, watch).await,
        }
    }

    /// Asks the client while its call is open, for as long as the task asks that. If the client does not answer, the
    /// questions stay open and the call ends with the id of the job.
    async fn converse(
        &self,
        task: &Task,
        asks: InputRequests,
        watch: &mut TaskWatch,
    ) -> Result<Option<CallToolResponse>, ErrorData> {
        let (key, names) = (task.key(), asks.keys().cloned().collect::<Vec<_>>());
        let still_asks = |task: &Task| names.iter().all(|name| task.answerable().any(|ask| ask.key == *name));
        // The time that the user takes does not count.
        watch.wait_until_after(self.wait_ms.saturating_add(self.shared.settings.ask_ms_max));
        let withdrawn = CancellationToken::new();
        let mut asking = std::pin::pin!(self.ask_all(&key, asks, &withdrawn));
        loop {
            let event = tokio::select! {
                biased;
                event = watch.next() => event,
                asked = &mut asking => match asked? {
                    Asked::Answered => break,
                    Asked::Open => return Ok(Some(self.unfinished(task))),
                },
            };
            match event {
                Some(Event::Progress(_, progress)) => self.notify_progress(&progress).await,
                Some(Event::Changed(task) | Event::Status(task) | Event::Question(task, _)) if still_asks(&task) => {}
                Some(event @ (Event::Changed(_) | Event::Status(_) | Event::Question(..))) => {
                    watch.put_back(&event);
                    withdrawn.cancel();
                    asking.await?;
                    break;
                }
                Some(Event::KeepAlive) => {}
                Some(event @ (Event::Ended(_) | Event::Gone(_) | Event::Left | Event::Close(_))) => {
                    withdrawn.cancel();
                    asking.await?;
                    return Box::pin(self.react(&key, &event, watch)).await;
                }
                None => return Ok(None),
            }
        }
        watch.wait_until_after(self.wait_ms);
        watch.look().await;
        Ok(None)
    }

    /// How long the caller waits: not at all if its owner has too many requests that wait. Then the job's id is the
    /// answer, and nothing is lost.
    async fn may_wait(&self, task: &Task) -> (u64, Option<Held>) {
        if self.wait_ms == 0 || task.has_ended() {
            return (self.wait_ms, None);
        }
        match self.shared.streams.open_if_free(self.caller.owner, self.wait_ms).await {
            Some(held) => (self.wait_ms, Some(held)),
            None => (0, None),
        }
    }

    fn watch(&self, listener: Listener, task: Task, wait_ms: u64) -> TaskWatch {
        let Shared { settings, closing, .. } = self.shared;
        TaskWatch::new(listener, settings, closing, wait_ms, [(task, Reported::default())])
            .starting_with_short_pauses()
            .until_left(self.context.ct.clone())
    }

    /// The answer if the task does not exist, or no longer exists.
    fn gone(&self, key: &TaskKey) -> Result<CallToolResponse, ErrorData> {
        match self.view {
            View::Status => Ok(job::not_found(&key.id.to_string()).into()),
            View::Result | View::ResultOrHandle | View::ResultOrQuestionsOrHandle => Err(errors::task_not_found()),
        }
    }

    /// Cancels the task if its caller cancels the call, or leaves before it has the id. No other client can know the
    /// id. A caller with an idempotency key can find the task again.
    async fn left(&self, key: &TaskKey) -> Result<CallToolResponse, ErrorData> {
        let is_cancelled = caller::ending(self.context).is_some_and(|ending| ending.by_client.is_cancelled());
        if self.view != View::Status && (is_cancelled || !caller::has_idempotency_key(self.context)) {
            self.shared.engine.cancel(key).await.map_err(errors::of_poll)?;
        }
        Err(ErrorData::internal_error("the client has left", None))
    }

    async fn notify_progress(&self, progress: &Progress) {
        let Some(token) = self.context.meta.get_progress_token() else { return };
        let mut param = ProgressNotificationParam::new(token, progress.done);
        param.total = progress.total;
        param.message.clone_from(&progress.message);
        if let Err(error) = self.context.peer.notify_progress(param).await {
            tracing::debug!(%error, "a progress notification was not sent");
        }
    }

    async fn notify(&self, message: Said) {
        if let Err(error) = self.context.peer.send_notification(message.into()).await {
            tracing::debug!(%error, "a message of a tool was not sent");
        }
    }

    /// The outcome, in the form that the caller gets.
    async fn ended(&self, task: &Task) -> Result<Option<CallToolResponse>, ErrorData> {
        let engine = &self.shared.engine;
        if let (State::Completed { result, kind }, true) = (&task.state, self.view != View::Status) {
            let text = fields::object(engine.load(&task.key(), result).await.map_err(errors::of_load)?)?;
            let mut result = verbatim::result(text, *kind == ResultKind::ToolError);
            // For clients of `2026-07-28`; `rmcp` removes it for older ones.
            result.result_type = Some(ResultType::COMPLETE);
            return Ok(Some(result.into()));
        }
        let Some(outcome) = Outcome::of(engine, task).await.map_err(errors::of_load)? else { return Ok(None) };
        match outcome {
            outcome if self.view == View::Status => Ok(Some(job::ended(task, outcome).into())),
            // Only a completed task has one, which was read above.
            Outcome::Result(_) => Ok(None),
            Outcome::Error(error) => Err(match self.caller.generation {
                Generation::PerRequest => error,
                Generation::Handshake => errors::for_older(error),
            }),
            Outcome::Cancelled => Err(ErrorData::internal_error("the call was cancelled", None)),
        }
    }

    /// The questions of the task, if this client can be asked all of them; otherwise none.
    fn may_ask(&self, task: &Task) -> Result<InputRequests, ErrorData> {
        let State::InputRequired { asks, .. } = &task.state else { return Ok(InputRequests::new()) };
        let read = |ask: &Ask| Ok((ask.key.clone(), asking::read_carrying(&ask.request)?));
        let requests = asks.iter().map(read).collect::<Result<InputRequests, _>>();
        let requests = requests.map_err(|error| asking::unreadable(&error))?;
        let can = requests.values().all(|request| asking::check_declared(&self.caller.capabilities, request).is_ok());
        Ok(if can { requests } else { InputRequests::new() })
    }

    /// Ends the call with the questions; its retry continues with the task, for as long as there is one.
    fn round(&self, task: &Task, asks: InputRequests) -> Result<CallToolResponse, ErrorData> {
        let rounds = Rounds { job: Some(task.id), attempt: Some(task.attempt), ..Rounds::default() };
        let state = self.shared.signer.sign_rounds(rounds, self.binding, task.expires_at)?;
        Ok(InputRequiredResult::new(Some(asks), Some(state)).into())
    }

    /// Asks the client while its call is open. Only what the client sent is an answer.
    async fn ask_all(
        &self,
        key: &TaskKey,
        asks: InputRequests,
        withdrawn: &CancellationToken,
    ) -> Result<Asked, ErrorData> {
        let answers = asks.into_iter().map(|(name, request)| async move {
            match asking::ask(&self.context.peer, request, withdrawn).await {
                Ok(answer) => Some((name, answer.to_string())),
                Err(NoAnswer::Refused(error)) => Some((name, asking::refusal(&error))),
                Err(NoAnswer::Open(error)) => {
                    tracing::info!(task_id = %key.id, %error, "a question stays open");
                    None
                }
            }
        });
        let answers = futures::future::join_all(answers).await;
        let outcome = if answers.iter().all(Option::is_some) { Asked::Answered } else { Asked::Open };
        let answers: BTreeMap<_, _> = answers.into_iter().flatten().collect();
        if !answers.is_empty() {
            self.shared.engine.answer(key, &answers).await.map_err(errors::of_answer)?;
        }
        Ok(outcome)
    }
}

/// The outcome of questions that a client was asked while its call was open.
enum Asked {
    /// The client has answered all of them, or refused to.
    Answered,
    /// Some are still open.
    Open,
}
