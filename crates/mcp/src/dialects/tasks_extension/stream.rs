//! A stream of task news, as server-sent events.
//!
//! It is pulled by whoever reads the body and spawns nothing, so nothing outlives the answer, and a client that leaves
//! ends it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::unfold;
use http::Response;
use longhaul_core::{Progress, Status, Task, Timestamp};
use longhaul_engine::PollError;
use rmcp::model::RequestId;

use crate::Body;
use crate::shared::Shared;
use crate::shared::sse::{self, event};
use crate::views::task as wire;

/// A subscription while it is open.
struct Subscription {
    shared: Arc<Shared>,
    id: RequestId,
    watched: Vec<Watched>,
    /// Frames that wait to be sent.
    queue: VecDeque<Bytes>,
    ends_at: Timestamp,
    last_sent_at: Timestamp,
    over: bool,
}

/// A task that the subscriber hears of.
struct Watched {
    task: Task,
    /// What the subscriber was told last.
    told: Option<Seen>,
}

/// What a client can tell two states of a task apart by.
#[derive(Clone, PartialEq)]
struct Seen {
    status: Status,
    updated_at: Timestamp,
    progress: Option<Progress>,
    open_asks: usize,
}

impl Seen {
    fn of(task: &Task) -> Self {
        let open_asks = match &task.state {
            longhaul_core::State::InputRequired { asks, .. } => asks.len(),
            longhaul_core::State::Queued
            | longhaul_core::State::Running { .. }
            | longhaul_core::State::Sleeping { .. }
            | longhaul_core::State::Completed { .. }
            | longhaul_core::State::Failed { .. }
            | longhaul_core::State::Cancelled => 0,
        };
        Self { status: task.status(), updated_at: task.updated_at, progress: task.progress.clone(), open_asks }
    }
}

/// The stream that tells of `tasks`: first which they are, then each as it is, then each change, until all have ended
/// or the longest wait is over.
pub(super) fn of_tasks(shared: Arc<Shared>, id: RequestId, tasks: Vec<Task>) -> Response<Body> {
    let now = shared.engine.ports().clock.now();
    let ids: Vec<String> = tasks.iter().map(|task| task.id.to_string()).collect();
    let subscription = Subscription {
        queue: VecDeque::from([event(&wire::acknowledged(&ids, &id))]),
        watched: tasks.into_iter().map(|task| Watched { task, told: None }).collect(),
        ends_at: now.plus_ms(shared.settings.listen_ms_max),
        last_sent_at: now,
        over: false,
        shared,
        id,
    };
    let frames = unfold(subscription, |mut subscription| async move {
        let frame = subscription.next().await?;
        Some((Ok::<_, Infallible>(http_body::Frame::data(frame)), subscription))
    });
    sse::response(frames)
}

impl Subscription {
    /// The next frame; nothing after the last one.
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

    /// Queues a message for each task that looks different from what was told, and the last message where there will
    /// be none after it.
    async fn tell_news(&mut self) {
        let engine = &self.shared.engine;
        for watched in &mut self.watched {
            let seen = Seen::of(&watched.task);
            if watched.told.as_ref() == Some(&seen) {
                continue;
            }
            match wire::render_notification(engine, &watched.task, &self.id).await {
                Ok(message) => {
                    self.queue.push_back(event(&message));
                    watched.told = Some(seen);
                }
                // Told with the next look, or found out by a poll.
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "a task could not be shown to a subscriber"
                    );
                }
            }
        }
        // A task that has ended and was told of has no more news.
        self.watched.retain(|watched| watched.told.is_none() || !watched.task.has_ended());
        if self.watched.is_empty() || self.now() >= self.ends_at || self.shared.closing.is_cancelled() {
            self.queue.push_back(event(&wire::closed(&self.id)));
            self.over = true;
        }
    }

    /// Waits for the next look at the tasks, and takes it.
    async fn wait(&mut self) {
        let settings = &self.shared.settings;
        let wait_ms = settings.listen_poll_ms.min(self.ends_at.since_ms(self.now())).max(1);
        tokio::select! {
            biased;
            () = self.shared.closing.cancelled() => return,
            () = self.shared.engine.ports().clock.sleep_ms(wait_ms) => {}
        }
        if self.now().since_ms(self.last_sent_at) >= settings.keep_alive_ms {
            self.queue.push_back(Bytes::from_static(b":\n\n"));
        }
        let mut gone = Vec::new();
        for (index, watched) in self.watched.iter_mut().enumerate() {
            match self.shared.engine.poll(&watched.task.key()).await {
                Ok(task) => watched.task = task,
                Err(PollError::NotFound) => gone.push(index),
                Err(PollError::Unavailable(error)) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "a subscription could not look at a task");
                }
            }
        }
        for index in gone.into_iter().rev() {
            self.watched.remove(index);
        }
    }

    fn now(&self) -> Timestamp {
        self.shared.engine.ports().clock.now()
    }
}
