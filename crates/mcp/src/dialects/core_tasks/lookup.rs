//! Finding the task that a request names.

use longhaul_core::{Task, TaskKey};
use rmcp::ErrorData;
use serde::Deserialize;

use crate::shared::incoming::Incoming;
use crate::shared::{Shared, errors};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskParams {
    task_id: String,
}

/// The task that the request names.
pub(super) async fn named(call: &Incoming<'_>, shared: &Shared) -> Result<Task, ErrorData> {
    let TaskParams { task_id } =
        call.params().ok_or_else(|| ErrorData::invalid_params("`taskId` must be a string", None))?;
    let id = task_id.parse().map_err(|_no_task_id| errors::task_not_found())?;
    shared.engine.poll(&TaskKey::new(call.owner, id)).await.map_err(errors::of_poll)
}
