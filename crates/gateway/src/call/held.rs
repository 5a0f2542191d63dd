//! A task of a process: it dies with the process, so the process is held until the task has ended.

use std::collections::BTreeSet;
use std::time::Duration;

use longhaul::SystemClock;
use longhaul::ports::Clock;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResponse, ClientRequest, CreateTaskResult, CustomRequest, GetTaskParams, InputRequests, InputResponses,
    ServerResult, UpdateTaskParams,
};
use rmcp::service::ServiceError;
use serde_json::{Value, json};

use super::Call;
use crate::polls;
use crate::upstream::tasks::{Seen, seen};
use crate::upstream::{Connection, Lifecycle};

impl Call<'_> {
    /// Sends the call, as a task if a process wants it so, and waits for the answer.
    pub(super) async fn exchange(&self, connection: &Connection) -> Result<CallToolResponse, ServiceError> {
        if self.upstream.requires_task(self.tool())
            && self.upstream.is_process()
            && self.upstream.lifecycle() == Some(Lifecycle::Handshake)
        {
            return self.held_until_result(connection).await;
        }
        match connection.peer().call_tool_once(self.params.clone()).await? {
            CallToolResponse::Task(created) if self.upstream.is_process() => {
                self.held_until_end(connection, created).await
            }
            answer => Ok(answer),
        }
    }

    /// A task of revision `2025-11-25`: its result can be waited for, and its questions come meanwhile.
    async fn held_until_result(&self, connection: &Connection) -> Result<CallToolResponse, ServiceError> {
        let params = json!({"name": self.params.name, "arguments": self.params.arguments, "task": {}});
        let created = match custom(connection, "tools/call", params).await? {
            ServerResult::CallToolResult(result) => return Ok(result.into()),
            created => serde_json::to_value(created).unwrap_or_default(),
        };
        let task_id =
            created.pointer("/task/taskId").and_then(Value::as_str).ok_or(ServiceError::UnexpectedResponse)?;
        match custom(connection, "tasks/result", json!({"taskId": task_id})).await? {
            ServerResult::CallToolResult(result) => Ok(result.into()),
            _ => Err(ServiceError::UnexpectedResponse),
        }
    }

    /// A task of the Tasks extension.
    async fn held_until_end(
        &self,
        connection: &Connection,
        created: CreateTaskResult,
    ) -> Result<CallToolResponse, ServiceError> {
        let every = polls::pauses(created.task.poll_interval_ms.map(Duration::from_millis));
        let (begun, mut answered) = (SystemClock.now(), BTreeSet::new());
        loop {
            let task = connection.peer().get_task(GetTaskParams::new(&created.task.task_id)).await?.task;
            match seen(self.upstream.name(), task.payload, task.task.status_message) {
                Seen::Ended(end) => return end.map(|result| (*result).into()).map_err(ServiceError::McpError),
                Seen::Working { message } => polls::report(&self.task, message.as_deref()).await,
                Seen::Asks(mut requests) => {
                    requests.retain(|key, _| answered.insert(key.clone()));
                    let answers = self.answers(requests).await.map_err(ServiceError::McpError)?;
                    let update = UpdateTaskParams::new(&created.task.task_id, answers);
                    connection.peer().update_task(update).await?;
                }
            }
            SystemClock.sleep_ms(every.pause_ms(SystemClock.now().since_ms(begun))).await;
        }
    }

    async fn answers(&self, requests: InputRequests) -> Result<InputResponses, ErrorData> {
        let mut answers = InputResponses::new();
        for (key, request) in requests {
            let answer = self.asked(&key, request).await?;
            answers.insert(key, answer);
        }
        Ok(answers)
    }
}

async fn custom(connection: &Connection, method: &str, params: Value) -> Result<ServerResult, ServiceError> {
    let request = CustomRequest::new(method, Some(params));
    connection.peer().send_request(ClientRequest::CustomRequest(request)).await
}
