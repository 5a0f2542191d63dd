//! The backend that runs the author's handler in `rmcp`.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use rmcp::model::{ClientJsonRpcMessage, InitializeRequestParams, JsonObject, ProtocolVersion, SubscriptionFilter};
use rmcp::service::serve_directly;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use crate::backend::{Backend, Conversation};
use crate::durable::Durable;
use crate::state::Shared;
use crate::tools::handler::Wire;

/// The handlers that `make_handler` makes, each inside a [`Durable`].
pub(super) struct RmcpBackend<H: ServerHandler> {
    make_handler: Arc<dyn Fn() -> H + Send + Sync>,
    shared: Arc<Shared>,
    /// Read from the first handler: all of them are the same.
    revisions: OnceLock<Cow<'static, [ProtocolVersion]>>,
}

impl<H: ServerHandler> RmcpBackend<H> {
    pub(super) fn new(make_handler: Arc<dyn Fn() -> H + Send + Sync>, shared: Arc<Shared>) -> Self {
        Self { make_handler, shared, revisions: OnceLock::new() }
    }
}

#[async_trait]
impl<H: ServerHandler> Backend for RmcpBackend<H> {
    fn converse(&self, message: ClientJsonRpcMessage, client: InitializeRequestParams) -> Conversation {
        let (wire, pipes) = Wire::new();
        let durable = Durable::new((self.make_handler)(), Arc::clone(&self.shared));
        let running = serve_directly::<RoleServer, _, _, _, _>(durable, wire, Some(client));
        // The other end was created a few lines above and is still open.
        drop(pipes.to_tool.send(message));
        Conversation::new(pipes, Box::new(running))
    }

    fn has_tool(&self, tool: &str) -> bool {
        (self.make_handler)().get_tool(tool).is_some()
    }

    fn input_schema(&self, tool: &str) -> Option<Arc<JsonObject>> {
        (self.make_handler)().get_tool(tool).map(|tool| tool.input_schema)
    }

    async fn must_have(&self, tool: &str) -> Result<(), ErrorData> {
        self.shared.tools.must_have(&(self.make_handler)(), &self.shared.policies, tool).await
    }

    async fn check_arguments(&self, tool: &str, arguments: &mut Option<JsonObject>) -> Result<bool, ErrorData> {
        let (handler, shared) = ((self.make_handler)(), &self.shared);
        shared.tools.check_arguments(&handler, &shared.policies, tool, arguments).await
    }

    fn tells_of_changes(&self, resource: Option<&str>) -> bool {
        let handler = (self.make_handler)();
        let resources = handler.get_info().capabilities.resources;
        if resources.and_then(|resources| resources.subscribe) != Some(true) {
            return false;
        }
        let Some(resource) = resource else { return true };
        let wanted = SubscriptionFilter::builder().resource_subscription(resource).build();
        let accepted =
            handler.accepted_subscription_filter(&wanted).and_then(|accepted| accepted.resource_subscriptions);
        accepted.is_some_and(|accepted| accepted.iter().any(|accepted| accepted == resource))
    }

    fn tells_of_lists(&self) -> bool {
        let wanted = SubscriptionFilter::builder().tools_list_changed().prompts_list_changed().resources_list_changed();
        // One that only declares it tells of nothing by `listen`.
        let accepted = (self.make_handler)().accepted_subscription_filter(&wanted.build()).unwrap_or_default();
        [accepted.tools_list_changed, accepted.prompts_list_changed, accepted.resources_list_changed]
            .contains(&Some(true))
    }

    fn revisions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.revisions.get_or_init(|| (self.make_handler)().supported_protocol_versions()).clone()
    }
}
