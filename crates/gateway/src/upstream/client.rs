//! The gateway as the client of a server: what it declares, and what it does with what the server sends by itself.

#![expect(deprecated, reason = "servers of older revisions log and sample")]

use rmcp::ErrorData;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientResult, ErrorCode, Implementation, InputRequest, JsonObject,
    LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion, ServerNotification, ServerRequest,
    TASKS_EXTENSION_ID,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient, Service};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

/// What a server sends while it works on a call.
pub(crate) enum Event {
    /// How far it is.
    Progress(ProgressNotificationParam),
    /// A question to the caller. The server waits for the answer.
    Question { request: Box<InputRequest>, reply: oneshot::Sender<Result<ClientResult, ErrorData>> },
}

/// Where events go. At most so many wait; a server that sends more of them is read more slowly.
const EVENTS_MAX: usize = 64;

/// What the gateway is towards one connection of a server.
#[derive(Clone)]
pub(crate) struct Client {
    server: String,
    /// The task for whose call the connection is, for the log.
    task: Option<String>,
    capabilities: ClientCapabilities,
    events: mpsc::Sender<Event>,
}

impl Client {
    /// A client that answers no questions: for lists and the like.
    pub(crate) fn quiet(server: &str) -> Self {
        let all = json!({"elicitation": {}, "roots": {}, "sampling": {}});
        // Some servers show tools that ask only to those who can be asked.
        let declared = serde_json::from_value(all).unwrap_or_default();
        Self::new(server, None, &declared).0
    }

    /// A client that passes on what the server sends, to a caller that can be asked what it has `declared`.
    pub(crate) fn new(
        server: &str,
        task: Option<String>,
        declared: &ClientCapabilities,
    ) -> (Self, mpsc::Receiver<Event>) {
        let (events, received) = mpsc::channel(EVENTS_MAX);
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation.clone_from(&declared.elicitation);
        capabilities.sampling.clone_from(&declared.sampling);
        capabilities.roots.clone_from(&declared.roots);
        (Self { server: server.to_owned(), task, capabilities, events }, received)
    }

    /// The same client, which also takes a task for an answer.
    pub(crate) fn with_tasks(mut self) -> Self {
        let tasks = (TASKS_EXTENSION_ID.to_owned(), JsonObject::new());
        self.capabilities.extensions.get_or_insert_default().extend([tasks]);
        self
    }

    async fn ask(&self, request: InputRequest) -> Result<ClientResult, ErrorData> {
        let (reply, answer) = oneshot::channel();
        let refused = || ErrorData::invalid_request("the gateway asks nobody now", None);
        let question = Event::Question { request: Box::new(request), reply };
        self.events.send(question).await.map_err(|_closed| refused())?;
        answer.await.map_err(|_dropped| refused())?
    }

    fn log(&self, message: &LoggingMessageNotificationParam) {
        let mut text = message.data.as_str().map_or_else(|| message.data.to_string(), str::to_owned);
        let end = text.char_indices().nth(LOG_CHARACTERS_MAX).map_or(text.len(), |(end, _)| end);
        text.truncate(end);
        let (server, task_id) = (&self.server, self.task.as_deref());
        let (level, logger) = (&message.level, message.logger.as_deref());
        tracing::info!(server, task_id, ?level, logger, text, "a server's log");
    }
}

/// A server's log message is cut here.
const LOG_CHARACTERS_MAX: usize = 4_096;

impl Service<RoleClient> for Client {
    async fn handle_request(
        &self,
        request: ServerRequest,
        _context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        match request {
            ServerRequest::PingRequest(_) => Ok(ClientResult::empty(())),
            ServerRequest::CreateMessageRequest(request) => self.ask(InputRequest::CreateMessage(request)).await,
            ServerRequest::ElicitRequest(request) => self.ask(InputRequest::Elicitation(request)).await,
            ServerRequest::ListRootsRequest(request) => self.ask(InputRequest::ListRoots(request)).await,
            // One of the server's own, or one that a later version of `rmcp` may add.
            _ => Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "this client does not know the method", None)),
        }
    }

    async fn handle_notification(
        &self,
        notification: ServerNotification,
        _context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        match notification {
            // Whoever does not listen for them does not miss them.
            ServerNotification::ProgressNotification(progress) => {
                drop(self.events.send(Event::Progress(progress.params)).await);
            }
            ServerNotification::LoggingMessageNotification(message) => self.log(&message.params),
            _ => {}
        }
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        let mut config = ClientConfig::default();
        config.protocol_version = ProtocolVersion::V_2025_11_25;
        config.capabilities = self.capabilities.clone();
        config.client_info = Implementation::new("longhaul-gateway", env!("CARGO_PKG_VERSION"));
        config
    }
}
