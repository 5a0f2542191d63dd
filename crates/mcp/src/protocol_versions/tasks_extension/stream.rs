//! A subscription to tasks, as a stream of server-sent events.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::unfold;
use http::Response;
use longhaul_core::Task;
use longhaul_engine::Listener;
use rmcp::model::RequestId;

use crate::Body;
use crate::shared::Shared;
use crate::shared::sse::{self, event};
use crate::shared::watch::{Event, Reported, TaskWatch};
use crate::views::task as view;

/// A subscription while it is open.
struct Subscription {
    shared: Arc<Shared>,
    id: RequestId,
    watch: TaskWatch,
    /// Frames that wait to be sent.
    queue: VecDeque<Bytes>,
}

/// The stream about `tasks`, to which `listener` listens: first their ids, then the state of each, then each change,
/// until all have ended or the longest wait is over.
pub(super) fn of_tasks(shared: Arc<Shared>, id: RequestId, listener: Listener, tasks: Vec<Task>) -> Response<Body> {
    let ids: Vec<String> = tasks.iter().map(|task| task.id.to_string()).collect();
    let queue = VecDeque::from([event(view::acknowledged(&ids, &id))]);
    let (settings, tasks) = (&shared.settings, tasks.into_iter().map(|task| (task, Reported::default())));
    let watch = TaskWatch::new(listener, settings, &shared.closing, settings.listen_ms_max, tasks);
    let frames = unfold(Subscription { shared, id, watch, queue }, |mut subscription| async move {
        let frame = subscription.next().await?;
        Some((Ok::<_, Infallible>(http_body::Frame::data(frame)), subscription))
    });
    sse::response(frames)
}

impl Subscription {
    /// The next frame; `None` after the last one.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.queue.pop_front() {
                self.watch.sent();
                return Some(frame);
            }
            let event = self.watch.next().await?;
            let frame = self.render(&event).await;
            self.queue.extend(frame);
        }
    }

    /// One message shows the whole task, so a single one reports everything that a look found changed.
    async fn render(&mut self, update: &Event) -> Option<Bytes> {
        match update {
            Event::Changed(task) => match view::render_notification(&self.shared.engine, task, &self.id).await {
                Ok(message) => Some(event(&message)),
                Err(error) => {
                    let cause = &error as &dyn std::error::Error;
                    tracing::warn!(task_id = %task.id, error = cause, "a task could not be shown to a subscriber");
                    self.watch.put_back(update);
                    None
                }
            },
            Event::KeepAlive => Some(Bytes::from_static(sse::KEEP_ALIVE)),
            Event::Close(_) => Some(event(view::closed(&self.id))),
            Event::Gone(_)
            | Event::Status(_)
            | Event::Progress(..)
            | Event::Question(..)
            | Event::Ended(_)
            | Event::Left => None,
        }
    }
}
