//! Callers who wait for the end of a task while their call is open, and what each gets. Nothing is spawned while they
//! wait: the answer is JSON if nothing is sent before it, and otherwise the end of a stream.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::Response;
use longhaul_core::{Ask, ResultKind, State, Task, TaskId, TaskKey};
use longhaul_engine::Listener;
use rmcp::ErrorData;
use rmcp::model::{ClientCapabilities, ProgressToken, RequestId, ResultType, ServerJsonRpcMessage};
use serde_json::{Value, json};

use super::answered::{answer_with, status, text, written};
use crate::Body;
use crate::admission::streams::Held;
use crate::protocol_version::Endpoint;
use crate::reply::sse::{self, Frames};
use crate::reply::{self, errors};
use crate::request::incoming::Incoming;
use crate::revision::Generation;
use crate::signing::signer::{Binding, Rounds};
use crate::state::Shared;
use crate::tool_calls::asking::{self, Awaited, NoAnswer};
use crate::tool_calls::cancelling::{self, Leaving};
use crate::views::fields::{self, Outcome};
use crate::views::{job, revised, task as task_view, verbatim};
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

/// A message to the client.
enum Outgoing {
    Before(String),
    /// A sign that the server is still working.
    Nothing,
    Last(Result<String, ErrorData>),
    /// Nothing: the client has cancelled the call, and gets no answer.
    Cancelled,
}

/// A question that the client was asked, under this id.
struct Asked {
    id: String,
    answer: BoxFuture<'static, Result<Value, NoAnswer>>,
}

pub(super) struct Waiting {
    shared: Arc<Shared>,
    key: TaskKey,
    id: RequestId,
    /// Names the call in the ids of its questions.
    name: TaskId,
    questions: u32,
    asked: BTreeMap<String, Asked>,
    generation: Generation,
    revision: String,
    capabilities: ClientCapabilities,
    accepts_streams: bool,
    binding: Binding,
    view: View,
    wait_ms: u64,
    /// The token for progress notifications, if the client wants any.
    progress_token: Option<ProgressToken>,
    log: Option<Following>,
    watch: TaskWatch,
    queue: VecDeque<Outgoing>,
    /// Ends when the client cancels the call.
    cancelled: BoxFuture<'static, ()>,
    leaving: Leaving,
    _held: Option<Held>,
}

impl Waiting {
    /// Waits for a task to which `listener` has listened since before it was read. An owner who has too many requests
    /// that wait does not wait: the job's id is the answer then, and nothing is lost.
    pub(super) async fn new(
        call: &Incoming<'_>,
        endpoint: &Endpoint,
        (task, listener, leaving): (Task, Listener, Leaving),
        binding: Binding,
        (view, wait_ms): (View, u64),
    ) -> Self {
        let shared = Arc::clone(endpoint.shared());
        let (meta, key, ports) = (call.meta.whole(), task.key(), shared.engine.ports());
        shared.polls.told(&task);
        let waits = wait_ms > 0 && !task.has_ended();
        let held = if waits { shared.streams.open_if_free(call.owner, wait_ms).await } else { None };
        let granted_ms = if waits && held.is_none() { 0 } else { wait_ms };
        let level = match call.client.generation() {
            Generation::PerRequest => meta.log_level(),
            Generation::Handshake => Some(shared.logs.level(call.http.headers())),
        };
        let (settings, tasks) = (&shared.settings, [(task, Reported::default())]);
        Self {
            key,
            id: call.id.clone(),
            name: ports.ids.task_id(ports.clock.now()),
            questions: 0,
            asked: BTreeMap::new(),
            generation: call.client.generation(),
            revision: call.client.revision().to_owned(),
            capabilities: call.capabilities(),
            accepts_streams: sse::is_accepted(call.http.headers()),
            binding,
            view,
            wait_ms,
            progress_token: meta.get_progress_token(),
            log: level.map(|level| Following::new(shared.logs.of(key.id), level)),
            watch: TaskWatch::new(listener, settings, &shared.closing, granted_ms, tasks).starting_with_short_pauses(),
            queue: VecDeque::new(),
            cancelled: Box::pin(cancelling::of_request(
                Arc::clone(&shared),
                call.owner,
                cancelling::mailbox(call.client, &call.id),
            )),
            leaving,
            _held: held,
            shared,
        }
    }

    pub(super) async fn answer(mut self) -> Response<Body> {
        loop {
            return match self.next_outgoing().await {
                None => reply::error(&self.id, &ErrorData::internal_error("the call ended without an answer", None)),
                Some(Outgoing::Last(outcome)) => answer_with(status(self.generation, &outcome), &self.id, outcome),
                Some(Outgoing::Before(text)) => sse::stream(Some(sse::event(&text)), self),
                // A stream without messages: it is the only kind of body that need not have an answer in it.
                Some(Outgoing::Cancelled) => sse::response(futures::stream::empty()),
                Some(Outgoing::Nothing) => continue,
            };
        }
    }

    /// The next message; `None` after the end.
    async fn next_outgoing(&mut self) -> Option<Outgoing> {
        loop {
            if let Some(outgoing) = self.queue.pop_front() {
                self.watch.sent();
                return Some(outgoing);
            }
            let Self { watch, asked, cancelled, log, .. } = self;
            let said = async {
                match log {
                    Some(log) => log.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                event = watch.next() => self.take(event?).await,
                said = said => self.pass_on(said),
                (name, answer) = answered(asked) => self.answered(name, answer).await,
                () = cancelled => {
                    self.leaving.cancels(None);
                    self.watch.stop();
                    if self.view != View::Status {
                        cancelling::cancel(&self.shared.engine, &self.key).await;
                    }
                    return Some(Outgoing::Cancelled);
                }
            }
        }
    }

    async fn take(&mut self, event: Event) {
        let unread = self.log.as_mut().map(Following::unread);
        self.pass_on(unread.unwrap_or_default());
        match &event {
            Event::Progress(_, progress) => {
                let token = self.progress_token.as_ref();
                let message = token.map(|token| fields::progress_notification(token, progress, []));
                self.queue.extend(message.map(Outgoing::Before));
            }
            Event::Changed(task) if !self.asked.is_empty() => self.withdraw(Some(task)).await,
            Event::Question(task, ask) if !self.asked.contains_key(&ask.key) => self.question(task, &event),
            Event::Ended(task) => {
                let outcome = self.ended(task).await;
                self.end(outcome).await;
            }
            Event::Close(tasks) => {
                let outcome = tasks.first().map_or_else(|| self.gone(), |task| self.unfinished(task));
                self.end(outcome).await;
            }
            Event::Gone(_) => self.end(self.gone()).await,
            Event::KeepAlive => self.queue.push_back(Outgoing::Nothing),
            Event::Changed(_) | Event::Question(..) | Event::Status(_) => {}
        }
    }

    /// Withdraws the questions that `task` no longer asks.
    async fn withdraw(&mut self, task: Option<&Task>) {
        let still_asks = |name: &str| task.is_some_and(|task| task.answerable().any(|ask| ask.key == name));
        let queue = &mut self.queue;
        self.asked.retain(|name, Asked { id, .. }| {
            let stays = still_asks(name);
            if !stays {
                let params = json!({"requestId": id, "reason": "the question is no longer asked"});
                let told = json!({"jsonrpc": "2.0", "method": cancelling::METHOD, "params": params});
                queue.push_back(Outgoing::Before(told.to_string()));
            }
            stays
        });
        if task.is_some() && self.asked.is_empty() {
            self.watch.wait_until_after(self.wait_ms);
            self.watch.look().await;
        }
    }

    /// Asks what the task asks, or ends the call with its questions or without them.
    fn question(&mut self, task: &Task, event: &Event) {
        let asks = task.state.asks();
        let can_be_asked = match asks.iter().map(|ask| asking::is_declared(&self.capabilities, ask)).collect() {
            Ok::<Vec<_>, _>(each) => each.into_iter().all(|is_declared| is_declared),
            Err(error) => return self.finish(Err(error)),
        };
        match (self.view, self.generation) {
            (View::ResultOrHandle, _) => self.finish(self.unfinished(task)),
            (View::ResultOrQuestionsOrHandle, _) if !can_be_asked => self.finish(self.unfinished(task)),
            // Once another client has answered some of them, this client may be able to answer the others.
            _ if !can_be_asked => self.watch.put_back(event),
            (_, Generation::PerRequest) => self.finish(self.round(task)),
            (_, Generation::Handshake) => {
                // The time that the user takes does not count.
                self.watch.wait_until_after(self.wait_ms.saturating_add(self.shared.settings.ask_ms_max));
                if let Err(error) = asks.iter().try_for_each(|ask| self.ask(ask)) {
                    tracing::info!(task_id = %task.id, %error, "a question stays open");
                    self.finish(self.unfinished(task));
                }
            }
        }
    }

    /// Asks the client while its call is open.
    fn ask(&mut self, ask: &Ask) -> Result<(), ErrorData> {
        if self.asked.contains_key(&ask.key) {
            return Ok(());
        }
        if !self.accepts_streams {
            return Err(ErrorData::invalid_request("the client does not accept text/event-stream", None));
        }
        let awaited = Awaited::new(Arc::clone(&self.shared), self.key.owner, self.name, self.questions);
        self.questions += 1;
        let id = awaited.id()?;
        let question = asking::question_of_call(id.clone(), ask)?;
        let question = question.revised(|method, params| revised::request(&self.revision, method, params))?;
        self.queue.push_back(Outgoing::Before(question.message()));
        self.asked.insert(ask.key.clone(), Asked { id, answer: Box::pin(awaited.answer()) });
        Ok(())
    }

    /// Gives the task the client's answer. If the client sent none, the questions stay open.
    async fn answered(&mut self, name: String, answer: Result<Value, NoAnswer>) {
        self.asked.remove(&name);
        let text = match answer {
            Ok(answer) => answer.to_string(),
            Err(NoAnswer::Refused(error)) => asking::refusal(&error),
            Err(NoAnswer::Open(error)) => {
                tracing::info!(task_id = %self.key.id, %error, "a question stays open");
                self.asked.clear();
                self.watch.wait_until_after(0);
                return;
            }
        };
        match self.shared.engine.answer(&self.key, &[(name, text)].into()).await {
            Ok(()) if self.asked.is_empty() => {
                self.watch.wait_until_after(self.wait_ms);
                self.watch.look().await;
            }
            Ok(()) => {}
            Err(error) => self.finish(Err(errors::of_answer(error))),
        }
    }

    fn pass_on(&mut self, said: Vec<Said>) {
        for said in said {
            match serde_json::to_string(&ServerJsonRpcMessage::notification(said.into())) {
                Ok(text) => self.queue.push_back(Outgoing::Before(text)),
                Err(error) => tracing::debug!(%error, "a message of a tool was not sent"),
            }
        }
    }

    async fn end(&mut self, outcome: Result<String, ErrorData>) {
        self.withdraw(None).await;
        self.finish(outcome);
    }

    fn finish(&mut self, outcome: Result<String, ErrorData>) {
        self.leaving.cancels(None);
        self.queue.push_back(Outgoing::Last(outcome));
        self.watch.stop();
    }

    /// The answer if the task has not ended when the time has passed.
    fn unfinished(&self, task: &Task) -> Result<String, ErrorData> {
        let now = self.shared.engine.ports().clock.now();
        match self.view {
            View::Result | View::Status => {
                let job = job::unfinished(task, now, self.shared.settings.inline_wait_ms);
                written(&self.revision, job.into())
            }
            View::ResultOrHandle | View::ResultOrQuestionsOrHandle => task_view::render_created(task, now),
        }
    }

    /// The answer if the task no longer exists.
    fn gone(&self) -> Result<String, ErrorData> {
        match self.view {
            View::Status => written(&self.revision, job::not_found(&self.key.id.to_string()).into()),
            View::Result | View::ResultOrHandle | View::ResultOrQuestionsOrHandle => Err(errors::task_not_found()),
        }
    }

    /// Ends the call with the questions; its retry continues with the task, for as long as there is one.
    fn round(&self, task: &Task) -> Result<String, ErrorData> {
        let rounds = Rounds { job: Some(task.id), attempt: Some(task.attempt), ..Rounds::default() };
        let state = self.shared.signer.sign_rounds(rounds, &self.binding, task.expires_at)?;
        let requests = task_view::requests(task.state.asks())?;
        let state = Value::from(state);
        Ok(format!(r#"{{"resultType":"input_required","inputRequests":{requests},"requestState":{state}}}"#))
    }

    /// The outcome, in the form that the caller gets.
    async fn ended(&mut self, task: &Task) -> Result<String, ErrorData> {
        let engine = &self.shared.engine;
        if let (State::Completed { result, kind }, true) = (&task.state, self.view != View::Status) {
            let text = fields::object(engine.load(&task.key(), result).await.map_err(errors::of_load)?)?;
            let mut result = verbatim::result(text, *kind == ResultKind::ToolError);
            result.result_type = (self.generation == Generation::PerRequest).then_some(ResultType::COMPLETE);
            return written(&self.revision, result.into());
        }
        match Outcome::of(engine, task).await.map_err(errors::of_load)? {
            Some(outcome) if self.view == View::Status => written(&self.revision, job::ended(task, outcome).into()),
            Some(Outcome::Error(error)) if self.generation == Generation::Handshake => Err(errors::for_older(error)),
            Some(Outcome::Error(error)) => Err(error),
            Some(Outcome::Cancelled) => Err(ErrorData::internal_error("the call was cancelled", None)),
            // A completed task has one, which was read above.
            Some(Outcome::Result(_)) | None => Err(errors::task_not_found()),
        }
    }
}

/// The next answer of the client, to the question of this name.
async fn answered(asked: &mut BTreeMap<String, Asked>) -> (String, Result<Value, NoAnswer>) {
    std::future::poll_fn(|context| {
        for (name, asked) in &mut *asked {
            if let Poll::Ready(answer) = asked.answer.as_mut().poll(context) {
                return Poll::Ready((name.clone(), answer));
            }
        }
        Poll::Pending
    })
    .await
}

impl Frames for Waiting {
    async fn next(&mut self) -> Option<Bytes> {
        Some(match self.next_outgoing().await? {
            Outgoing::Before(text) => sse::event(&text),
            Outgoing::Nothing => Bytes::from_static(sse::KEEP_ALIVE),
            Outgoing::Last(outcome) => sse::event(text(&self.id, outcome)),
            Outgoing::Cancelled => return None,
        })
    }
}
