//! `tools/async/get`: the result, where it comes within a bound. Whoever waits hears of progress and is asked what the
//! call asks; the answer is JSON where there is nothing to say before.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::unfold;
use http::{Response, StatusCode};
use longhaul_core::{Ask, Progress, State, Task, Timestamp};
use longhaul_engine::PollError;
use rmcp::ErrorData;
use rmcp::model::{ProgressToken, RequestId};
use serde_json::{Map, Value, json};

use super::token::{Named, named, no_such_call, task};
use super::wire;
use crate::Body;
use crate::dialect::Endpoint;
use crate::shared::Shared;
use crate::shared::asking::{self, Asked};
use crate::shared::body::json;
use crate::shared::incoming::Incoming;
use crate::shared::record::StoredCall;
use crate::shared::{errors, reply, sse};
use crate::views::fields;
use crate::views::outcome::Outcome;

/// Answers the request.
pub(super) async fn answer(call: &Incoming<'_>, endpoint: &Endpoint) -> Response<Body> {
    let mut waiting = match Waiting::begin(call, endpoint).await {
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
    task: Task,
    /// Where it wants to hear of progress.
    progress_token: Option<ProgressToken>,
    told: Option<Progress>,
    asked: BTreeSet<String>,
    queue: VecDeque<Said>,
    ends_at: Timestamp,
    quiet_since: Timestamp,
    over: bool,
}

impl Waiting {
    /// Begins to wait, where there is something to wait for; otherwise says what the answer is.
    async fn begin(call: &Incoming<'_>, endpoint: &Endpoint) -> Result<Self, Result<String, ErrorData>> {
        let Named { token, timeout, .. } = named(call).map_err(Err)?;
        let shared = endpoint.shared();
        if let Some(why) = token.rejection(shared, &call.owner) {
            return Err(Ok(wire::failed(&why)));
        }
        let task = task(call, endpoint, &token).await.map_err(Err)?;
        let now = shared.engine.ports().clock.now();
        if !task.has_ended() {
            shared.rate.count(&task.key(), now).map_err(|after_ms| Err(too_many(after_ms)))?;
        }
        let longest_ms = shared.settings.result_ms_max;
        let wait_ms = timeout.map_or(longest_ms, |seconds| ms(seconds).min(longest_ms));
        let progress_token = match call.meta().map_err(Err)?.get_progress_token() {
            None => token_of_the_call(shared, &task).await,
            own => own,
        };
        Ok(Self {
            shared: Arc::clone(shared),
            id: call.id.clone(),
            task,
            progress_token,
            told: None,
            asked: BTreeSet::new(),
            queue: VecDeque::new(),
            ends_at: now.plus_ms(wait_ms),
            quiet_since: now,
            over: false,
        })
    }

    /// What is said next; nothing after the end.
    async fn next(&mut self) -> Option<Said> {
        loop {
            if let Some(said) = self.queue.pop_front() {
                self.quiet_since = self.now();
                return Some(said);
            }
            if self.over {
                return None;
            }
            self.look().await;
            if self.queue.is_empty() {
                self.wait().await;
            }
        }
    }

    /// Queues what the client does not know yet.
    async fn look(&mut self) {
        self.tell_progress();
        self.ask();
        match Outcome::of(&self.shared.engine, &self.task).await {
            Err(error) => self.end(Err(errors::of_load(error))),
            Ok(Some(outcome)) => {
                if matches!(outcome, Outcome::Cancelled) {
                    self.queue.push_back(Said::Before(wire::cancelled(&self.id)));
                }
                self.end(wire::ended(outcome));
            }
            Ok(None) if self.now() >= self.ends_at || self.shared.closing.is_cancelled() => {
                let progress = fields::status_message(&self.task);
                self.end(Ok(wire::pending(progress)));
            }
            Ok(None) => {}
        }
    }

    fn end(&mut self, outcome: Result<String, ErrorData>) {
        self.over = true;
        self.queue.push_back(Said::Last(match outcome {
            Ok(result) => reply::result_text(&self.id, &result),
            Err(error) => reply::error_text(Some(&self.id), &error),
        }));
    }

    fn tell_progress(&mut self) {
        let Some(token) = &self.progress_token else { return };
        let Some(progress) = &self.task.progress else { return };
        // "The progress value MUST increase with each notification."
        if self.told.as_ref().is_none_or(|told| progress.done > told.done) {
            self.queue.push_back(Said::Before(wire::progress(token, &self.task, progress)));
            self.told = Some(progress.clone());
        }
    }

    fn ask(&mut self) {
        let State::InputRequired { asks, .. } = &self.task.state else { return };
        for ask in asks {
            if !self.asked.insert(ask.key.clone()) {
                continue;
            }
            match question(&self.shared, &self.task, ask) {
                Ok(question) => self.queue.push_back(Said::Before(question)),
                Err(error) => tracing::error!(%error, "a question could not be sent"),
            }
        }
    }

    /// Waits for the next look at the task, and takes it.
    async fn wait(&mut self) {
        let settings = &self.shared.settings;
        let wait_ms = settings.listen_poll_ms.min(self.ends_at.since_ms(self.now())).max(1);
        tokio::select! {
            biased;
            () = self.shared.closing.cancelled() => return,
            () = self.shared.engine.ports().clock.sleep_ms(wait_ms) => {}
        }
        if self.now().since_ms(self.quiet_since) >= settings.keep_alive_ms {
            self.queue.push_back(Said::Nothing);
        }
        match self.shared.engine.poll(&self.task.key()).await {
            Ok(task) => self.task = task,
            Err(PollError::NotFound) => self.end(Err(no_such_call())),
            Err(PollError::Unavailable(error)) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "a waiting client's call could not be looked at"
                );
            }
        }
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

    fn now(&self) -> Timestamp {
        self.shared.engine.ports().clock.now()
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

/// The token that came with the call.
async fn token_of_the_call(shared: &Shared, task: &Task) -> Option<ProgressToken> {
    let call = shared.engine.load(&task.key(), &task.request).await.ok()?;
    serde_json::from_str::<StoredCall>(&call).ok()?.progress_token
}

/// The request that asks the client.
fn question(shared: &Shared, task: &Task, ask: &Ask) -> Result<String, ErrorData> {
    let id = Asked::Task(task.id, ask.key.clone()).id(shared, &task.owner)?;
    let mut request: Map<String, Value> = serde_json::from_str(&ask.request).unwrap_or_default();
    asking::relate(&mut request, task.id);
    Ok(asking::message(&id, request))
}
