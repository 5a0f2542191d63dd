//! The gateway as a server: what its clients see.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, GetPromptRequestParams,
    GetPromptResponse, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, Reference, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer, ServiceError};
use rmcp::{ErrorData, ServerHandler};

use crate::call::Call;
use crate::catalog::Catalog;
use crate::folded::FoldedCall;
use crate::limits;
use crate::upstream::client::Client;
use crate::upstream::{Connection, Upstream};

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    pub(crate) catalog: Catalog,
    pub(crate) info: ServerConfig,
}

/// The handler. Clones are the same.
#[derive(Clone)]
pub(crate) struct Handler(pub(crate) Arc<Shared>);

impl Handler {
    fn upstream(&self, server: usize) -> Result<&Upstream, ErrorData> {
        // Every number in the catalog is that of a server.
        let upstream = self.0.upstreams.get(server).map(|upstream| &**upstream);
        upstream.ok_or_else(|| ErrorData::internal_error("the server is not known", None))
    }

    async fn connect(&self, server: usize) -> Result<Connection, ErrorData> {
        let upstream = self.upstream(server)?;
        let connected = Box::pin(upstream.connect(Client::quiet(upstream.name()))).await;
        connected.map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }
}

/// What a server answers to anything but a call, which has to be quick.
async fn answer<T>(
    connection: &Connection,
    request: impl Future<Output = Result<T, ServiceError>>,
) -> Result<T, ErrorData> {
    match tokio::time::timeout(limits::ANSWER_MAX, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(ServiceError::McpError(error))) => Err(error),
        Ok(Err(error)) => Err(ErrorData::internal_error(format!("{}: {error}", connection.server()), None)),
        Err(_late) => {
            let (server, seconds) = (connection.server(), limits::ANSWER_MAX.as_secs());
            Err(ErrorData::internal_error(format!("{server}: no answer within {seconds} seconds"), None))
        }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        self.0.info.clone()
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.0.catalog.tools.get(name).map(|route| route.tool.clone())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let names = self.0.catalog.tool_order.iter();
        Ok(ListToolsResult::with_all_items(names.filter_map(|name| self.get_tool(name)).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let route = self.0.catalog.tools.get(&*request.name);
        let route = route.ok_or_else(|| ErrorData::invalid_params(format!("unknown tool: {}", request.name), None))?;
        let upstream = self.upstream(route.route.server)?;
        let call = Call::new(upstream, route, request, &context)?;
        match &route.fold {
            Some(fold) => Box::pin(FoldedCall::new(upstream, fold, &call).run(call)).await,
            None => Box::pin(call.run()).await,
        }
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = self.0.catalog.prompts.iter();
        Ok(ListPromptsResult::with_all_items(prompts.map(|(prompt, _)| prompt.clone()).collect()))
    }

    async fn get_prompt(
        &self,
        mut request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let unknown = || ErrorData::invalid_params(format!("unknown prompt: {}", request.name), None);
        let route = self.0.catalog.prompt(&request.name).ok_or_else(unknown)?;
        request.name.clone_from(&route.name);
        request.meta = None;
        let connection = self.connect(route.server).await?;
        answer(&connection, connection.peer().get_prompt_once(request)).await
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = self.0.catalog.resources.iter();
        Ok(ListResourcesResult::with_all_items(resources.map(|(resource, _)| resource.clone()).collect()))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = self.0.catalog.templates.iter();
        Ok(ListResourceTemplatesResult::with_all_items(templates.map(|(template, _)| template.clone()).collect()))
    }

    async fn read_resource(
        &self,
        mut request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let server = self.owner_of(&request.uri)?;
        request.meta = None;
        let connection = self.connect(server).await?;
        answer(&connection, connection.peer().read_resource_once(request)).await
    }

    async fn complete(
        &self,
        mut request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let server = match &mut request.r#ref {
            Reference::Prompt(prompt) => {
                let unknown = || ErrorData::invalid_params(format!("unknown prompt: {}", prompt.name), None);
                let route = self.0.catalog.prompt(&prompt.name).ok_or_else(unknown)?;
                prompt.name.clone_from(&route.name);
                route.server
            }
            Reference::Resource(template) => self.owner_of(&template.uri)?,
            // Anything that a later version of `rmcp` may add.
            _ => return Err(ErrorData::invalid_params("this reference is not known", None)),
        };
        request.meta = None;
        let connection = self.connect(server).await?;
        answer(&connection, connection.peer().complete(request)).await
    }
}

impl Handler {
    /// The server of a resource: the one that lists it, otherwise the only one that has resources.
    fn owner_of(&self, uri: &str) -> Result<usize, ErrorData> {
        let unknown = || ErrorData::resource_not_found(format!("unknown resource: {uri}"), None);
        self.0.catalog.owner_of(uri).or_else(|| self.only_one_with_resources()).ok_or_else(unknown)
    }

    fn only_one_with_resources(&self) -> Option<usize> {
        (self.0.upstreams.len() == 1 && self.0.info.capabilities.resources.is_some()).then_some(0)
    }
}
