//! `tasks/result`: the outcome of a task, at once if it has ended, and otherwise at the end of a stream that reports
//! what happens before, and asks the questions of the task.
//!
//! No stream stays open for as long as a task may take. It closes after a while, and the client reconnects with the
//! id of the last event that it received: the id is signed and holds the position, so any instance can resume the
//! stream.

#![expect(deprecated, reason = "messages of tools have levels")]

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use longhaul_core::{OwnerId, Progress, Task, TaskId, TaskKey};
use longhaul_engine::{Listener, LoadError};
use rmcp::ErrorData;
use rmcp::model::{LoggingLevel, ProgressToken, RequestId};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::wire::{self, listened};
use crate::Body;
use crate::admission::streams::Held;
use crate::reply::sse::{self, Frames};
use crate::reply::{self, errors};
use crate::request::incoming::Incoming;
use crate::signing::signer::Purpose;
use crate::state::Shared;
use crate::tool_calls::accept::StoredCall;
use crate::tool_calls::asking;
use crate::waiting::task_logs::{ELICITED, Following, Said};
use crate::waiting::watch::{Event, Reported, TaskWatch};

/// The position of a stream, and what was reported to its client. An event's id contains it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Position {
    #[serde(rename = "t")]
    task: TaskId,
    #[serde(rename = "r")]
    request: RequestId,
    /// Distinguishes the streams of one request.
    #[serde(rename = "s")]
    stream: u64,
    #[serde(rename = "n")]
    number: u64,
    /// The token for progress notifications, if the client wants any.
    #[serde(rename = "p", skip_serializing_if = "Option::is_none")]
    progress_token: Option<ProgressToken>,
    #[serde(flatten)]
    reported: Reported,
}

struct Open {
    shared: Arc<Shared>,
    owner: OwnerId,
    position: Position,
    watch: TaskWatch,
    /// Frames that wait to be sent.
    queue: VecDeque<Bytes>,
    /// The other messages of the tool.
    said: Following,
    _held: Held,
}

pub(super) async fn answer(call: &Incoming<'_>, shared: &Arc<Shared>) -> Response<Body> {
    let (listener, task) = match listened(call, shared).await {
        Ok(listened) => listened,
        Err(error) => return reply::error(&call.id, &error),
    };
    match wire::outcome(&shared.engine, &task).await {
        Err(error) => reply::error(&call.id, &errors::of_load(error)),
        Ok(Some(outcome)) => reply::outcome(&call.id, outcome),
        Ok(None) => {
            let held = match shared.streams.open(call.owner, shared.settings.result_ms_max).await {
                Ok(held) => held,
                Err(refused) => return reply::error(&call.id, &refused),
            };
            let position = Position {
                task: task.id,
                request: call.id.clone(),
                stream: random(shared),
                number: 0,
                progress_token: StoredCall::progress_token_of(&shared.engine, &task).await,
                reported: Reported::status_of(&task),
            };
            Open::new(shared, call.owner, position, listener, task, held).stream()
        }
    }
}

/// Resumes a stream; `None` if the id is not one of ours, or its task is gone.
pub(super) async fn resume(last_event_id: &str, owner: OwnerId, shared: &Arc<Shared>) -> Option<Response<Body>> {
    let position: Position = shared.signer.verify(Purpose::Event, &owner, last_event_id)?;
    let mut listener = shared.engine.listener();
    let task = listener.poll(&TaskKey::new(owner, position.task)).await.ok()?;
    let held = match shared.streams.open(owner, shared.settings.result_ms_max).await {
        Ok(held) => held,
        Err(refused) => return Some(reply::error_with(StatusCode::TOO_MANY_REQUESTS, None, &refused)),
    };
    Some(Open::new(shared, owner, position, listener, task, held).stream())
}

fn random(shared: &Shared) -> u64 {
    let mut bytes = [0; 8];
    shared.engine.ports().ids.fill(&mut bytes);
    u64::from_be_bytes(bytes)
}

impl Frames for Open {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.queue.pop_front() {
                self.watch.sent();
                return Some(frame);
            }
            let said = {
                let mut event = std::pin::pin!(self.watch.next());
                tokio::select! {
                    biased;
                    event = &mut event => Err(event?),
                    said = self.said.next() => Ok(said),
                }
            };
            match said {
                Err(event) => self.render(&event).await,
                Ok(said) => said.into_iter().for_each(|said| self.send_elicited(said)),
            }
        }
    }
}

impl Open {
    fn new(
        shared: &Arc<Shared>,
        owner: OwnerId,
        position: Position,
        listener: Listener,
        task: Task,
        held: Held,
    ) -> Self {
        let (settings, tasks) = (&shared.settings, [(task, position.reported.clone())]);
        let watch = TaskWatch::new(listener, settings, &shared.closing, settings.result_ms_max, tasks);
        let said = Following::new(shared.logs.of(position.task), LoggingLevel::Emergency);
        Self { shared: Arc::clone(shared), owner, position, watch, queue: VecDeque::new(), said, _held: held }
    }

    fn stream(mut self) -> Response<Body> {
        self.send_position();
        sse::stream(None, self)
    }

    async fn render(&mut self, event: &Event) {
        match event {
            Event::Status(task) => match wire::status_notification(&self.shared.engine, task).await {
                Ok(message) => self.send(&message),
                // The log says why.
                Err(_) => self.watch.put_back(event),
            },
            // The outcome says more.
            Event::Progress(task, _) if task.has_ended() => {}
            Event::Progress(task, progress) => self.send_progress(task, progress),
            Event::Question(task, ask) => match asking::question(&self.shared, task, ask) {
                Ok(question) => self.send(&question.message()),
                Err(error) => self.end(Err(error)),
            },
            Event::Ended(task) => match wire::outcome(&self.shared.engine, task).await {
                Ok(Some(outcome)) => self.end(outcome),
                Ok(None) => {}
                Err(error @ (LoadError::Missing | LoadError::Unreadable(_))) => self.end(Err(errors::of_load(error))),
                // The next look will find it, or the client's next request.
                Err(LoadError::Unavailable(error)) => {
                    let cause = &error as &dyn std::error::Error;
                    tracing::warn!(task_id = %task.id, error = cause, "a result could not be read for its stream");
                    self.watch.put_back(event);
                }
            },
            Event::Gone(_) => self.end(Err(errors::task_not_found())),
            Event::KeepAlive => self.queue.push_back(Bytes::from_static(sse::KEEP_ALIVE)),
            Event::Close(_) => self.send_position(),
            Event::Changed(_) => {}
        }
    }

    /// That the user is done with a URL. Log messages are not for this stream.
    fn send_elicited(&mut self, said: Said) {
        if let Said::Elicited(params) = said {
            let message = json!({"jsonrpc": "2.0", "method": ELICITED, "params": params});
            self.send(&message.to_string());
        }
    }

    fn send_progress(&mut self, task: &Task, progress: &Progress) {
        if let Some(token) = &self.position.progress_token {
            let message = wire::progress(token, task, progress);
            self.send(&message);
        }
    }

    /// Sends the answer to the request, which is the last message.
    fn end(&mut self, outcome: Result<String, ErrorData>) {
        self.send(&match outcome {
            Ok(result) => reply::result_text(&self.position.request, &result),
            Err(error) => reply::error_text(Some(&self.position.request), &error),
        });
        self.watch.stop();
    }

    fn send(&mut self, message: &str) {
        let frame = match self.event_id() {
            Some(id) => sse::event_with_id(&id, message),
            None => sse::event(message),
        };
        self.queue.push_back(frame);
    }

    /// Sends the position from which the stream can be resumed, and when.
    fn send_position(&mut self) {
        if let Some(id) = self.event_id() {
            self.queue.push_back(sse::priming(&id, self.shared.settings.retry_ms));
        }
    }

    fn event_id(&mut self) -> Option<String> {
        self.position.number += 1;
        if let Some(reported) = self.watch.reported(self.position.task) {
            self.position.reported.clone_from(reported);
        }
        self.shared.signer.sign(Purpose::Event, &self.owner, &self.position).ok()
    }
}
