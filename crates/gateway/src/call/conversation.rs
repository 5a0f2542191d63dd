//! What passes between a server and the caller from the call to its answer: reports and questions.

#![expect(deprecated, reason = "servers of all revisions may log")]

use rmcp::ErrorData;
use rmcp::model::{CallToolResponse, ClientResult, InputRequest, LoggingMessageNotificationParam};
use rmcp::service::ServiceError;
use serde_json::Value;
use tokio::sync::mpsc;

use super::Call;
use crate::catalog::Repeatable;
use crate::polls;
use crate::upstream::client::Event;
use crate::upstream::{Connection, Lifecycle};

impl Call<'_> {
    /// Whether the caller can be asked. In the older lifecycle a server waits with the call half done, and is gone when
    /// the answer comes: the tool is called once more then.
    fn may_ask(&self) -> bool {
        self.route.repeatable == Repeatable::Yes || self.upstream.lifecycle() == Some(Lifecycle::PerRequest)
    }

    /// Sends the call, and passes on what the server sends until it answers.
    pub(super) async fn converse(
        &self,
        connection: &Connection,
        mut events: mpsc::Receiver<Event>,
    ) -> Result<CallToolResponse, ServiceError> {
        let answer = self.exchange(connection);
        tokio::pin!(answer);
        let (mut questions, mut furthest) = (0_u32, f64::NEG_INFINITY);
        loop {
            let event = tokio::select! {
                biased;
                answer = &mut answer => {
                    // What was reported before it is here by now.
                    while let Ok(event) = events.try_recv() {
                        self.take_report(event, &mut furthest).await;
                    }
                    return answer;
                }
                Some(event) = events.recv() => event,
            };
            match event {
                Event::Question { request, reply } => {
                    let answer = self.ask(questions, *request).await;
                    questions += 1;
                    // The server may have ended meanwhile, which `answer` tells.
                    drop(reply.send(answer));
                }
                report => self.take_report(report, &mut furthest).await,
            }
        }
    }

    async fn take_report(&self, report: Event, furthest: &mut f64) {
        match report {
            // It only grows.
            Event::Progress(progress) if progress.progress < *furthest => {}
            Event::Progress(progress) => {
                *furthest = progress.progress;
                polls::note(&self.task, *furthest, progress.total, progress.message.unwrap_or_default()).await;
            }
            Event::Log(message) => self.pass_on(message).await,
            // The server has answered without waiting for the answer.
            Event::Question { .. } => {}
        }
    }

    async fn pass_on(&self, message: LoggingMessageNotificationParam) {
        if let Err(error) = self.peer.notify_logging_message(message).await {
            tracing::debug!(%error, "a log message was not passed on");
        }
    }

    /// Asks the caller. While there is no answer nothing runs: the connection is closed, and the call is made again
    /// with the answers that are on record.
    async fn ask(&self, number: u32, request: InputRequest) -> Result<ClientResult, ErrorData> {
        if !self.may_ask() {
            return Err(nobody_to_ask());
        }
        let read = reader_of(&request);
        let answer = self.task.request_input(&format!("upstream-{number}"), request).await?;
        read(answer).map_err(|error| ErrorData::invalid_params(format!("the answer cannot be read: {error}"), None))
    }

    /// Asks the caller what a task of a process wants to know. The process is not there any more when the answer comes.
    pub(super) async fn asked(&self, key: &str, request: InputRequest) -> Result<Value, ErrorData> {
        match self.route.repeatable {
            Repeatable::Yes => self.task.request_input(&format!("task-{key}"), request).await,
            Repeatable::No => Err(nobody_to_ask()),
        }
    }
}

type ReadAnswer = fn(Value) -> Result<ClientResult, serde_json::Error>;

fn reader_of(request: &InputRequest) -> ReadAnswer {
    match request {
        InputRequest::CreateMessage(_) => {
            |answer| Ok(ClientResult::CreateMessageResult(Box::new(serde_json::from_value(answer)?)))
        }
        InputRequest::Elicitation(_) => |answer| Ok(ClientResult::ElicitResult(serde_json::from_value(answer)?)),
        InputRequest::ListRoots(_) => |answer| Ok(ClientResult::ListRootsResult(serde_json::from_value(answer)?)),
        // Anything that a later version of `rmcp` may add.
        _ => serde_json::from_value,
    }
}

fn nobody_to_ask() -> ErrorData {
    ErrorData::invalid_request(
        "nobody can be asked during this call: it would have to be made again with the answer, and the tool may not be \
         repeated",
        None,
    )
}
