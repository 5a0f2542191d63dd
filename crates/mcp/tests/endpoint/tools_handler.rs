//! What the handler of the tests answers besides its tools.

use longhaul_mcp::VerifiedCaller;
use rmcp::model::{
    CompleteRequestParams, CompleteResult, CompletionInfo, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
    InputRequiredResult, PromptMessage, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    ResourceContents, Role, ServerCapabilities, ServerConfig, SubscriptionFilter,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, tool_handler};

use super::tools::{TOOLS, Tools};

#[tool_handler(router = TOOLS)]
impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_completions()
            .build();
        ServerConfig::new(capabilities)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        assert_ne!(request.name, "panics", "this prompt panics");
        if let Some(caller) = VerifiedCaller::of(&context).filter(|_| request.name == "shows_caller") {
            let text = format!("prompt for {}", caller.subject());
            return Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]).into());
        }
        if request.name == "carries_state" && request.request_state.is_none() {
            return Ok(InputRequiredResult::from_request_state("carried").into());
        }
        let name = request.request_state.unwrap_or(request.name.clone());
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, format!("prompt {name}"))]).into())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if request.uri == "test://carries_state" && request.request_state.is_none() {
            return Ok(InputRequiredResult::from_request_state("carried").into());
        }
        let contents = request.request_state.unwrap_or_else(|| "contents".to_owned());
        Ok(ReadResourceResult::new(vec![ResourceContents::text(contents, request.uri)]).into())
    }

    async fn set_level(
        &self,
        _request: rmcp::model::SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        requested.prompts_list_changed.map(|_| requested.clone())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let values = vec![format!("{}is", request.argument.value)];
        Ok(CompleteResult::new(CompletionInfo::with_all_values(values).unwrap()))
    }
}
