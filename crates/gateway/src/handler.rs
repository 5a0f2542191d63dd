//! The gateway as a server: the part that its clients see.

#![expect(deprecated, reason = "servers of all revisions may log")]

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::{select_all, unfold};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, GetPromptRequestParams,
    GetPromptResponse, GetSkillRequestParams, GetSkillResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListSkillsResult, ListToolsResult, PaginatedRequestParams, ReadResourceDirectoryRequestParams,
    ReadResourceDirectoryResult, ReadResourceRequestParams, ReadResourceResponse, Reference, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext, SubscriptionSendError};
use rmcp::{ErrorData, ServerHandler};

use crate::call::Call;
use crate::catalog::{Catalog, Route};
use crate::changes::Versions;
use crate::external;
use crate::limits;
use crate::live::Live;
use crate::meta;
use crate::shared::{Shared, answer, connect, unknown_resource};
use crate::upstream::Upstream;

/// The handler. Clones are the same.
#[derive(Clone)]
pub(crate) struct Handler(pub(crate) Arc<Live>);

impl Handler {
    fn now(&self) -> Arc<Shared> {
        self.0.now()
    }

    /// The lists of all servers, for a client that asks for a list.
    async fn lists(&self) -> Arc<Catalog> {
        let shared = self.now();
        shared.lists.refreshed(&shared.upstreams).await
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        self.now().info.clone()
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let shared = self.now();
        let outside = shared.outside.find(name).map(|outside| outside.tool.clone());
        outside.or_else(|| shared.lists.catalog().tools.get(name).map(|route| route.tool.clone()))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let shared = self.now();
        let catalog = shared.lists.refreshed(&shared.upstreams).await;
        let outside = shared.outside.all().map(|outside| outside.tool.clone());
        Ok(ListToolsResult::with_all_items(catalog.shown().cloned().chain(outside).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let shared = self.now();
        if let Some(outside) = shared.outside.find(&request.name) {
            return outside.call(request, &context).await;
        }
        let catalog = shared.catalog();
        let route = catalog.tools.get(&*request.name);
        let route = route.ok_or_else(|| ErrorData::invalid_params(format!("unknown tool: {}", request.name), None))?;
        let upstream = shared.upstream(route.route.server)?;
        let call = Call::new(upstream, route, request, &context)?;
        let call = async {
            let answered = match &route.fold {
                Some(fold) => external::combined(fold, &call).await,
                None => external::call(&call).await,
            };
            if answered.is_err() {
                call.span.fail();
            }
            answered
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
        let shared = self.now();
        let Route { server, name } = shared.prompt(&request.name)?;
        (request.name, request.meta) = (name, meta::passed_on(&context.meta, None));
        let connection = connect(shared.upstream(server)?).await?;
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
        let shared = self.now();
        let server = shared.owner_of(&request.uri)?;
        request.meta = meta::passed_on(&context.meta, None);
        let connection = connect(shared.upstream(server)?).await?;
        answer(connection, async |peer| peer.read_resource_once(request).await).await
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let shared = self.now();
        let mut accepted = SubscriptionFilter::default();
        if !shared.telling.is_empty() {
            let named = requested.resource_subscriptions.iter().flatten().take(limits::SUBSCRIPTION_MAX);
            let told: Vec<String> = named.filter(|uri| shared.teller_of(uri).is_some()).cloned().collect();
            accepted.resource_subscriptions = Some(told);
        }
        if shared.tells_of_lists() {
            accepted.tools_list_changed = requested.tools_list_changed;
            accepted.prompts_list_changed = requested.prompts_list_changed;
            accepted.resources_list_changed = requested.resources_list_changed;
        }
        (accepted != SubscriptionFilter::default()).then_some(accepted)
    }

    /// Asks the server whether it reports changes of a resource. Sessions receive the changes as other clients do, by
    /// [`listen`](Self::listen).
    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let shared = self.now();
        let server = shared.teller_of(&request.uri).ok_or_else(|| unknown_resource(&request.uri))?;
        let upstream = shared.upstream(server)?;
        let mut heard = upstream.hear([request.uri].into())?;
        match tokio::time::timeout(limits::ANSWER_MAX, heard.next()).await {
            Ok(told) => told.map(drop),
            Err(_late) => Err(ErrorData::internal_error(format!("`{}` does not answer", upstream.name()), None)),
        }
    }

    /// Passes on which resources and lists have changed, until the client leaves. It also ends when another
    /// configuration has replaced a server of these resources. The client then subscribes again.
    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let uris: Vec<String> = subscription.accepted().resource_subscriptions.iter().flatten().cloned().collect();
        let mut versions = self.0.changes().hear();
        let mut seen = *versions.borrow_and_update();
        let heard = self.now().hear(&uris)?;
        let servers: Vec<Arc<Upstream>> = heard.iter().map(|(upstream, _)| Arc::clone(upstream)).collect();
        let changes = heard.into_iter().map(|(_, heard)| {
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
                Ok(()) = versions.changed() => {
                    let now = *versions.borrow_and_update();
                    tell_of_lists(&subscription, &std::mem::replace(&mut seen, now), &now).await?;
                    let shared = self.now();
                    let has = |server: &Arc<Upstream>| shared.upstreams.iter().any(|kept| Arc::ptr_eq(kept, server));
                    if !servers.iter().all(has) {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn list_skills(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        self.now().list_skills().await
    }

    async fn get_skill(
        &self,
        mut request: GetSkillRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        request.meta = meta::passed_on(&context.meta, None);
        self.now().skill(request).await
    }

    async fn read_resource_directory(
        &self,
        mut request: ReadResourceDirectoryRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceDirectoryResult, ErrorData> {
        request.meta = meta::passed_on(&context.meta, None);
        self.now().directory(request).await
    }

    /// Accepts the level. The layer around this handler filters by it which log messages of servers it passes on during
    /// a call.
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
        let shared = self.now();
        let server = match &mut request.r#ref {
            Reference::Prompt(prompt) => {
                let Route { server, name } = shared.prompt(&prompt.name)?;
                prompt.name = name;
                server
            }
            Reference::Resource(template) => shared.owner_of(&template.uri)?,
            // Anything that a later version of `rmcp` may add.
            _ => return Err(ErrorData::invalid_params("this reference is not known", None)),
        };
        request.meta = meta::passed_on(&context.meta, None);
        let connection = connect(shared.upstream(server)?).await?;
        answer(connection, async |peer| peer.complete(request).await).await
    }
}

/// Notifies a client of the changed lists that it has subscribed to.
async fn tell_of_lists(subscription: &SubscriptionContext, seen: &Versions, now: &Versions) -> Result<(), ErrorData> {
    let (wanted, sink) = (subscription.accepted(), subscription.sink());
    let is_due = |wanted: Option<bool>, seen: u64, now: u64| wanted == Some(true) && seen != now;
    let told = async {
        if is_due(wanted.tools_list_changed, seen.tools, now.tools) {
            sink.notify_tool_list_changed().await?;
        }
        if is_due(wanted.prompts_list_changed, seen.prompts, now.prompts) {
            sink.notify_prompt_list_changed().await?;
        }
        if is_due(wanted.resources_list_changed, seen.resources, now.resources) {
            sink.notify_resource_list_changed().await?;
        }
        Ok::<_, SubscriptionSendError>(())
    };
    told.await.map_err(|error| ErrorData::internal_error(error.to_string(), None))
}
