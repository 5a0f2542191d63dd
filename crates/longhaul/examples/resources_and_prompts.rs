//! A server that has resources and prompts in addition to its tools: they are answered as with `rmcp` alone.
//!
//!     cargo run --example resources_and_prompts

use std::process::ExitCode;
use std::time::Duration;

use longhaul::rmcp::handler::server::router::prompt::PromptRouter;
use longhaul::rmcp::model::{
    ContentBlock, ListResourcesResult, PaginatedRequestParams, PromptMessage, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, Role, ServerCapabilities, ServerConfig,
};
use longhaul::rmcp::service::RequestContext;
use longhaul::rmcp::{
    self, ErrorData, RoleServer, ServerHandler, prompt, prompt_handler, prompt_router, tool, tool_handler, tool_router,
};
use longhaul::{Server, TaskContext, TaskPolicy, serve};

const MANUAL: &str = "manual://cleanup";

#[derive(Clone)]
struct House {
    prompt_router: PromptRouter<Self>,
}

impl House {
    fn new() -> Self {
        Self { prompt_router: Self::prompt_router() }
    }
}

#[tool_router]
impl House {
    #[tool(description = "Cleans the house")]
    async fn clean(&self, task: TaskContext) -> String {
        task.sleep("wait", Duration::from_secs(3_600)).await;
        "it is clean".to_owned()
    }
}

#[prompt_router]
impl House {
    #[prompt(description = "Has the house cleaned, and says so")]
    async fn cleanup(&self) -> Vec<PromptMessage> {
        let text = "Read manual://cleanup, call `clean`, and tell me when the house is clean.";
        vec![PromptMessage::new(Role::User, ContentBlock::text(text))]
    }
}

#[tool_handler]
#[prompt_handler(router = self.prompt_router)]
impl ServerHandler for House {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_prompts().enable_resources();
        ServerConfig::new(capabilities.build())
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![Resource::new(MANUAL, "How to clean")]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match request.uri.as_str() {
            MANUAL => Ok(ReadResourceResult::new(vec![ResourceContents::text("From top to bottom.", MANUAL)]).into()),
            other => Err(ErrorData::resource_not_found(format!("there is no {other}"), None)),
        }
    }
}

fn main() -> ExitCode {
    let policy = TaskPolicy::optional().run_at_most(Duration::from_secs(7_200));
    serve::main(|_env| Server::new(House::new).task("clean", policy))
}

#[cfg(test)]
mod tests {
    use longhaul::testing::{self, TestError};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn an_hour_later_it_is_clean() -> Result<(), TestError> {
        let run = testing::server(House::new()).call("clean", json!({})).to_end().await?;
        assert_eq!(run.text(), "it is clean");
        Ok(())
    }
}
