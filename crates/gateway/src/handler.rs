//! The gateway as a server: what its clients see.

#![expect(deprecated, reason = "servers of all revisions may log")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::{select_all, unfold};
use longhaul::TaskPolicy;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, GetPromptRequestParams,
    GetPromptResponse, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, Reference, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
};
use rmcp::service::{Peer, RequestContext, RoleClient, RoleServer, ServiceError, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler};

use crate::call::Call;
use crate::catalog::{Catalog, Route};
use crate::config::Fold;
use crate::external;
use crate::limits;
use crate::lists::Lists;
use crate::meta;
use crate::outside::OutsideTools;
use crate::upstream::client::Client;
use crate::upstream::{Connection, RequestError, Upstream};

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    pub(crate) lists: Arc<Lists>,
    pub(crate) outside: OutsideTools,
    /// The servers that tell of changes of their resources.
    pub(crate) telling: BTreeSet<usize>,
    pub(crate) info: ServerConfig,
}

impl Shared {
    /// On which terms calls of a tool become tasks; `None` if there is none of this name, or its calls become no tasks.
    pub(crate) fn policy(&self, tool: &str) -> Option<TaskPolicy> {
        let outside = self.outside.find(tool).map(|outside| outside.policy.clone());
        outside.or_else(|| self.lists.policy(tool))
    }

    /// The server of a tool whose calls become tasks, and the fold if it is a folded one.
    pub(crate) fn durable(&self, tool: &str) -> Option<(&Upstream, Option<Arc<Fold>>)> {
        let catalog = self.lists.catalog();
        let route = catalog.tools.get(tool).filter(|route| route.is_durable())?;
        Some((self.upstreams.get(route.route.server)?, route.fold.clone()))
    }
}

/// The handler. Clones are the same.
#[derive(Clone)]
pub(crate) struct Handler(pub(crate) Arc<Shared>);

impl Handler {
    /// What all servers have. What is due is read again meanwhile.
    fn catalog(&self) -> Arc<Catalog> {
        drop(self.0.lists.refresh(&self.0.upstreams));
        self.0.lists.catalog()
    }

    /// The same, for those who ask for a list.
    async fn lists(&self) -> Arc<Catalog> {
        self.0.lists.refreshed(&self.0.upstreams).await
    }

    fn upstream(&self, server: usize) -> Result<&Arc<Upstream>, ErrorData> {
        // Every number in the catalog is that of a server.
        let unknown = || ErrorData::internal_error("the server is not known", None);
        self.0.upstreams.get(server).ok_or_else(unknown)
    }

    /// The server of a prompt, and what that calls it.
    fn prompt(&self, name: &str) -> Result<Route, ErrorData> {
        let unknown = || ErrorData::invalid_params(format!("unknown prompt: {name}"), None);
        self.catalog().prompt(name).cloned().ok_or_else(unknown)
    }

    async fn connect(&self, server: usize) -> Result<Connection, ErrorData> {
        let upstream = self.upstream(server)?;
        let connected = Box::pin(upstream.connect(Client::quiet(upstream.name()))).await;
        connected.map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }
}

fn unknown_resource(uri: &str) -> ErrorData {
    ErrorData::resource_not_found(format!("unknown resource: {uri}"), None)
}

/// What a server answers to anything but a call, which has to be quick.
async fn answer<T>(
    connection: Connection,
    request: impl AsyncFnOnce(&Peer<RoleClient>) -> Result<T, ServiceError>,
) -> Result<T, ErrorData> {
    connection.request(request).await.map_err(|unseen| match unseen {
        RequestError::Refused(error) => error,
        RequestError::Lost(why) => ErrorData::internal_error(why, None),
    })
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        self.0.info.clone()
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let outside = self.0.outside.find(name).map(|outside| outside.tool.clone());
        outside.or_else(|| self.0.lists.catalog().tools.get(name).map(|route| route.tool.clone()))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let catalog = self.lists().await;
        let listed = catalog.tool_order.iter().filter_map(|name| catalog.tools.get(name));
        let outside = self.0.outside.all().map(|outside| outside.tool.clone());
        Ok(ListToolsResult::with_all_items(listed.map(|route| route.tool.clone()).chain(outside).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(outside) = self.0.outside.find(&request.name) {
            return outside.call(request, &context).await;
        }
        let catalog = self.catalog();
        let route = catalog.tools.get(&*request.name);
        let route = route.ok_or_else(|| ErrorData::invalid_params(format!("unknown tool: {}", request.name), None))?;
        let upstream = self.upstream(route.route.server)?;
        let call = Call::new(upstream, route, request, &context)?;
        let call = async {
            match &route.fold {
                Some(fold) => external::combined(fold, &call).await,
                None => external::call(&call).await,
            }
        };
        if route.is_durable() {
            return call.await;
        }
        // Otherwise it is the task that ends in time.
        let late = || format!("the call did not end within {} s", route.run_at_most().as_secs());
        let answered = tokio::time::timeout(route.run_at_most(), call).await;
        answered.unwrap_or_else(|_late| Err(ErrorData::internal_error(late(), None)))
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let catalog = self.lists().await;
        let prompts = catalog.prompts.iter();
        Ok(ListPromptsResult::with_all_items(prompts.map(|(prompt, _)| prompt.clone()).collect()))
    }

    async fn get_prompt(
        &self,
        mut request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let Route { server, name } = self.prompt(&request.name)?;
        (request.name, request.meta) = (name, meta::passed_on(&context.meta));
        let connection = self.connect(server).await?;
        answer(connection, async |peer| peer.get_prompt_once(request).await).await
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let catalog = self.lists().await;
        let resources = catalog.resources.iter();
        Ok(ListResourcesResult::with_all_items(resources.map(|(resource, _)| resource.clone()).collect()))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let catalog = self.lists().await;
        let templates = catalog.templates.iter();
        Ok(ListResourceTemplatesResult::with_all_items(templates.map(|(template, _)| template.clone()).collect()))
    }

    async fn read_resource(
        &self,
        mut request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let server = self.owner_of(&request.uri)?;
        request.meta = meta::passed_on(&context.meta);
        let connection = self.connect(server).await?;
        answer(connection, async |peer| peer.read_resource_once(request).await).await
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        if self.0.telling.is_empty() {
            return None;
        }
        let named = requested.resource_subscriptions.iter().flatten().take(limits::SUBSCRIPTION_MAX);
        let told = named.filter(|uri| self.teller_of(uri).is_some());
        Some(SubscriptionFilter::builder().resource_subscriptions(told).build())
    }

    /// Asks the server whether it tells of changes of a resource. Sessions hear of them as all others do, by
    /// [`listen`](Self::listen).
    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let server = self.teller_of(&request.uri).ok_or_else(|| unknown_resource(&request.uri))?;
        let upstream = self.upstream(server)?;
        let mut heard = upstream.hear([request.uri].into())?;
        match tokio::time::timeout(limits::ANSWER_MAX, heard.next()).await {
            Ok(told) => told.map(drop),
            Err(_late) => Err(ErrorData::internal_error(format!("`{}` does not answer", upstream.name()), None)),
        }
    }

    /// Passes on which resources have changed, until the client leaves.
    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let mut by_server: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        for uri in subscription.accepted().resource_subscriptions.iter().flatten() {
            let server = self.teller_of(uri).ok_or_else(|| unknown_resource(uri))?;
            by_server.entry(server).or_default().insert(uri.clone());
        }
        let mut heard = Vec::new();
        for (server, uris) in by_server {
            let upstream = self.upstream(server)?;
            heard.push(upstream.hear(uris)?);
        }
        let changes = heard.into_iter().map(|heard| {
            Box::pin(unfold(heard, async |mut heard| {
                let next = heard.next().await;
                Some((next, heard))
            }))
        });
        let mut changes = select_all(changes);
        loop {
            tokio::select! {
                biased;
                () = subscription.cancelled() => return Ok(()),
                Some(changed) = changes.next() => {
                    let sent = subscription.sink().notify_resource_updated(changed?).await;
                    sent.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
                }
            }
        }
    }

    /// What a server logs during a call is passed on from this level on, by what is around this handler.
    async fn set_level(
        &self,
        _request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn complete(
        &self,
        mut request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let server = match &mut request.r#ref {
            Reference::Prompt(prompt) => {
                let Route { server, name } = self.prompt(&prompt.name)?;
                prompt.name = name;
                server
            }
            Reference::Resource(template) => self.owner_of(&template.uri)?,
            // Anything that a later version of `rmcp` may add.
            _ => return Err(ErrorData::invalid_params("this reference is not known", None)),
        };
        request.meta = meta::passed_on(&context.meta);
        let connection = self.connect(server).await?;
        answer(connection, async |peer| peer.complete(request).await).await
    }
}

impl Handler {
    /// The server of a resource: the one that lists it, otherwise the only one that has resources.
    fn owner_of(&self, uri: &str) -> Result<usize, ErrorData> {
        let owner = self.catalog().owner_of(uri).or_else(|| self.only_one_with_resources());
        owner.ok_or_else(|| unknown_resource(uri))
    }

    /// The server of a resource, if it tells of its changes.
    fn teller_of(&self, uri: &str) -> Option<usize> {
        self.owner_of(uri).ok().filter(|server| self.0.telling.contains(server))
    }

    fn only_one_with_resources(&self) -> Option<usize> {
        (self.0.upstreams.len() == 1 && self.0.info.capabilities.resources.is_some()).then_some(0)
    }
}
