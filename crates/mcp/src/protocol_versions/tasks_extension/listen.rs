//! `subscriptions/listen` with `taskIds`: opening a stream that reports changes of tasks.

use std::sync::Arc;

use http::Response;
use longhaul_core::{OwnerId, Task, TaskKey};
use longhaul_engine::{Listener, PollError};
use rmcp::ErrorData;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::envelope::{self, Refusal};
use super::stream;
use crate::Body;
use crate::protocol_version::Endpoint;
use crate::shared::Shared;
use crate::shared::incoming::Incoming;
use crate::shared::{errors, reply};

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
    serde_json::from_str::<Params>(params?.get()).ok()?.notifications.task_ids
}

/// Opens the stream, or says why not. Anything else that the filter asks for is left out of the acknowledgement.
pub(super) async fn open(call: &Incoming<'_>, endpoint: &Endpoint, task_ids: Vec<String>) -> Response<Body> {
    let meta = envelope::meta(call.params);
    let checked = envelope::check(call, &meta, None, &endpoint.backend().revisions());
    if let Err(Refusal { status, error }) = checked.and_then(|()| envelope::check_capability(&meta)) {
        return reply::error_with(status, Some(&call.id), &error);
    }
    let shared = endpoint.shared();
    let mut listener = shared.engine.listener();
    match known(shared, call.owner, &mut listener, &task_ids).await {
        Ok(tasks) => stream::of_tasks(Arc::clone(shared), call.id.clone(), listener, tasks),
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
