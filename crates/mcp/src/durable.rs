//! The durable handler: an `rmcp` handler around the author's own. It turns calls into tasks, answers requests about
//! jobs, and passes everything else on.

#![expect(deprecated, reason = "methods of older revisions are passed on too")]

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam,
    CompleteRequestParams, CompleteResult, CustomNotification, CustomRequest, CustomResult, DiscoverResult,
    ExtensionCapabilities, GetPromptRequestParams, GetPromptResponse, GetSkillRequestParams, GetSkillResult,
    GetTaskParams, GetTaskResult, InitializeRequestParams, InitializeResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListSkillsResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ProtocolVersion, ReadResourceDirectoryRequestParams, ReadResourceDirectoryResult,
    ReadResourceRequestParams, ReadResourceResponse, ServerConfig, SetLevelRequestParams, SubscribeRequestParams,
    SubscriptionFilter, TASKS_EXTENSION_ID, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tracing::Instrument;

use crate::revision::Generation;
use crate::shared::guard::{Panicked, catch, guard};
use crate::shared::{Shared, access, caller, digest, scope};

mod call;
mod job;
mod own_state;
mod plain;
mod waiting;

/// A handler that makes the tools of `H` durable.
pub(crate) struct Durable<H> {
    inner: H,
    shared: Arc<Shared>,
}

impl<H: ServerHandler> Durable<H> {
    pub(crate) const fn new(inner: H, shared: Arc<Shared>) -> Self {
        Self { inner, shared }
    }
}

/// Declares that the server supports tasks. The object is empty: some clients take anything else for "no".
fn declare_tasks(extensions: &mut Option<ExtensionCapabilities>) {
    extensions.get_or_insert_default().insert(TASKS_EXTENSION_ID.to_owned(), serde_json::Map::new());
}

/// Declares that a call may be sent again with the idempotency key that it had: a client cannot know it of other
/// servers, whose tools would run twice.
fn declare_keys(extensions: &mut Option<ExtensionCapabilities>) {
    extensions.get_or_insert_default().insert(KEYS_EXTENSION_ID.to_owned(), serde_json::Map::new());
}

/// Declares that a call may ask to start later: another server would start it at once.
fn declare_later_starts(extensions: &mut Option<ExtensionCapabilities>) {
    extensions.get_or_insert_default().insert(LATER_STARTS_EXTENSION_ID.to_owned(), serde_json::Map::new());
}

/// The names of these extensions of ours.
const KEYS_EXTENSION_ID: &str = "dev.longhaul/idempotencyKeys";
const LATER_STARTS_EXTENSION_ID: &str = "dev.longhaul/laterStarts";

#[deny(clippy::missing_trait_methods)]
impl<H: ServerHandler> ServerHandler for Durable<H> {
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let span = caller::span(&context);
        self.call(request, context).instrument(span).await
    }

    fn get_info(&self) -> ServerConfig {
        let mut info = self.inner.get_info();
        declare_tasks(&mut info.capabilities.extensions);
        info
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let owner = caller::principal(&context)?;
        let takes_keys = !scope::is_shared(self.shared.settings.anonymous_callers, &owner.owner);
        let mut discovered = guard(self.inner.discover(context)).await?;
        declare_tasks(&mut discovered.capabilities.extensions);
        declare_later_starts(&mut discovered.capabilities.extensions);
        if takes_keys {
            declare_keys(&mut discovered.capabilities.extensions);
        }
        Ok(discovered)
    }

    /// A subscription that is not about tasks: limited in time, since every open stream has a cost.
    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let clock = Arc::clone(&self.shared.engine.ports().clock);
        tokio::select! {
            biased;
            ended = guard(self.inner.listen(context)) => ended,
            () = self.shared.closing.cancelled() => Ok(()),
            () = clock.sleep_ms(self.shared.settings.listen_ms_max) => Ok(()),
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // `rmcp` treats a method that it knows as a custom one if the parameters do not match.
        if has_typed_params(&request.method) {
            return Err(ErrorData::invalid_params(format!("the params of {} are malformed", request.method), None));
        }
        guard(self.inner.on_custom_request(request, context)).await
    }

    // Everything below is passed on unchanged, except for the states of requests with several rounds, and tools that a
    // caller may not call. Requests about tasks do not come here: their protocol versions answer them.

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        guard(self.inner.get_task(request, context)).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        guard(self.inner.update_task(request, context)).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        guard(self.inner.cancel_task(request, context)).await
    }

    async fn ping(&self, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        guard(self.inner.ping(context)).await
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        guard(self.inner.initialize(request, context)).await
    }

    fn negotiate_initialize(&self, request: &InitializeRequestParams) -> Result<InitializeResult, ErrorData> {
        self.inner.negotiate_initialize(request)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.inner.supported_protocol_versions()
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        guard(self.inner.complete(request, context)).await
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let (level, headers) = (request.level, caller::parts(&context).map(|parts| parts.headers.clone()));
        guard(self.inner.set_level(request, context)).await?;
        headers.iter().for_each(|headers| self.shared.logs.set_level(headers, level));
        Ok(())
    }

    async fn get_prompt(
        &self,
        mut request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let digest = digest::of_call(&request.name, request.arguments.as_ref());
        let binding = Self::binding(&context, "prompts/get", digest)?;
        request.request_state = self.unwrapped(request.request_state, &binding)?;
        match guard(self.inner.get_prompt(request, context)).await? {
            GetPromptResponse::InputRequired(asked) => Ok(self.wrapped(asked, &binding)?.into()),
            complete => Ok(complete),
        }
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        guard(self.inner.list_prompts(request, context)).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        guard(self.inner.list_resources(request, context)).await
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        guard(self.inner.list_resource_templates(request, context)).await
    }

    async fn read_resource(
        &self,
        mut request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let digest = digest::of_call(&request.uri, None);
        let binding = Self::binding(&context, "resources/read", digest)?;
        request.request_state = self.unwrapped(request.request_state, &binding)?;
        match guard(self.inner.read_resource(request, context)).await? {
            ReadResourceResponse::InputRequired(asked) => Ok(self.wrapped(asked, &binding)?.into()),
            complete => Ok(complete),
        }
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.inner.accepted_subscription_filter(requested)
    }

    #[expect(deprecated, reason = "older revisions still have it")]
    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        guard(self.inner.subscribe(request, context)).await
    }

    #[expect(deprecated, reason = "older revisions still have it")]
    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        guard(self.inner.unsubscribe(request, context)).await
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let caller = caller::principal(&context)?;
        let version = context.meta.protocol_version();
        let mut page = guard(self.inner.list_tools(request, context)).await?;
        let needs_scopes = |tool: &Tool| !self.shared.scopes_of_call(&tool.name).is_empty();
        if !self.shared.settings.scopes.is_empty() || page.tools.iter().any(needs_scopes) {
            page.tools.retain(|tool| access::has_all(&caller, &self.shared.scopes_of_call(&tool.name)));
            // What one caller sees is not for others. Older revisions have no such field.
            if Generation::of_version(version.as_ref().map(ProtocolVersion::as_str)) == Generation::PerRequest {
                page.cache_scope = Some(CacheScope::Private);
            }
        }
        Ok(page)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.inner.get_tool(name).or_else(|| Some(self.job_tool(name)?.tool(&self.shared)))
    }

    async fn on_cancelled(&self, notification: CancelledNotificationParam, context: NotificationContext<RoleServer>) {
        logged(catch(self.inner.on_cancelled(notification, context)).await);
    }

    async fn on_progress(&self, notification: ProgressNotificationParam, context: NotificationContext<RoleServer>) {
        logged(catch(self.inner.on_progress(notification, context)).await);
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        logged(catch(self.inner.on_initialized(context)).await);
    }

    async fn on_roots_list_changed(&self, context: NotificationContext<RoleServer>) {
        logged(catch(self.inner.on_roots_list_changed(context)).await);
    }

    async fn on_custom_notification(&self, notification: CustomNotification, context: NotificationContext<RoleServer>) {
        logged(catch(self.inner.on_custom_notification(notification, context)).await);
    }

    async fn list_skills(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        guard(self.inner.list_skills(request, context)).await
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        guard(self.inner.get_skill(request, context)).await
    }

    async fn read_resource_directory(
        &self,
        request: ReadResourceDirectoryRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceDirectoryResult, ErrorData> {
        guard(self.inner.read_resource_directory(request, context)).await
    }
}

fn logged(notified: Result<(), Panicked>) {
    if let Err(Panicked(words)) = notified {
        tracing::error!(panic = words, "the handler panicked when it got a notification");
    }
}

/// Whether `method` is one whose parameters `rmcp` reads itself.
fn has_typed_params(method: &str) -> bool {
    const METHODS: [&str; 14] = [
        "completion/complete",
        "logging/setLevel",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "tasks/cancel",
        "tasks/get",
        "tasks/update",
        "tools/call",
        "tools/list",
    ];
    METHODS.contains(&method)
}
