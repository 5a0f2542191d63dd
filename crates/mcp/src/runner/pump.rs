//! The messages that a tool sends while it runs: progress is recorded, requests to the client become questions of the
//! task.

use std::future::Future;
use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use longhaul_core::Progress;
use longhaul_engine::Attempt;
use rmcp::ErrorData;
use rmcp::model::{
    ClientCapabilities, ClientJsonRpcMessage, ClientResult, InputRequest, JsonRpcRequest, RequestId,
    ServerJsonRpcMessage, ServerNotification, ServerRequest,
};
use tokio::task::JoinHandle;

use crate::tool_calls::asking;
use crate::tools::handler::Pipes;
use crate::waiting::task_logs::{ELICITED, Said, TaskLog};

/// Runs a tool and takes what it sends.
pub(super) struct Pump {
    attempt: Attempt,
    declared: ClientCapabilities,
    pipes: Pipes,
    log: Arc<TaskLog>,
    /// How many requests the tool has sent in this attempt. They are named by their number: a tool that does the same
    /// in every attempt sends the same requests in the same order.
    requests: u32,
    open: FuturesUnordered<BoxFuture<'static, ClientJsonRpcMessage>>,
}

/// Ends the tool when its attempt is aborted.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Pump {
    pub(super) fn new(attempt: Attempt, declared: ClientCapabilities, pipes: Pipes, log: Arc<TaskLog>) -> Self {
        Self { attempt, declared, pipes, log, requests: 0, open: FuturesUnordered::new() }
    }

    /// Runs `tool` to its end. Dropping this stops it at its next await point. Fails with the known cause for a tool
    /// that died without a result.
    pub(super) async fn run<T: Send + 'static>(
        mut self,
        tool: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, String> {
        let runs = self.attempt.runs_elsewhere();
        let tool = async move {
            let ended = tool.await;
            drop(runs);
            ended
        };
        // Spawned, because a tool that computes for long without awaiting must not delay the heartbeat.
        #[expect(
            clippy::disallowed_methods,
            reason = "on the worker's side; awaited here, and aborted with this future"
        )]
        let mut tool = AbortOnDrop(tokio::spawn(tool));
        loop {
            tokio::select! {
                biased;
                Some(message) = self.pipes.from_tool.recv() => self.take(message),
                Some(answer) = self.open.next() => self.send(answer),
                ended = &mut tool.0 => {
                    // The tool awaited what it sent, so all of it is here by now.
                    while let Ok(message) = self.pipes.from_tool.try_recv() {
                        self.take(message);
                    }
                    return ended.map_err(|error| format!("the tool died: {error}"));
                }
            }
        }
    }

    fn take(&mut self, message: ServerJsonRpcMessage) {
        match message {
            ServerJsonRpcMessage::Notification(notification) => match notification.notification {
                ServerNotification::ProgressNotification(progress) => {
                    let params = progress.params;
                    let (done, total) = (params.progress, params.total);
                    self.attempt.progress(Progress { done, total, message: params.message });
                }
                ServerNotification::LoggingMessageNotification(message) => self.log.add(Said::Log(message.params)),
                ServerNotification::CustomNotification(notification) if notification.method == ELICITED => {
                    self.log.add(Said::Elicited(notification.params));
                }
                // The others need a stream, and a task has none.
                _other => tracing::debug!("a notification of a task's tool was dropped"),
            },
            ServerJsonRpcMessage::Request(request) => self.ask(request),
            ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_) => {}
        }
    }

    fn ask(&mut self, request: JsonRpcRequest<ServerRequest>) {
        let JsonRpcRequest { id, request, .. } = request;
        match self.question(request) {
            Ok(Question::Ping) => self.send(ClientJsonRpcMessage::response(ClientResult::empty(()), id)),
            Ok(Question::Ask { key, request }) => {
                let attempt = self.attempt.clone();
                self.open.push(Box::pin(async move { answer(&attempt.ask(&key, request).await, id) }));
            }
            Err(error) => self.send(ClientJsonRpcMessage::error(error, Some(id))),
        }
    }

    fn question(&mut self, request: ServerRequest) -> Result<Question, ErrorData> {
        let request = match request {
            ServerRequest::PingRequest(_) => return Ok(Question::Ping),
            ServerRequest::CreateMessageRequest(request) => InputRequest::CreateMessage(request),
            ServerRequest::ListRootsRequest(request) => InputRequest::ListRoots(request),
            ServerRequest::ElicitRequest(request) => InputRequest::Elicitation(request),
            // Not a question, or anything that a later version of `rmcp` may add.
            _ => return Err(ErrorData::invalid_request("a task cannot send this request to its client", None)),
        };
        asking::check_declared(&self.declared, &request)?;
        let key = format!("peer-{}", self.requests);
        self.requests += 1;
        Ok(Question::Ask { key, request: asking::written(&request)? })
    }

    fn send(&self, message: ClientJsonRpcMessage) {
        // If the tool's end of the wire is closed, the tool has ended, and `run` is about to see that.
        drop(self.pipes.to_tool.send(message));
    }
}

enum Question {
    Ping,
    Ask { key: String, request: String },
}

fn answer(text: &str, id: RequestId) -> ClientJsonRpcMessage {
    let value = match asking::read_answer(text) {
        Ok(value) => value,
        Err(refused) => return ClientJsonRpcMessage::error(refused, Some(id)),
    };
    ClientJsonRpcMessage::response(asking::client_result(value), id)
}
