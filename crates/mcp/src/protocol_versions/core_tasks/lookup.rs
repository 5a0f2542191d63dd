//! Finding the task that a request names.

use longhaul_core::{Task, TaskKey};
use longhaul_engine::Listener;
use rmcp::ErrorData;
use serde::Deserialize;

use crate::shared::incoming::Incoming;
use crate::shared::{Shared, errors};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskParams {
    task_id: String,
}

/// The task that the request polls, unless it does so too early.
pub(super) async fn polled(call: &Incoming<'_>, shared: &Shared) -> Result<Task, ErrorData> {
    shared.polls.poll(&key(call)?).await.map_err(|error| error.or(errors::of_poll))
}

/// The same task, and a listener that listened to it before it was read.
pub(super) async fn listened(call: &Incoming<'_>, shared: &Shared) -> Result<(Listener, Task), ErrorData> {
    let (key, mut listener) = (key(call)?, shared.engine.listener());
    shared.polls.admit(&key).await?;
    let task = listener.poll(&key).await.map_err(errors::of_poll)?;
    shared.polls.told(&task);
    Ok((listener, task))
}

/// The task that the request names, as the caller would own it.
pub(super) fn key(call: &Incoming<'_>) -> Result<TaskKey, ErrorData> {
    let TaskParams { task_id } =
        call.params().ok_or_else(|| ErrorData::invalid_params("`taskId` must be a string", None))?;
    let id = task_id.parse().map_err(|_no_task_id| errors::task_not_found())?;
    Ok(TaskKey::new(call.owner, id))
}
