//! `subscriptions/listen` with `taskIds`: a stream of server-sent events that reports changes of tasks.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use longhaul_core::{OwnerId, Task, TaskKey, strict_json};
use longhaul_engine::{Listener, PollError};
use rmcp::ErrorData;
use rmcp::model::RequestId;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Body;
use crate::protocol_version::Endpoint;
use crate::reply::sse::{self, Frames, event};
use crate::reply::{self, errors};
use crate::request::incoming::Incoming;
use crate::state::Shared;
use crate::views::task as view;
use crate::waiting::watch::{Event, Reported, TaskWatch};

#[derive(Deserialize)]
struct Params {
    notifications: Filter,
}

#[derive(Deserialize)]
struct Filter {
    #[serde(rename = "taskIds")]
    task_ids: Option<Vec<String>>,
}

/// The tasks that the request names; `None` if it is not about tasks.
pub(super) fn task_ids(params: Option<&RawValue>) -> Option<Vec<String>> {
    strict_json::from_str::<Params>(params?.get()).ok()?.notifications.task_ids
}

/// Opens the stream, or says why not. Anything else that the filter asks for is left out of the acknowledgement.
pub(super) async fn open(call: &Incoming<'_>, endpoint: &Endpoint, task_ids: Vec<String>) -> Response<Body> {
    if !call.supports_tasks() {
        return reply::error_with(StatusCode::BAD_REQUEST, Some(&call.id), &errors::tasks_not_declared());
    }
    let shared = endpoint.shared();
    let mut listener = shared.engine.listener();
    match known(shared, call.owner, &mut listener, &task_ids).await {
        Ok(tasks) => stream_of(Arc::clone(shared), call.id.clone(), listener, tasks),
        Err(error) => reply::error(&call.id, &error),
    }
}

/// The tasks that exist and are the caller's, each once. Others are left out silently, so that a client cannot find out
/// whether they exist.
async fn known(
    shared: &Shared,
    owner: OwnerId,
    listener: &mut Listener,
    task_ids: &[String],
) -> Result<Vec<Task>, ErrorData> {
    let max = shared.settings.listen_tasks_max;
    if task_ids.len() > max {
        return Err(ErrorData::invalid_params(format!("a subscription may name at most {max} tasks"), None));
    }
    let mut tasks: Vec<Task> = Vec::new();
    for id in task_ids.iter().filter_map(|id| id.parse().ok()) {
        if tasks.iter().any(|task| task.id == id) {
            continue;
        }
        match listener.poll(&TaskKey::new(owner, id)).await {
            Ok(task) => tasks.push(task),
            Err(PollError::NotFound) => {}
            Err(error @ PollError::Unavailable(_)) => return Err(errors::of_poll(error)),
        }
    }
    Ok(tasks)
}

struct Subscription {
    shared: Arc<Shared>,
    id: RequestId,
    watch: TaskWatch,
    /// Frames that wait to be sent.
    queue: VecDeque<Bytes>,
}

/// The stream about `tasks`, to which `listener` listens. It sends first their ids, then the state of each, then each
/// change, until all have ended or the longest wait has expired.
fn stream_of(shared: Arc<Shared>, id: RequestId, listener: Listener, tasks: Vec<Task>) -> Response<Body> {
    let ids: Vec<String> = tasks.iter().map(|task| task.id.to_string()).collect();
    let queue = VecDeque::from([event(view::acknowledged(&ids, &id))]);
    let (settings, tasks) = (&shared.settings, tasks.into_iter().map(|task| (task, Reported::default())));
    let watch = TaskWatch::new(listener, settings, &shared.closing, settings.listen_ms_max, tasks);
    sse::stream(None, Subscription { shared, id, watch, queue })
}

impl Frames for Subscription {
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
}

impl Subscription {
    /// One message shows the whole task, so a single one reports all changes that a check found.
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
            Event::Gone(_) | Event::Status(_) | Event::Progress(..) | Event::Question(..) | Event::Ended(_) => None,
        }
    }
}
