//! An `rmcp` handler with everything that the conformance suite calls, one file for each topic.

mod changes;
mod content;
mod handler;
mod legacy_requests;
mod prompts;
mod questions;
mod resources;
mod rounds;
mod streaming;
mod tasks;
mod waiting;

use std::sync::LazyLock;

pub(crate) use handler::Fixtures;
pub use handler::ListChanges;
use handler::{Context, Tried};
use rmcp::{
    ErrorData, ServerHandler,
    handler::server::router::tool::ToolRouter,
    model::{
        CompleteRequestParams, CompleteResult, CompletionInfo, GetPromptRequestParams, GetPromptResponse,
        Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
        PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
        SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
    },
    service::SubscriptionContext,
    tool_handler,
};

/// Built once: a router that is built per call costs three times the rest of the call.
static TOOLS: LazyLock<ToolRouter<Fixtures>> = LazyLock::new(|| {
    Fixtures::content_router()
        + Fixtures::change_router()
        + Fixtures::streaming_router()
        + Fixtures::legacy_request_router()
        + Fixtures::round_router()
        + Fixtures::task_router()
        + Fixtures::waiting_router()
});

/// The suite calls the tool that is listed first, without arguments, and expects success.
const LISTED_FIRST: &str = "test_simple_text";

#[tool_handler(router = TOOLS)]
impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(capabilities(self.list_changes));
        info.server_info = Implementation::new("longhaul-conformance", env!("CARGO_PKG_VERSION"));
        info.instructions = Some("Fixtures for the MCP conformance suite".to_owned());
        info
    }

    async fn list_tools(&self, _page: Option<PaginatedRequestParams>, _context: Context) -> Tried<ListToolsResult> {
        let mut tools = TOOLS.list_all();
        tools.sort_by_key(|tool| tool.name != LISTED_FIRST);
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn list_prompts(&self, _page: Option<PaginatedRequestParams>, _context: Context) -> Tried<ListPromptsResult> {
        Ok(ListPromptsResult::with_all_items(prompts::list()))
    }

    async fn get_prompt(&self, request: GetPromptRequestParams, context: Context) -> Tried<GetPromptResponse> {
        prompts::get(self, request, context).await
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: Context,
    ) -> Tried<ListResourcesResult> {
        Ok(ListResourcesResult::with_all_items(resources::list()))
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: Context,
    ) -> Tried<ListResourceTemplatesResult> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::list_templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: Context,
    ) -> Tried<ReadResourceResponse> {
        resources::read(&request.uri).map(Into::into)
    }

    async fn subscribe(&self, request: SubscribeRequestParams, _context: Context) -> Tried<()> {
        resources::find(&request.uri)
    }

    async fn unsubscribe(&self, request: UnsubscribeRequestParams, _context: Context) -> Tried<()> {
        resources::find(&request.uri)
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(changes::accepted(requested))
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Tried<()> {
        changes::pass_on(self.changes.subscribe(), &subscription).await
    }

    async fn complete(&self, request: CompleteRequestParams, _context: Context) -> Tried<CompleteResult> {
        let started = request.argument.value;
        let values = ["paris", "park", "party"]
            .into_iter()
            .filter(|word| word.starts_with(&started))
            .map(str::to_owned)
            .collect();
        CompletionInfo::with_all_values(values)
            .map(CompleteResult::new)
            .map_err(|error| ErrorData::internal_error(error, None))
    }

    async fn set_level(&self, _request: SetLevelRequestParams, _context: Context) -> Tried<()> {
        Ok(())
    }
}

fn capabilities(list_changes: ListChanges) -> ServerCapabilities {
    let all = ServerCapabilities::builder().enable_tools().enable_prompts().enable_resources();
    let all = all.enable_completions().enable_logging();
    match list_changes {
        ListChanges::Notified => {
            all.enable_tool_list_changed().enable_prompts_list_changed().enable_resources_subscribe().build()
        }
        ListChanges::NotNotified => all.build(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_listed_tool_takes_no_arguments() {
        let tool = TOOLS.get(LISTED_FIRST).unwrap();
        assert!(!tool.input_schema.contains_key("required"), "{tool:?}");
    }

    #[test]
    fn every_tool_and_prompt_has_a_description() {
        for tool in TOOLS.list_all() {
            assert!(tool.description.is_some(), "{}", tool.name);
        }
        for prompt in prompts::list() {
            assert!(prompt.description.is_some(), "{}", prompt.name);
        }
    }
}
