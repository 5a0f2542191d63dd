//! `tools/async/get`: the result, if it comes within a limited time. A client that waits is sent progress and the
//! questions of the call; the answer is JSON if nothing is sent before it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use longhaul_core::TaskKey;
use rmcp::ErrorData;
use rmcp::model::{ProgressToken, RequestId};
use serde_json::json;

use super::wire::{self, Named, named, no_such_call, task};
use crate::Body;
use crate::admission::polls;
use crate::admission::streams::Held;
use crate::protocol_version::Endpoint;
use crate::reply::sse::{self, Frames};
use crate::reply::{self, errors, json};
use crate::request::incoming::Incoming;
use crate::state::Shared;
use crate::tool_calls::accept::StoredCall;
use crate::tool_calls::asking;
use crate::views::fields::{self, Outcome};
use crate::views::revised;
use crate::waiting::watch::{Event, Reported, TaskWatch};

pub(super) async fn answer(call: &Incoming<'_>, endpoint: &Endpoint) -> Response<Body> {
    let mut waiting = match Waiting::begin(call, endpoint).await {
        Ok(waiting) => waiting,
        Err(outcome) => return reply::outcome(&call.id, outcome),
    };
    match waiting.next_outgoing().await {
        None => reply::error(&call.id, &no_such_call()),
        Some(Outgoing::Last(text)) => json(StatusCode::OK, text),
        Some(Outgoing::Before(text)) => sse::stream(Some(sse::event(&text)), waiting),
        Some(Outgoing::Nothing) => sse::stream(Some(Bytes::from_static(sse::KEEP_ALIVE)), waiting),
    }
}

/// What goes to the client.
enum Outgoing {
    Before(String),
    /// A sign that the server is still working.
    Nothing,
    Last(String),
}

struct Waiting {
    shared: Arc<Shared>,
    id: RequestId,
    /// The token for progress notifications, if it wants any.
    progress_token: Option<ProgressToken>,
    revision: String,
    watch: TaskWatch,
    queue: VecDeque<Outgoing>,
    _held: Option<Held>,
}

impl Waiting {
    /// Begins to wait, if there is something to wait for; otherwise `Err` has the answer.
    async fn begin(call: &Incoming<'_>, endpoint: &Endpoint) -> Result<Self, Result<String, ErrorData>> {
        let Named { token, timeout, .. } = named(call).map_err(Err)?;
        let shared = endpoint.shared();
        if let Some(why) = token.rejection(shared, &call.owner) {
            return Err(Ok(wire::failed(&why)));
        }
        let mut listener = shared.engine.listener();
        token.key(&call.owner).into_iter().for_each(|key| listener.add(key));
        let task = task(call, endpoint, &token).await.map_err(Err)?;
        if !task.has_ended() {
            let now = shared.engine.ports().clock.now();
            shared.rate.count(&task.key(), now).map_err(|after_ms| Err(too_many(&task.key(), after_ms)))?;
        }
        let longest_ms = shared.settings.result_ms_max;
        let wait_ms = timeout.map_or(longest_ms, |seconds| ms(seconds).min(longest_ms));
        // An owner who has too many requests that wait is told at once that there is no result yet.
        let waits = wait_ms > 0 && !task.has_ended();
        let held = if waits { shared.streams.open_if_free(call.owner, wait_ms).await } else { Some(Held::default()) };
        let wait_ms = if held.is_some() { wait_ms } else { 0 };
        let progress_token = match call.meta.whole().get_progress_token() {
            None => StoredCall::progress_token_of(&shared.engine, &task).await,
            own => own,
        };
        let tasks = [(task, Reported::default())];
        let watch = TaskWatch::new(listener, &shared.settings, &shared.closing, wait_ms, tasks);
        let shared = Arc::clone(shared);
        let revision = call.client.revision().to_owned();
        Ok(Self { shared, id: call.id.clone(), progress_token, revision, watch, queue: VecDeque::new(), _held: held })
    }

    /// What is sent next; `None` after the end.
    async fn next_outgoing(&mut self) -> Option<Outgoing> {
        loop {
            if let Some(outgoing) = self.queue.pop_front() {
                self.watch.sent();
                return Some(outgoing);
            }
            let event = self.watch.next().await?;
            self.render(event).await;
        }
    }

    async fn render(&mut self, event: Event) {
        match event {
            Event::Progress(task, progress) => {
                let message = self.progress_token.as_ref().map(|token| wire::progress(token, &task, &progress));
                self.queue.extend(message.map(Outgoing::Before));
            }
            Event::Question(task, ask) => match asking::question(&self.shared, &task, &ask).and_then(|question| {
                question.revised(|method, params| revised::request(&self.revision, method, params))
            }) {
                Ok(question) => self.queue.push_back(Outgoing::Before(question.message())),
                Err(error) => self.end(Err(error)),
            },
            Event::Ended(task) => match Outcome::of(&self.shared.engine, &task).await {
                Ok(Some(outcome)) => {
                    if matches!(outcome, Outcome::Cancelled) {
                        self.queue.push_back(Outgoing::Before(wire::cancelled(&self.id)));
                    }
                    let mut outcome = outcome;
                    if let Outcome::Result(result) = &mut outcome {
                        revised::result(&self.revision, result);
                    }
                    self.end(wire::ended(outcome));
                }
                Ok(None) => {}
                Err(error) => self.end(Err(errors::of_load(error))),
            },
            Event::Gone(_) => self.end(Err(no_such_call())),
            Event::KeepAlive => self.queue.push_back(Outgoing::Nothing),
            Event::Close(tasks) => {
                let progress = tasks.first().and_then(|task| fields::status_message(task));
                self.end(Ok(wire::pending(progress)));
            }
            Event::Changed(_) | Event::Status(_) => {}
        }
    }

    fn end(&mut self, outcome: Result<String, ErrorData>) {
        self.queue.push_back(Outgoing::Last(match outcome {
            Ok(result) => reply::result_text(&self.id, &result),
            Err(error) => reply::error_text(Some(&self.id), &error),
        }));
        self.watch.stop();
    }
}

impl Frames for Waiting {
    async fn next(&mut self) -> Option<Bytes> {
        Some(match self.next_outgoing().await? {
            Outgoing::Before(text) | Outgoing::Last(text) => sse::event(&text),
            Outgoing::Nothing => Bytes::from_static(sse::KEEP_ALIVE),
        })
    }
}

fn ms(seconds: f64) -> u64 {
    // A negative time counts as 0, and one that is too large for a `Duration` as the longest.
    let negative = seconds.is_sign_negative();
    let time = Duration::try_from_secs_f64(seconds).ok();
    time.map_or(if negative { 0 } else { u64::MAX }, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

fn too_many(key: &TaskKey, after_ms: u64) -> ErrorData {
    polls::note_refusal(key);
    let message = "too many requests for a result that does not exist yet; wait for it with `timeout`";
    ErrorData::invalid_request(message, Some(json!({"retryAfterMs": after_ms})))
}
