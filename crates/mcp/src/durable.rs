//! The `rmcp` handler around the author's own: it answers plain calls with it, and passes everything else on.

#![expect(deprecated, reason = "methods of older revisions are passed on too")]

use std::borrow::Cow;
use std::sync::Arc;

use longhaul_core::{Principal, TaskFilter};
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam,
    CompleteRequestParams, CompleteResult, CustomNotification, CustomRequest, CustomResult, DiscoverResult,
    ExtensionCapabilities, GetPromptRequestParams, GetPromptResponse, GetSkillRequestParams, GetSkillResult,
    GetTaskParams, GetTaskResult, Implementation, InitializeRequestParams, InitializeResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListSkillsResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ProtocolVersion, ReadResourceDirectoryRequestParams, ReadResourceDirectoryResult,
    ReadResourceRequestParams, ReadResourceResponse, ServerConfig, SetLevelRequestParams, SubscribeRequestParams,
    SubscriptionFilter, TASKS_EXTENSION_ID, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tracing::Instrument;

use crate::revision::Generation;
use crate::signing::{derived, session};
use crate::state::Shared;
use crate::tool_calls::caller;
use crate::tools::handler::{Panicked, catch, guard};

mod plain;

/// A handler that makes the tools of `H` durable.
pub(crate) struct Durable<H> {
    inner: H,
    shared: Arc<Shared>,
}

impl<H: ServerHandler> Durable<H> {
    pub(crate) const fn new(inner: H, shared: Arc<Shared>) -> Self {
        Self { inner, shared }
    }

    /// Whether this caller can list the tasks of all owners: it is an operator, and the store has the list.
    async fn shows_all_owners(&self, caller: &Principal) -> bool {
        let shared = &self.shared;
        shared.settings.has_operator(caller)
            && !matches!(shared.engine.list_of_all_owners(&TaskFilter::default(), None, 1).await, Ok(None))
    }

    /// Gives a server its name that has only the one of `rmcp`.
    fn name(&self, info: &mut Implementation) {
        if let Some(own) = &self.shared.settings.server_info
            && *info == Implementation::from_build_env()
        {
            *info = own.clone();
        }
    }
}

/// Longhaul's own extensions. A call may be sent again with its idempotency key, where other servers would run it
/// twice. A call may request a later start, where other servers would start it at once.
const KEYS_EXTENSION_ID: &str = "dev.longhaul/idempotencyKeys";
const LATER_STARTS_EXTENSION_ID: &str = "dev.longhaul/laterStarts";

/// The extension that the server has for operators only.
const ALL_OWNERS_EXTENSION_ID: &str = "dev.longhaul/allOwners";

/// Declares that the server has an extension. The object is empty: some clients take anything else for "no".
fn declare(extensions: &mut Option<ExtensionCapabilities>, id: &str) {
    extensions.get_or_insert_default().insert(id.to_owned(), serde_json::Map::new());
}

/// Methods that the author's handler answers itself.
macro_rules! pass_on {
    (requests { $($request:ident($($argument:ident: $params:ty)?) -> $result:ty,)* }
     notifications { $($notification:ident($($about:ident: $param:ty)?),)* }) => {
        $(async fn $request(
            &self,
            $($argument: $params,)?
            context: RequestContext<RoleServer>,
        ) -> Result<$result, ErrorData> {
            guard(self.inner.$request($($argument,)? context)).await
        })*
        $(async fn $notification(&self, $($about: $param,)? context: NotificationContext<RoleServer>) {
            if let Err(Panicked(words)) = catch(self.inner.$notification($($about,)? context)).await {
                tracing::error!(panic = words, "the handler panicked when it got a notification");
            }
        })*
    };
}

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
        declare(&mut info.capabilities.extensions, TASKS_EXTENSION_ID);
        self.name(&mut info.server_info);
        info
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let owner = caller::principal(&context)?;
        let takes_keys = !session::is_shared(self.shared.settings.anonymous_callers, &owner.owner);
        let mut discovered = guard(self.inner.discover(context)).await?;
        if let Some(mut info) = discovered.server_info() {
            self.name(&mut info);
            discovered.set_server_info(info);
        }
        let ours = [TASKS_EXTENSION_ID, LATER_STARTS_EXTENSION_ID]
            .into_iter()
            .chain(takes_keys.then_some(KEYS_EXTENSION_ID))
            .chain(self.shows_all_owners(&owner).await.then_some(ALL_OWNERS_EXTENSION_ID));
        ours.for_each(|id| declare(&mut discovered.capabilities.extensions, id));
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

    // Everything below is passed on unchanged, except for the states of requests with several rounds, and tools that a
    // caller may not call. Requests about tasks do not come here: their protocol versions answer them.
    pass_on! {
        requests {
            ping() -> (),
            get_task(request: GetTaskParams) -> GetTaskResult,
            update_task(request: UpdateTaskParams) -> (),
            cancel_task(request: CancelTaskParams) -> (),
            complete(request: CompleteRequestParams) -> CompleteResult,
            list_prompts(request: Option<PaginatedRequestParams>) -> ListPromptsResult,
            list_resources(request: Option<PaginatedRequestParams>) -> ListResourcesResult,
            list_resource_templates(request: Option<PaginatedRequestParams>) -> ListResourceTemplatesResult,
            subscribe(request: SubscribeRequestParams) -> (),
            unsubscribe(request: UnsubscribeRequestParams) -> (),
            list_skills(request: Option<PaginatedRequestParams>) -> ListSkillsResult,
            get_skill(request: GetSkillRequestParams) -> GetSkillResult,
            read_resource_directory(request: ReadResourceDirectoryRequestParams) -> ReadResourceDirectoryResult,
            on_custom_request(request: CustomRequest) -> CustomResult,
        }
        notifications {
            on_initialized(),
            on_roots_list_changed(),
            on_cancelled(notification: CancelledNotificationParam),
            on_progress(notification: ProgressNotificationParam),
            on_custom_notification(notification: CustomNotification),
        }
    }

    /// A handler that answers this itself may name a revision that the client did not ask for, or one without a
    /// handshake.
    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let negotiated = self.inner.negotiate_initialize(&request).map(|info| info.protocol_version);
        let asked = request.protocol_version.clone();
        let mut result = guard(self.inner.initialize(request, context)).await?;
        self.name(&mut result.server_info);
        let negotiated = negotiated?;
        if negotiated == asked || !result.protocol_version.has_initialize() {
            result.protocol_version = negotiated;
        }
        Ok(result)
    }

    fn negotiate_initialize(&self, request: &InitializeRequestParams) -> Result<InitializeResult, ErrorData> {
        self.inner.negotiate_initialize(request)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.inner.supported_protocol_versions()
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
        let digest = derived::digest_of_call(&request.name, request.arguments.as_ref());
        let binding = Self::binding(&context, "prompts/get", digest)?;
        request.request_state = self.unwrapped(request.request_state, &binding)?;
        match guard(self.inner.get_prompt(request, context)).await? {
            GetPromptResponse::InputRequired(asked) => Ok(self.wrapped(asked, &binding)?.into()),
            complete => Ok(complete),
        }
    }

    async fn read_resource(
        &self,
        mut request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let digest = derived::digest_of_call(&request.uri, None);
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
            page.tools.retain(|tool| caller.scopes.contain_all(&self.shared.scopes_of_call(&tool.name)));
            // What one caller sees is not for others. Older revisions have no such field.
            if Generation::of_version(version.as_ref().map(ProtocolVersion::as_str)) == Generation::PerRequest {
                page.cache_scope = Some(CacheScope::Private);
            }
        }
        Ok(page)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.inner.get_tool(name)
    }
}
