//! A handler with one tool for each way in which a call can continue. None of them fails on its own.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use longhaul_mcp::{TaskContext, TaskPolicy};
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::tool::{InputResponses, RequestState};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, ElicitRequest, ElicitRequestParams, ElicitationSchema,
    InputRequest, InputRequiredResult, ServerCapabilities, ServerConfig,
};
use rmcp::{ErrorData, ServerHandler, schemars, tool, tool_handler, tool_router};
use serde::Deserialize;
use serde_json::json;

static TOOLS: LazyLock<ToolRouter<Tools>> = LazyLock::new(Tools::tool_router);

/// The policies of [`Tools`].
pub(crate) fn policies() -> BTreeMap<String, TaskPolicy> {
    let mut policies: BTreeMap<_, _> =
        ["add", "asks", "naps", "steps"].map(|name| (name.to_owned(), TaskPolicy::optional())).into();
    policies.insert("countdown".to_owned(), TaskPolicy::optional());
    policies.insert("only_task".to_owned(), TaskPolicy::required().immediate("It is being done."));
    policies.insert("greets".to_owned(), TaskPolicy::optional().forget_once_fetched());
    policies.insert("unchecked".to_owned(), TaskPolicy::optional().unchecked_arguments());
    policies
}

#[derive(Deserialize, schemars::JsonSchema)]
pub(crate) struct Add {
    a: i64,
    b: i64,
}

#[derive(Deserialize, schemars::JsonSchema)]
pub(crate) struct Nap {
    ms: u64,
}

#[derive(Deserialize, schemars::JsonSchema)]
pub(crate) struct Note {
    note: String,
}

#[derive(Deserialize, schemars::JsonSchema)]
pub(crate) struct Countdown {
    seconds: f64,
    #[serde(default)]
    steps: u32,
}

#[derive(Clone)]
pub(crate) struct Tools;

fn text(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn form() -> InputRequest {
    let schema: ElicitationSchema = serde_json::from_value(
        json!({"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}),
    )
    .unwrap();
    InputRequest::Elicitation(ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: "Which?".to_owned(),
        requested_schema: schema,
    }))
}

#[tool_router]
impl Tools {
    #[tool]
    async fn add(&self, Parameters(Add { a, b }): Parameters<Add>) -> CallToolResult {
        text((i128::from(a) + i128::from(b)).to_string())
    }

    #[tool]
    async fn unchecked(&self, Parameters(Add { a, b }): Parameters<Add>) -> CallToolResult {
        text((i128::from(a) + i128::from(b)).to_string())
    }

    /// It has no policy.
    #[tool]
    async fn notes(&self, Parameters(Note { note }): Parameters<Note>) -> CallToolResult {
        text(note)
    }

    #[tool]
    async fn greets(&self) -> CallToolResult {
        CallToolResult::structured(json!({"greeting": "hello"}))
    }

    #[tool]
    async fn only_task(&self) -> CallToolResult {
        text("done")
    }

    #[tool]
    async fn asks(&self, task: TaskContext) -> Result<CallToolResult, ErrorData> {
        let answer = task.request_input("value", form()).await?;
        Ok(text(answer["content"]["value"].as_str().unwrap_or("nothing")))
    }

    /// Asks by returning questions, with a state of its own. It has no policy.
    #[tool]
    async fn rounds(&self, answers: InputResponses, state: RequestState) -> CallToolResponse {
        match (state.0, answers.0.unwrap_or_default().get("value")) {
            (Some(state), Some(answer)) => text(format!("{state} and {answer}")).into(),
            _ => {
                InputRequiredResult::new(Some(BTreeMap::from([("value".to_owned(), form())])), Some("first".to_owned()))
                    .into()
            }
        }
    }

    #[tool]
    async fn naps(&self, Parameters(Nap { ms }): Parameters<Nap>, task: TaskContext) -> CallToolResult {
        task.sleep("sleep", Duration::from_millis(ms)).await;
        text("awake")
    }

    #[tool]
    async fn steps(&self, Parameters(Note { note }): Parameters<Note>, task: TaskContext) -> CallToolResult {
        let kept = task.step("note", async || note).await;
        task.progress(1).of(2).message(kept.clone()).await;
        // A variable has limits of its own, which the tool of this caller may reach.
        let stored = task.set("note", &kept).await.is_ok();
        text(format!("{stored} {}", kept.len()))
    }

    /// It has the name that the sample events call.
    #[tool]
    async fn countdown(&self, Parameters(Countdown { seconds, steps }): Parameters<Countdown>) -> CallToolResult {
        text(format!("{seconds} {steps}"))
    }
}

#[tool_handler(router = TOOLS)]
impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}
