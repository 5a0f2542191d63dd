//! A subscription to tasks, as a stream of server-sent events.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::unfold;
use http::Response;
use longhaul_core::Task;
use rmcp::model::RequestId;

use super::wire;
use crate::Body;
use crate::durable::Shared;
use crate::sse::{self, event};
use crate::watch::{Event, TaskWatch, Told};

/// A subscription while it is open.
struct Subscription {
    shared: Arc<Shared>,
    id: RequestId,
    watch: TaskWatch,
    /// Frames that wait to be sent.
    queue: VecDeque<Bytes>,
}

/// The stream that tells of `tasks`: first which they are, then each as it is, then each change, until all have ended
/// or the longest wait is over.
pub(super) fn of_tasks(shared: Arc<Shared>, id: RequestId, tasks: Vec<Task>) -> Response<Body> {
    let ids: Vec<String> = tasks.iter().map(|task| task.id.to_string()).collect();
    let queue = VecDeque::from([event(&wire::acknowledged(&ids, &id))]);
    let (settings, tasks) = (&shared.settings, tasks.into_iter().map(|task| (task, Told::default())));
    let watch = TaskWatch::new(&shared.engine, settings, &shared.closing, settings.listen_ms_max, tasks);
    let frames = unfold(Subscription { shared, id, watch, queue }, |mut subscription| async move {
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
                self.watch.sent();
                return Some(frame);
            }
            let event = self.watch.next().await?;
            let frame = self.render(&event).await;
            self.queue.extend(frame);
        }
    }

    /// One message tells all of a task, so whatever changed in a look is told by a single one.
    async fn render(&mut self, told: &Event) -> Option<Bytes> {
        match told {
            Event::Changed(task) => match wire::notification(&self.shared.engine, task, &self.id).await {
                Ok(message) => Some(event(&message)),
                Err(error) => {
                    let cause = &error as &dyn std::error::Error;
                    tracing::warn!(task_id = %task.id, error = cause, "a task could not be shown to a subscriber");
                    self.watch.put_back(told);
                    None
                }
            },
            Event::KeepAlive => Some(Bytes::from_static(sse::KEEP_ALIVE)),
            Event::Close(_) => Some(event(&wire::closed(&self.id))),
            Event::Gone(_)
            | Event::Status(_)
            | Event::Progress(..)
            | Event::Question(..)
            | Event::Ended(_)
            | Event::Left => None,
        }
    }
}
