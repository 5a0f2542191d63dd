//! `tasks/get`, `tasks/update` and `tasks/cancel`. By the time that these run, `rmcp` has checked the headers and that
//! the client declared the extension.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_core::{TaskId, TaskKey};
use rmcp::model::{CancelTaskParams, DetailedTask, GetTaskParams, GetTaskResult, TaskPayload, UpdateTaskParams};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::Durable;
use crate::dialects::tasks_extension::wire;
use crate::{caller, errors};

/// Where a result is put as JSON text. It goes out as it is, so that a large one is neither parsed nor written again.
#[derive(Clone, Default)]
pub(crate) struct RawResult(Arc<Mutex<Option<String>>>);

impl RawResult {
    pub(crate) fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, result: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    }
}

impl<H: ServerHandler> Durable<H> {
    pub(super) async fn poll(
        &self,
        request: &GetTaskParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let key = key(&request.task_id, context)?;
        let engine = &self.shared.engine;
        let task = engine.poll(&key).await.map_err(errors::of_poll)?;
        let result = wire::got(engine, &task).await.map_err(errors::of_load)?;
        let raw = caller::parts(context).and_then(|parts| parts.extensions.get::<RawResult>());
        if let Some(raw) = raw {
            raw.put(result);
            // Stands for the text, which the front sends instead.
            return Ok(GetTaskResult::new(DetailedTask::new(rmcp::model::Task::default(), TaskPayload::Working)));
        }
        serde_json::from_str(&result).map_err(|error| errors::internal("the task could not be shown", &error))
    }

    pub(super) async fn answer(
        &self,
        request: &UpdateTaskParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let key = key(&request.task_id, context)?;
        let answers = request.input_responses.iter().map(|(key, answer)| (key.clone(), answer.to_string()));
        let answers: BTreeMap<String, String> = answers.collect();
        self.shared.engine.answer(&key, &answers).await.map_err(errors::of_answer)
    }

    pub(super) async fn cancel(
        &self,
        request: &CancelTaskParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let key = key(&request.task_id, context)?;
        self.shared.engine.cancel(&key).await.map(drop).map_err(errors::of_poll)
    }
}

/// The caller's task of this name. What is no name of a task is answered like a task that is not there.
fn key(task_id: &str, context: &RequestContext<RoleServer>) -> Result<TaskKey, ErrorData> {
    let owner = caller::owner(context)?;
    let id: TaskId = task_id.parse().map_err(|_no_task_id| errors::task_not_found())?;
    Ok(TaskKey::new(owner, id))
}
