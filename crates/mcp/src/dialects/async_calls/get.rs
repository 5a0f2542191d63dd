//! `tools/async/get`: the result, where it comes within a bound. Whoever waits hears of progress and is asked what the
//! call asks; the answer is JSON where there is nothing to say before.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::unfold;
use http::{Response, StatusCode};
use rmcp::ErrorData;
use rmcp::model::{ProgressToken, RequestId};
use serde_json::json;

use super::{Named, named, no_such_call, task, wire};
use crate::asking;
use crate::body::json;
use crate::dialects::shown;
use crate::durable::Shared;
use crate::front::Front;
use crate::incoming::Incoming;
use crate::outcome::Outcome;
use crate::record::StoredCall;
use crate::watch::{Event, TaskWatch, Told};
use crate::{Body, errors, reply, sse};

/// Answers the request.
pub(super) async fn answer(call: &Incoming<'_>, front: &Front) -> Response<Body> {
    let mut waiting = match Waiting::begin(call, front).await {
        Ok(waiting) => waiting,
        Err(outcome) => return reply::outcome(&call.id, outcome),
    };
    match waiting.next().await {
        None => reply::error(&call.id, &no_such_call()),
        Some(Said::Last(text)) => json(StatusCode::OK, text),
        Some(Said::Before(text)) => waiting.stream(sse::event(&text)),
        Some(Said::Nothing) => waiting.stream(Bytes::from_static(sse::KEEP_ALIVE)),
    }
}

/// What goes to the client.
enum Said {
    /// Something before the result.
    Before(String),
    /// That the server is still there.
    Nothing,
    /// The result.
    Last(String),
}

/// A client that waits.
struct Waiting {
    shared: Arc<Shared>,
    id: RequestId,
    /// The token under which it wants to hear of progress.
    progress_token: Option<ProgressToken>,
    watch: TaskWatch,
    queue: VecDeque<Said>,
}

impl Waiting {
    /// Begins to wait, where there is something to wait for; otherwise says what the answer is.
    async fn begin(call: &Incoming<'_>, front: &Front) -> Result<Self, Result<String, ErrorData>> {
        let Named { token, timeout, .. } = named(call).map_err(Err)?;
        let shared = front.shared();
        if let Some(why) = token.rejection(shared, &call.owner) {
            return Err(Ok(wire::failed(&why)));
        }
        let task = task(call, front, &token).await.map_err(Err)?;
        if !task.has_ended() {
            let now = shared.engine.ports().clock.now();
            shared.rate.count(&task.key(), now).map_err(|after_ms| Err(too_many(after_ms)))?;
        }
        let longest_ms = shared.settings.result_ms_max;
        let wait_ms = timeout.map_or(longest_ms, |seconds| ms(seconds).min(longest_ms));
        let progress_token = match call.meta().get_progress_token() {
            None => StoredCall::progress_token_of(&shared.engine, &task).await,
            own => own,
        };
        let tasks = [(task, Told::default())];
        let watch = TaskWatch::new(&shared.engine, &shared.settings, &shared.closing, wait_ms, tasks);
        let shared = Arc::clone(shared);
        Ok(Self { shared, id: call.id.clone(), progress_token, watch, queue: VecDeque::new() })
    }

    /// What is said next; nothing after the end.
    async fn next(&mut self) -> Option<Said> {
        loop {
            if let Some(said) = self.queue.pop_front() {
                self.watch.sent();
                return Some(said);
            }
            let event = self.watch.next().await?;
            self.render(event).await;
        }
    }

    async fn render(&mut self, event: Event) {
        match event {
            Event::Progress(task, progress) => {
                let message = self.progress_token.as_ref().map(|token| wire::progress(token, &task, &progress));
                self.queue.extend(message.map(Said::Before));
            }
            Event::Question(task, ask) => match asking::question(&self.shared, &task, &ask) {
                Ok(question) => self.queue.push_back(Said::Before(question.message())),
                Err(error) => self.end(Err(error)),
            },
            Event::Ended(task) => match Outcome::of(&self.shared.engine, &task).await {
                Ok(Some(outcome)) => {
                    if matches!(outcome, Outcome::Cancelled) {
                        self.queue.push_back(Said::Before(wire::cancelled(&self.id)));
                    }
                    self.end(wire::ended(outcome));
                }
                Ok(None) => {}
                Err(error) => self.end(Err(errors::of_load(error))),
            },
            Event::Gone(_) => self.end(Err(no_such_call())),
            Event::KeepAlive => self.queue.push_back(Said::Nothing),
            Event::Close(tasks) => {
                let progress = tasks.first().and_then(|task| shown::status_message(task));
                self.end(Ok(wire::pending(progress)));
            }
            Event::Changed(_) | Event::Status(_) | Event::Left => {}
        }
    }

    fn end(&mut self, outcome: Result<String, ErrorData>) {
        self.queue.push_back(Said::Last(match outcome {
            Ok(result) => reply::result_text(&self.id, &result),
            Err(error) => reply::error_text(Some(&self.id), &error),
        }));
        self.watch.stop();
    }

    /// The rest as a stream that begins with `first`.
    fn stream(self, first: Bytes) -> Response<Body> {
        let frames = unfold((self, Some(first)), |(mut waiting, first)| async move {
            let frame = match first {
                Some(first) => first,
                None => match waiting.next().await? {
                    Said::Before(text) | Said::Last(text) => sse::event(&text),
                    Said::Nothing => Bytes::from_static(sse::KEEP_ALIVE),
                },
            };
            Some((Ok::<_, Infallible>(http_body::Frame::data(frame)), (waiting, None)))
        });
        sse::response(frames)
    }
}

fn ms(seconds: f64) -> u64 {
    // What is below zero or beyond all bounds is none, or all, of the time that there is.
    let negative = seconds.is_sign_negative();
    let time = Duration::try_from_secs_f64(seconds).ok();
    time.map_or(if negative { 0 } else { u64::MAX }, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

fn too_many(after_ms: u64) -> ErrorData {
    let message = "too many requests for a result that is not there yet; wait for it with `timeout`";
    ErrorData::invalid_request(message, Some(json!({"retryAfterMs": after_ms})))
}
