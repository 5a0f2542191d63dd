//! The messages between a server and the caller from the call to its answer: reports and questions.

#![expect(deprecated, reason = "servers of all revisions may log")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD;
use longhaul::SystemClock;
use longhaul_core::Clock;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResponse, ClientRequest, ClientResult, CreateTaskResult, CustomNotification, CustomRequest, CustomResult,
    ElicitRequestParams, GetTaskParams, InputRequest, InputRequests, InputResponses, LoggingMessageNotificationParam,
    ServerResult, UpdateTaskParams,
};
use rmcp::service::ServiceError;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use super::Call;
use crate::catalog::Repeatable;
use crate::polls;
use crate::target::Lifecycle;
use crate::upstream::task::{Seen, seen};
use crate::upstream::watch::Event;
use crate::upstream::{Connection, questions};

/// The ids of elicitations, and those under which the caller knows them.
type Elicited = BTreeMap<String, String>;

impl Call<'_> {
    /// Whether the caller can be asked. In the older lifecycle a server waits with the call half done. It is gone when
    /// the answer comes, so the tool is then called once more.
    fn may_ask(&self) -> bool {
        self.route.repeatable == Repeatable::Yes || self.upstream.lifecycle() == Some(Lifecycle::PerRequest)
    }

    /// Sends the call, and passes on the server's messages until it answers.
    pub(super) async fn converse(
        &self,
        connection: &Connection,
        mut events: mpsc::Receiver<Event>,
    ) -> Result<CallToolResponse, ServiceError> {
        let answer = self.exchange(connection);
        tokio::pin!(answer);
        let (mut asked, mut furthest, mut elicited) = (BTreeMap::new(), f64::NEG_INFINITY, Elicited::new());
        loop {
            let event = tokio::select! {
                biased;
                answer = &mut answer => {
                    // Everything that was reported before the answer is here by now.
                    while let Ok(event) = events.try_recv() {
                        self.take_report(event, &mut furthest, &elicited).await;
                    }
                    return answer;
                }
                Some(event) = events.recv() => event,
            };
            match event {
                Event::Question { request, reply } => {
                    let key = key_of(&request, &mut asked);
                    self.note_elicitation(&key, &request, &mut elicited).await;
                    let answer = self.ask(&key, *request).await;
                    // The server may have ended meanwhile, which `answer` tells.
                    drop(reply.send(answer));
                }
                report => self.take_report(report, &mut furthest, &elicited).await,
            }
        }
    }

    async fn take_report(&self, report: Event, furthest: &mut f64, elicited: &Elicited) {
        match report {
            // The number only grows. The words count all the same.
            Event::Progress(progress) => {
                *furthest = furthest.max(progress.progress);
                polls::note(&self.task, *furthest, progress.total, progress.message.unwrap_or_default()).await;
            }
            Event::Log(message) => self.pass_on(message).await,
            Event::Elicited(notification) => self.pass_on_elicited(notification, elicited).await,
            // The server has answered without waiting for the answer.
            Event::Question { .. } => {}
        }
    }

    async fn pass_on(&self, message: LoggingMessageNotificationParam) {
        if let Err(error) = self.peer.notify_logging_message(message).await {
            tracing::debug!(%error, "a log message was not passed on");
        }
    }

    /// Records the id of the first request to open a URL. A server may choose another id when its tool is called again
    /// with the answer.
    async fn note_elicitation(&self, key: &str, request: &InputRequest, elicited: &mut Elicited) {
        let InputRequest::Elicitation(request) = request else { return };
        let ElicitRequestParams::UrlElicitationParams { elicitation_id: id, .. } = &request.params else { return };
        let first = self.task.step(&format!("elicitation {key}"), async || id.clone()).await;
        elicited.insert(id.clone(), first);
    }

    async fn pass_on_elicited(&self, mut notification: CustomNotification, elicited: &Elicited) {
        if let Some(Value::String(id)) = notification.params.as_mut().and_then(|params| params.get_mut("elicitationId"))
            && let Some(first) = elicited.get(id)
        {
            id.clone_from(first);
        }
        if let Err(error) = self.peer.send_notification(notification.into()).await {
            tracing::debug!(%error, "the end of an elicitation was not passed on");
        }
    }

    /// Asks the caller. Nothing runs until the caller answers: the connection is closed, and the call is made again
    /// with the recorded answers.
    async fn ask(&self, key: &str, request: InputRequest) -> Result<ClientResult, ErrorData> {
        if !self.may_ask() {
            return Err(nobody_to_ask());
        }
        // Not read: a server gets all that the client answers.
        self.task.request_input(key, request).await.map(|answer| ClientResult::CustomResult(CustomResult(answer)))
    }
}

/// The key of a question. A tool that is called again may ask in another order, so its content is the key. `asked` has
/// how often this call has asked each question.
fn key_of(request: &InputRequest, asked: &mut BTreeMap<String, u32>) -> String {
    let request = serde_json::to_string(request).ok().map(|written| questions::content_of(&written));
    let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(request.unwrap_or_default()));
    let times = asked.entry(digest.clone()).or_insert(0);
    *times += 1;
    if *times == 1 { format!("upstream-{digest}") } else { format!("upstream-{digest}-{times}") }
}

fn nobody_to_ask() -> ErrorData {
    ErrorData::invalid_request(
        "nobody can be asked during this call: it would have to be made again with the answer, and the tool may not be \
         repeated",
        None,
    )
}

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
        let mut params = json!({"name": self.params.name, "arguments": self.params.arguments, "task": {}});
        if let (Some(meta), Some(params)) = (&self.params.meta, params.as_object_mut()) {
            params.insert("_meta".to_owned(), json!(meta));
        }
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
        let (begun, mut answered, mut asked) = (SystemClock.now(), BTreeSet::new(), BTreeMap::new());
        loop {
            let task = connection.peer().get_task(GetTaskParams::new(&created.task.task_id)).await?.task;
            match seen(self.upstream.name(), task.payload, task.task.status_message) {
                Seen::Ended(end) => return end.map(|result| (*result).into()).map_err(ServiceError::McpError),
                Seen::Working { message } => polls::report(&self.task, message.as_deref()).await,
                Seen::Asks(mut requests) => {
                    requests.retain(|key, _| answered.insert(key.clone()));
                    self.answer_questions(connection, &created.task.task_id, requests, &mut asked).await?;
                }
            }
            SystemClock.sleep_ms(every.pause_ms(SystemClock.now().since_ms(begun))).await;
        }
    }

    /// Asks the questions that were not asked before, and sends the answers, if there are any.
    async fn answer_questions(
        &self,
        connection: &Connection,
        task_id: &str,
        requests: InputRequests,
        asked: &mut BTreeMap<String, u32>,
    ) -> Result<(), ServiceError> {
        if requests.is_empty() {
            return Ok(());
        }
        let answers = self.answers(requests, asked).await.map_err(ServiceError::McpError)?;
        connection.peer().update_task(UpdateTaskParams::new(task_id, answers)).await.map(drop)
    }

    /// Asks the questions of a task of a process. The process has ended when the answer comes.
    async fn answers(
        &self,
        requests: InputRequests,
        asked: &mut BTreeMap<String, u32>,
    ) -> Result<InputResponses, ErrorData> {
        if self.route.repeatable == Repeatable::No {
            return Err(nobody_to_ask());
        }
        let mut answers = InputResponses::new();
        for (key, request) in requests {
            let answer = self.task.request_input(&key_of(&request, asked), request).await?;
            answers.insert(key, answer);
        }
        Ok(answers)
    }
}

async fn custom(connection: &Connection, method: &str, params: Value) -> Result<ServerResult, ServiceError> {
    let request = CustomRequest::new(method, Some(params));
    connection.peer().send_request(ClientRequest::CustomRequest(request)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_has_the_same_key_in_any_order() {
        let question = |message: &str, more: Value| {
            let mut params = json!({"message": message, "requestedSchema": {"type": "object", "properties": {}}});
            params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            questions::of_task(&json!({"method": "elicitation/create", "params": params}).to_string()).unwrap()
        };
        let keys = |order: &[&str]| {
            let mut asked = BTreeMap::new();
            let keys = order.iter().map(|message| key_of(&question(message, json!({})), &mut asked));
            keys.collect::<Vec<_>>()
        };
        let (one, other) = (keys(&["a", "b", "a"]), keys(&["b", "a", "a"]));
        assert_eq!((&one[0], &one[1], &one[2]), (&other[1], &other[0], &other[2]));
        assert!(one[0] != one[1] && one[0] != one[2]);
        let of = |request: &InputRequest| key_of(request, &mut BTreeMap::new());
        let url = |id: &str| json!({"mode": "url", "url": format!("https://x.test/?e={id}"), "elicitationId": id});
        assert_eq!(of(&question("a", url(&"1-a".repeat(9)))), of(&question("a", url(&"2-b".repeat(9)))));
        assert_ne!(of(&question("a", url("1"))), of(&question("a", url("2"))));
        assert_eq!(of(&question("a", json!({"_meta": {"progressToken": 7}}))), one[0]);
        assert_ne!(of(&question("a", json!({"x": 1}))), one[0]);
    }
}
