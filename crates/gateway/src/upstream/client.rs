//! The gateway as the client of a server: the capabilities that it declares, and its handling of the server's messages.

#![expect(deprecated, reason = "servers of older revisions log and sample")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use longhaul_core::strict_json;
use longhaul_core::verbatim::KEY;
use rmcp::ErrorData;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientResult, ErrorCode, ExtensionCapabilities, GetMeta, Implementation,
    InputRequest, JsonObject, JsonRpcMessage, LoggingMessageNotificationParam, ProtocolVersion, ServerNotification,
    ServerRequest, TASKS_EXTENSION_ID,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient, RxJsonRpcMessage, Service, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::json;
use tokio::sync::{broadcast, mpsc, oneshot};

use super::quota::Quota;
use super::updates::Change;
use super::watch::{Event, Listener, Watch};
use crate::target::Lifecycle;

/// Where events go. At most so many wait; a server that sends more of them is read more slowly.
const EVENTS_MAX: usize = 64;

/// The extension MCP Apps: tools with user interfaces.
const UI_EXTENSION_ID: &str = "io.modelcontextprotocol/ui";

/// The gateway as the client on one connection of a server.
#[derive(Clone)]
pub(crate) struct Client {
    server: String,
    capabilities: ClientCapabilities,
    /// The lifecycle to begin with, if the server speaks it.
    lifecycle: Option<Lifecycle>,
    asks: Asks,
    watch: Watch,
    /// Set when the server says that its lists have changed.
    changed: Arc<AtomicBool>,
    /// Receives the changes of resources that the server reports, if a client subscribes.
    updates: Option<broadcast::Sender<Change>>,
    /// Limits the log of its server.
    quota: Quota,
}

/// Whether the client decides which questions a server may ask.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// The client's declared capabilities decide which tools the server shows and which questions it asks.
    AsDeclared,
    /// The server asks no questions, so that any connection will do.
    Nothing,
}

impl Client {
    /// A client that reads lists.
    pub(crate) fn of_lists(server: &str) -> Self {
        // Some servers show tools that ask, or that have a user interface, only to clients with these capabilities.
        let interfaces = json!({UI_EXTENSION_ID: {"mimeTypes": ["text/html;profile=mcp-app"]}});
        let all = json!({"elicitation": {}, "roots": {}, "sampling": {}, "extensions": interfaces});
        let capabilities = strict_json::from_value(all).unwrap_or_default();
        Self {
            server: server.to_owned(),
            capabilities,
            lifecycle: None,
            asks: Asks::AsDeclared,
            watch: Watch::default(),
            changed: Arc::default(),
            updates: None,
            quota: Quota::default(),
        }
    }

    /// A client that answers no questions: for prompts and the like.
    pub(crate) fn quiet(server: &str) -> Self {
        Self { asks: Asks::Nothing, ..Self::of_lists(server) }
    }

    /// A client for a quick request. Nothing receives the server's reports meanwhile, so the request never waits for a
    /// receiver.
    pub(crate) fn unheard(server: &str, task: Option<String>, declared: &ClientCapabilities) -> Self {
        Self::new(server, task, declared).0
    }

    /// A client that passes the server's messages on to a caller, who can be asked questions if `declared` allows them.
    pub(crate) fn new(
        server: &str,
        task: Option<String>,
        declared: &ClientCapabilities,
    ) -> (Self, mpsc::Receiver<Event>) {
        let (events, received) = mpsc::channel(EVENTS_MAX);
        let watch = Watch::new(Listener { task, events });
        (Self { capabilities: asked_of(declared), watch, ..Self::of_lists(server) }, received)
    }

    /// The same, in this lifecycle if the server speaks it.
    pub(crate) fn in_lifecycle(self, lifecycle: Option<Lifecycle>) -> Self {
        Self { lifecycle, ..self }
    }

    pub(super) const fn lifecycle(&self) -> Option<Lifecycle> {
        self.lifecycle
    }

    /// Has it note in `changed` that the lists of its server have changed, and log no more than `quota` allows.
    pub(super) fn noting_changes(self, changed: &Arc<AtomicBool>, quota: &Quota) -> Self {
        Self { changed: Arc::clone(changed), quota: quota.clone(), ..self }
    }

    /// Makes it send changes of its server's resources to `updates`.
    pub(super) fn hearing(self, updates: &broadcast::Sender<Change>) -> Self {
        Self { updates: Some(updates.clone()), ..self }
    }

    /// The messages that pass over its connection.
    pub(super) const fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Whether `other` may use the connection of this one.
    pub(super) fn fits(&self, other: &Self) -> bool {
        other.asks == Asks::Nothing || (self.capabilities == other.capabilities && self.lifecycle == other.lifecycle)
    }

    /// Passes the server's messages to `other` from now on.
    pub(super) fn take_over(&self, other: &Self) {
        self.watch.take_over(&other.watch);
    }

    /// The same client, which also accepts a task as an answer.
    pub(crate) fn with_tasks(mut self) -> Self {
        let tasks = (TASKS_EXTENSION_ID.to_owned(), JsonObject::new());
        self.capabilities.extensions.get_or_insert_default().extend([tasks]);
        self
    }

    async fn ask(&self, request: InputRequest) -> Result<ClientResult, ErrorData> {
        let (reply, answer) = oneshot::channel();
        let refused = || ErrorData::invalid_request("the gateway asks nobody now", None);
        let question = Event::Question { request: Box::new(request), reply };
        let Some(events) = self.watch.events() else {
            self.watch.odd("it asked while it had no call");
            return Err(refused());
        };
        events.send(question).await.map_err(|_closed| refused())?;
        answer.await.map_err(|_dropped| refused())?
    }

    /// The part of a notification that the caller gets, and the channel to send it to.
    fn event_of(&self, notification: ServerNotification) -> Option<(mpsc::Sender<Event>, Event)> {
        match notification {
            ServerNotification::ProgressNotification(progress) => {
                let events = self.watch.events_of(&progress.params.progress_token)?;
                Some((events, Event::Progress(progress.params)))
            }
            ServerNotification::LoggingMessageNotification(message) => {
                self.log(&message.params);
                Some((self.watch.events()?, Event::Log(message.params)))
            }
            ServerNotification::CustomNotification(elicited) => Some((self.watch.events()?, Event::Elicited(elicited))),
            _ => None,
        }
    }

    fn log(&self, message: &LoggingMessageNotificationParam) {
        if !self.quota.take(&self.server) {
            return;
        }
        let mut text = message.data.as_str().map_or_else(|| message.data.to_string(), str::to_owned);
        let end = text.char_indices().nth(LOG_CHARACTERS_MAX).map_or(text.len(), |(end, _)| end);
        text.truncate(end);
        let (server, task_id) = (&self.server, self.watch.task());
        let (level, logger) = (&message.level, message.logger.as_deref());
        tracing::info!(server, task_id, ?level, logger, text, "a server's log");
    }
}

/// The declared capabilities of the caller that a server may use through the gateway.
pub(super) fn asked_of(declared: &ClientCapabilities) -> ClientCapabilities {
    let mut asked = ClientCapabilities::default();
    asked.elicitation.clone_from(&declared.elicitation);
    asked.sampling.clone_from(&declared.sampling);
    asked.roots.clone_from(&declared.roots);
    let others = declared.extensions.iter().flatten().filter(|(name, _)| *name != TASKS_EXTENSION_ID);
    let others: ExtensionCapabilities = others.map(|(name, settings)| (name.clone(), settings.clone())).collect();
    asked.extensions = (!others.is_empty()).then_some(others);
    asked
}

/// A server's log message is cut here.
const LOG_CHARACTERS_MAX: usize = 4_096;

impl Service<RoleClient> for Client {
    async fn handle_request(
        &self,
        mut request: ServerRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        // `rmcp` has moved it there.
        if let Some(text) = context.meta.0.0.get(KEY) {
            request.get_meta_mut().0.0.insert(KEY.to_owned(), text.clone());
        }
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
            ServerNotification::ToolListChangedNotification(_)
            | ServerNotification::PromptListChangedNotification(_)
            | ServerNotification::ResourceListChangedNotification(_) => self.changed.store(true, Ordering::Release),
            ServerNotification::ResourceUpdatedNotification(updated) => {
                let updated = Change::Updated(updated.params.uri.into());
                // There may be no subscriber left.
                drop(self.updates.as_ref().map(|updates| updates.send(updated)));
            }
            // Reports during a call have been taken before.
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

/// A transport that is watched, and that hands a server's reports during a call to the client itself. The reports keep
/// their order and come before the answer. `rmcp` handles each notification in a task of its own, so notifications
/// would overtake each other, and the answer would overtake them.
pub(super) struct Watched<T> {
    transport: T,
    client: Client,
    /// An event that waits until the caller has taken earlier ones.
    waiting: Option<(mpsc::Sender<Event>, Event)>,
}

impl<T> Watched<T> {
    pub(super) fn new(transport: T, client: &Client) -> Self {
        client.watch.begin();
        Self { transport, client: client.clone(), waiting: None }
    }

    /// Waits until the caller can take the waiting event.
    async fn hand_over(&mut self) {
        let Some((events, _)) = &self.waiting else { return };
        let room = events.clone().reserve_owned().await;
        // A call that no longer listens does not miss the event.
        if let (Ok(room), Some((_, event))) = (room, self.waiting.take()) {
            room.send(event);
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Watched<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.client.watch.sends(&message);
        self.transport.send(message)
    }

    /// If this is dropped before it returns, nothing is lost.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            self.hand_over().await;
            let message = self.transport.receive().await?;
            self.client.watch.receives(&message);
            match message {
                JsonRpcMessage::Notification(message) if is_report(&message.notification) => {
                    self.waiting = self.client.event_of(message.notification);
                }
                message => return Some(message),
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.transport.close()
    }
}

fn is_report(notification: &ServerNotification) -> bool {
    match notification {
        ServerNotification::ProgressNotification(_) | ServerNotification::LoggingMessageNotification(_) => true,
        ServerNotification::CustomNotification(custom) => custom.method == ELICITED,
        _ => false,
    }
}

/// Says that the user is done with a URL.
const ELICITED: &str = "notifications/elicitation/complete";
