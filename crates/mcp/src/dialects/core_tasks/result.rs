//! `tasks/result`: the outcome of a task, at once where it has ended, and otherwise at the end of a stream that tells
//! what happens before, and asks what the task asks.
//!
//! No stream stays open for as long as a task may take. It closes after a while, and the client comes back with the id
//! of the last event that it got: the id is sealed and says all there is to know, so any instance goes on from there.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::unfold;
use http::Response;
use longhaul_core::{Ask, OwnerId, State, Task, TaskId, TaskKey, Timestamp};
use longhaul_engine::PollError;
use rmcp::ErrorData;
use rmcp::model::{ProgressToken, RequestId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::lookup::named;
use super::wire;
use crate::Body;
use crate::shared::Shared;
use crate::shared::asking::{self, Asked, RELATED_TASK};
use crate::shared::incoming::Incoming;
use crate::shared::record::StoredCall;
use crate::shared::signer::Purpose;
use crate::shared::{errors, reply, sse};

/// Where a stream is, and what its client was told. This is what an event's id says.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Place {
    #[serde(rename = "t")]
    task: TaskId,
    /// The request that the stream answers.
    #[serde(rename = "r")]
    request: RequestId,
    /// Tells the streams of one request apart.
    #[serde(rename = "s")]
    stream: u64,
    /// The event's number.
    #[serde(rename = "n")]
    number: u64,
    /// Where the client wants to hear of progress.
    #[serde(rename = "p", skip_serializing_if = "Option::is_none")]
    progress_token: Option<ProgressToken>,
    /// The progress that was told.
    #[serde(rename = "d", skip_serializing_if = "Option::is_none")]
    done: Option<f64>,
    /// The status that was told.
    #[serde(rename = "u")]
    status: String,
    /// What was asked and may not be answered yet, by the beginning of the hash of its key.
    #[serde(rename = "a", skip_serializing_if = "Vec::is_empty", default)]
    asked: Vec<u32>,
}

/// A stream while it is open.
struct Open {
    shared: Arc<Shared>,
    owner: OwnerId,
    place: Place,
    task: Task,
    /// Frames that wait to be sent.
    queue: VecDeque<Bytes>,
    ends_at: Timestamp,
    last_sent_at: Timestamp,
    over: bool,
}

/// Answers `tasks/result`.
pub(super) async fn answer(call: &Incoming<'_>, shared: &Arc<Shared>) -> Response<Body> {
    let task = match named(call, shared).await {
        Ok(task) => task,
        Err(error) => return reply::error(&call.id, &error),
    };
    match wire::outcome(&shared.engine, &task).await {
        Err(error) => reply::error(&call.id, &errors::of_load(error)),
        Ok(Some(outcome)) => reply::outcome(&call.id, outcome),
        Ok(None) => {
            let place = Place {
                task: task.id,
                request: call.id.clone(),
                stream: chance(shared),
                number: 0,
                progress_token: progress_token(shared, &task).await,
                done: None,
                status: wire::status(&task).to_owned(),
                asked: Vec::new(),
            };
            Open::new(shared, call.owner, place, task).stream()
        }
    }
}

/// Goes on with a stream; nothing where the id is not one of ours, or its task is gone.
pub(super) async fn resume(last_event_id: &str, owner: OwnerId, shared: &Arc<Shared>) -> Option<Response<Body>> {
    let place: Place = shared.signer.verify(Purpose::Event, &owner, last_event_id)?;
    let task = shared.engine.poll(&TaskKey::new(owner, place.task)).await.ok()?;
    Some(Open::new(shared, owner, place, task).stream())
}

fn chance(shared: &Shared) -> u64 {
    let mut bytes = [0; 8];
    shared.engine.ports().ids.fill(&mut bytes);
    u64::from_be_bytes(bytes)
}

/// The token that came with the call: it holds as long as the task lives.
async fn progress_token(shared: &Shared, task: &Task) -> Option<ProgressToken> {
    let call = shared.engine.load(&task.key(), &task.request).await.ok()?;
    serde_json::from_str::<StoredCall>(&call).ok()?.progress_token
}

impl Open {
    fn new(shared: &Arc<Shared>, owner: OwnerId, place: Place, task: Task) -> Self {
        let (shared, now) = (Arc::clone(shared), shared.engine.ports().clock.now());
        let ends_at = now.plus_ms(shared.settings.result_ms_max);
        Self { shared, owner, place, task, queue: VecDeque::new(), ends_at, last_sent_at: now, over: false }
    }

    /// Pulled by whoever reads the answer; nothing outlives it.
    fn stream(mut self) -> Response<Body> {
        self.say_where();
        let frames = unfold(self, |mut open| async move {
            let frame = open.next().await?;
            Some((Ok::<_, Infallible>(http_body::Frame::data(frame)), open))
        });
        sse::response(frames)
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.queue.pop_front() {
                self.last_sent_at = self.now();
                return Some(frame);
            }
            if self.over {
                return None;
            }
            self.tell_news().await;
            if self.queue.is_empty() {
                self.wait().await;
            }
        }
    }

    /// Queues what the client does not know yet; at the end, or after the longest wait, the last frame.
    async fn tell_news(&mut self) {
        match wire::outcome(&self.shared.engine, &self.task).await {
            Ok(Some(outcome)) => {
                self.tell_status().await;
                let message = match outcome {
                    Ok(result) => reply::result_text(&self.place.request, &result),
                    Err(error) => reply::error_text(Some(&self.place.request), &error),
                };
                self.say(&message);
                self.over = true;
                return;
            }
            Ok(None) => {}
            // Found with the next look, or by the client's next request.
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "a result could not be read for its stream");
            }
        }
        self.tell_status().await;
        self.tell_progress();
        self.ask();
        if self.queue.is_empty() && (self.now() >= self.ends_at || self.shared.closing.is_cancelled()) {
            self.say_where();
            self.over = true;
        }
    }

    async fn tell_status(&mut self) {
        let status = wire::status(&self.task);
        if self.place.status == status {
            return;
        }
        if let Ok(message) = wire::status_notification(&self.shared.engine, &self.task).await {
            status.clone_into(&mut self.place.status);
            self.say(&message);
        }
    }

    fn tell_progress(&mut self) {
        let (Some(token), Some(progress)) = (&self.place.progress_token, &self.task.progress) else { return };
        // It has to grow with every notification; a leg that starts again says what was said before.
        if self.place.done.is_some_and(|told| progress.done <= told) {
            return;
        }
        let related = json!({RELATED_TASK: {"taskId": self.task.id.to_string()}});
        let mut params = json!({"progressToken": token, "progress": progress.done, "_meta": related});
        if let Some(params) = params.as_object_mut() {
            params.extend(progress.total.map(|total| ("total".to_owned(), total.into())));
            params.extend(progress.message.clone().map(|message| ("message".to_owned(), message.into())));
        }
        let done = progress.done;
        self.place.done = Some(done);
        let message = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        self.say(&message.to_string());
    }

    /// Asks what the task asks and was not asked on this stream before.
    fn ask(&mut self) {
        let State::InputRequired { asks, .. } = &self.task.state else { return };
        let open: Vec<Ask> = asks.iter().filter(|ask| !self.place.asked.contains(&short(&ask.key))).cloned().collect();
        let still: Vec<u32> = asks.iter().map(|ask| short(&ask.key)).collect();
        self.place.asked.retain(|asked| still.contains(asked));
        for ask in open {
            match question(&self.shared, &self.owner, &self.task, &ask) {
                Ok(message) => {
                    self.place.asked.push(short(&ask.key));
                    self.say(&message);
                }
                Err(error) => tracing::error!(%error, "a task's question could not be sent"),
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
        if self.now().since_ms(self.last_sent_at) >= settings.keep_alive_ms {
            self.queue.push_back(Bytes::from_static(sse::KEEP_ALIVE));
        }
        match self.shared.engine.poll(&self.task.key()).await {
            Ok(task) => self.task = task,
            Err(PollError::NotFound) => {
                let gone: ErrorData = errors::task_not_found();
                self.say(&reply::error_text(Some(&self.place.request.clone()), &gone));
                self.over = true;
            }
            Err(PollError::Unavailable(error)) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "a stream could not look at its task");
            }
        }
    }

    fn say(&mut self, message: &str) {
        let frame = match self.event_id() {
            Some(id) => sse::event_with_id(&id, message),
            None => sse::event(message),
        };
        self.queue.push_back(frame);
    }

    /// Says where the stream can be gone on with, and when.
    fn say_where(&mut self) {
        if let Some(id) = self.event_id() {
            self.queue.push_back(sse::priming(&id, self.shared.settings.retry_ms));
        }
    }

    fn event_id(&mut self) -> Option<String> {
        self.place.number += 1;
        self.shared.signer.sign(Purpose::Event, &self.owner, &self.place).ok()
    }

    fn now(&self) -> Timestamp {
        self.shared.engine.ports().clock.now()
    }
}

/// The request that asks the client a task's question.
fn question(shared: &Shared, owner: &OwnerId, task: &Task, ask: &Ask) -> Result<String, ErrorData> {
    let id = Asked::Task(task.id, ask.key.clone()).id(shared, owner)?;
    let mut request: Map<String, Value> = serde_json::from_str(&ask.request)
        .map_err(|error| errors::internal("a task's question cannot be read", &error))?;
    asking::relate(&mut request, task.id);
    Ok(asking::message(&id, request))
}

/// Enough of a key's hash to tell one task's questions apart.
fn short(key: &str) -> u32 {
    let [a, b, c, d, ..]: [u8; 32] = Sha256::digest(key).into();
    u32::from_be_bytes([a, b, c, d])
}
