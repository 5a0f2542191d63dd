//! The author's handler as the layers above see it, independent of its type.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use rmcp::ErrorData;
use rmcp::model::{ClientJsonRpcMessage, InitializeRequestParams, JsonObject, ProtocolVersion};

use crate::tools::handler::Pipes;

/// The handler behind one interface.
#[async_trait]
pub(crate) trait Backend: Send + Sync {
    /// Talks to the handler: its answer to `message`, and everything that it sends before. `client` holds the facts
    /// that a handshake would have given it.
    fn converse(&self, message: ClientJsonRpcMessage, client: InitializeRequestParams) -> Conversation;

    /// Whether the handler itself has a tool of this name.
    fn has_tool(&self, tool: &str) -> bool;

    /// The handler's own schema for the arguments of this tool.
    fn input_schema(&self, tool: &str) -> Option<Arc<JsonObject>>;

    /// Refuses a tool that does not exist (`-32602`).
    async fn must_have(&self, tool: &str) -> Result<(), ErrorData>;

    /// Refuses arguments that do not match the tool's input schema, before there is a task (`-32602`). Returns whether
    /// it left some out that are `null`.
    async fn check_arguments(&self, tool: &str, arguments: &mut Option<JsonObject>) -> Result<bool, ErrorData>;

    /// Whether the handler says that it tells of changes of resources, and of this one if one is named.
    fn tells_of_changes(&self, resource: Option<&str>) -> bool;

    /// Whether the handler tells of changes of any of its lists.
    fn tells_of_lists(&self) -> bool;

    fn revisions(&self) -> Cow<'static, [ProtocolVersion]>;
}

/// An exchange with the handler. Dropping it drops what the handler is doing.
pub(crate) struct Conversation {
    pub(crate) pipes: Pipes,
    /// The service that drives the handler, of any type.
    _running: Box<dyn Any + Send + Sync>,
}

impl Conversation {
    pub(crate) const fn new(pipes: Pipes, running: Box<dyn Any + Send + Sync>) -> Self {
        Self { pipes, _running: running }
    }
}
