//! A handler whose tools take a `TaskContext`, served by `rmcp` alone: over standard input and output, or in a test.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::rmcp::handler::server::wrapper::Parameters;
use longhaul::rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig, ContentBlock,
    ElicitRequestParams, ElicitResult, ElicitationAction, Implementation, ProgressNotificationParam,
};
use longhaul::rmcp::service::{
    ClientLifecycleMode, NotificationContext, RequestContext, RoleClient, RunningService, ServiceExt,
    serve_client_with_lifecycle,
};
use longhaul::rmcp::{
    self, ClientHandler, ErrorData, RoleServer, ServerHandler, schemars, tool, tool_handler, tool_router,
};
use longhaul::{Answer, TaskContext};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Sure {
    /// Are you sure?
    sure: bool,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

struct Tools;

#[tool_router]
impl Tools {
    #[tool]
    async fn work(&self, _nothing: Parameters<Nothing>, task: TaskContext) -> Result<String, ErrorData> {
        let one = task.step("one", async || 1).await;
        let two = task.try_step("two", || async { Ok::<_, ErrorData>(2) }).await?;
        task.progress(1).of(2).message("half").await;
        task.sleep("rest", Duration::from_millis(1)).await;
        let Answer::Accepted(Sure { sure }) = task.ask::<Sure>("sure", "Sure?").await? else {
            return Ok(String::new());
        };
        Ok(format!("{} {sure} {}", one + two, task.idempotency_key().len()))
    }

    #[tool]
    async fn waits(&self, task: TaskContext) -> Result<String, ErrorData> {
        let brought: Option<u32> =
            task.callback("approval", Duration::from_hours(1), async |_token| Ok::<_, ErrorData>(())).await?;
        Ok(format!("{brought:?}"))
    }

    #[tool]
    async fn calls(&self, task: TaskContext) -> Result<String, ErrorData> {
        task.call("other", "work", json!({})).await.map(|_| String::new())
    }
}

#[tool_handler]
impl ServerHandler for Tools {}

/// The same by hand.
struct ByHand;

impl ServerHandler for ByHand {
    async fn call_tool(
        &self,
        _request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let task = TaskContext::of(&context);
        let sum = task.step("add up", async || 42).await;
        task.progress(1).await;
        Ok(CallToolResult::success(vec![ContentBlock::text(sum.to_string())]).into())
    }
}

/// A client that says yes, and notes progress.
#[derive(Clone, Default)]
struct Client(Arc<Mutex<Vec<String>>>);

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_elicitation().build();
        ClientConfig::new(capabilities, Implementation::new("client", "1"))
    }

    async fn create_elicitation(
        &self,
        _request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"sure": true})))
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        self.0.lock().unwrap().push(format!("{} {:?}", progress.progress, progress.message));
    }
}

#[expect(clippy::disallowed_methods, reason = "this is a program around the server, not the server")]
async fn client_of(handler: impl ServerHandler) -> (RunningService<RoleClient, Client>, Client) {
    let (ours, theirs) = tokio::io::duplex(4_096);
    tokio::spawn(async move { drop(handler.serve(theirs).await.unwrap().waiting().await) });
    let client = Client::default();
    let served = serve_client_with_lifecycle(client.clone(), ours, ClientLifecycleMode::Initialize).await.unwrap();
    (served, client)
}

async fn call(client: &RunningService<RoleClient, Client>, tool: &'static str) -> Result<String, String> {
    let params = CallToolRequestParams::new(tool).with_arguments(serde_json::Map::new());
    match client.call_tool(params).await {
        Ok(result) => Ok(result.content[0].as_text().unwrap().text.clone()),
        Err(error) => Err(error.to_string()),
    }
}

#[tokio::test]
async fn steps_sleeps_progress_and_questions_work_where_rmcp_alone_serves_the_handler() {
    let (client, seen) = client_of(Tools).await;
    assert_eq!(call(&client, "work").await.unwrap(), "3 true 32");
    assert_eq!(*seen.0.lock().unwrap(), [r#"1 Some("half")"#]);
}

#[tokio::test]
async fn what_cannot_be_done_there_says_so_by_name() {
    let (client, _) = client_of(Tools).await;
    assert_eq!(call(&client, "waits").await.unwrap(), "None", "nobody can bring it");
    let refused = call(&client, "calls").await.unwrap_err();
    assert!(refused.contains("works in tasks only"), "{refused}");
}

#[tokio::test]
async fn a_handler_written_by_hand_takes_the_context_from_its_request() {
    let (client, seen) = client_of(ByHand).await;
    assert_eq!(call(&client, "anything").await.unwrap(), "42");
    assert_eq!(*seen.0.lock().unwrap(), ["1 None"]);
}
