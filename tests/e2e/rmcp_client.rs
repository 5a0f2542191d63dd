//! The client of `rmcp` itself.

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ClientCapabilities, ClientConfig,
    GetTaskParams, Implementation, ProtocolVersion, TaskPayload, TaskStatus, UpdateTaskParams,
};
use rmcp::service::{ClientLifecycleMode, RoleClient, RunningService, serve_client_with_lifecycle};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, ServiceError};
use serde_json::{Value, json};

use super::process::Setup;

struct Client;

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_elicitation().enable_tasks().build();
        ClientConfig::new(capabilities, Implementation::new("e2e", "1"))
    }
}

type Session = RunningService<RoleClient, Client>;

async fn connect(url: &str) -> Session {
    let modern = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let transport = StreamableHttpClientTransport::from_uri(url);
    serve_client_with_lifecycle(Client, transport, modern).await.expect("the client connects")
}

fn call(tool: &'static str, arguments: &Value) -> CallToolRequestParams {
    let mut params = CallToolRequestParams::new(tool);
    params.arguments = arguments.as_object().cloned();
    params
}

async fn start(session: &Session, tool: &'static str, arguments: Value) -> String {
    match session.peer().call_tool_once(call(tool, &arguments)).await.expect("the call is accepted") {
        CallToolResponse::Task(created) => created.task.task_id,
        other => panic!("{tool} did not become a task: {other:?}"),
    }
}

/// Polls until the task is no longer working.
async fn settle(session: &Session, id: &str) -> TaskPayload {
    for _ in 0..600 {
        let task = session.get_task(GetTaskParams::new(id.to_owned())).await.expect("the task is found").task;
        if task.status() != TaskStatus::Working {
            return task.payload;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the task did not end");
}

async fn result(session: &Session, id: &str) -> CallToolResult {
    match settle(session, id).await {
        TaskPayload::Completed { result } => {
            serde_json::from_value(Value::Object(result)).expect("it is a tool's result")
        }
        other => panic!("not completed: {other:?}"),
    }
}

#[tokio::test]
async fn the_rmcp_client_lists_calls_and_comes_back_for_a_task() {
    let setup = Setup::new();
    let server = setup.start();
    let session = connect(server.url()).await;
    let tools = session.list_all_tools().await.expect("tools are listed");
    assert!(tools.iter().any(|tool| tool.name == "countdown"));
    let plain = session.peer().call_tool_once(call("echo", &json!({"text": "hi"}))).await;
    assert!(matches!(plain, Ok(CallToolResponse::Complete(_))), "{plain:?}");
    let id = start(&session, "countdown", json!({"seconds": 0.5, "steps": 5})).await;
    drop(session);
    server.kill();

    let again = setup.start();
    let later = connect(again.url()).await;
    assert_eq!(result(&later, &id).await.structured_content.expect("the result has structured content")["steps"], 5);
}

#[tokio::test]
async fn the_rmcp_client_cancels_answers_and_sees_failures() {
    let setup = Setup::new();
    let server = setup.start();
    let session = connect(server.url()).await;

    let long = start(&session, "countdown", json!({"seconds": 600})).await;
    session.cancel_task(CancelTaskParams::new(long.clone())).await.expect("a cancel is acknowledged");
    assert!(matches!(settle(&session, &long).await, TaskPayload::Cancelled));

    let asking = start(&session, "ask", json!({"questions": ["Why?"]})).await;
    let TaskPayload::InputRequired { input_requests } = settle(&session, &asking).await else {
        panic!("the task does not ask");
    };
    let answers =
        input_requests.keys().map(|key| (key.clone(), json!({"action": "accept", "content": {"answer": "so"}})));
    let answers = serde_json::from_value(Value::Object(answers.collect())).expect("these are answers");
    session.update_task(UpdateTaskParams::new(asking.clone(), answers)).await.expect("answers are acknowledged");
    assert!(format!("{:?}", result(&session, &asking).await).contains("so"));

    let failing = start(&session, "fail", json!({"how": "tool_error"})).await;
    assert_eq!(result(&session, &failing).await.is_error, Some(true));
    let broken = start(&session, "fail", json!({"how": "protocol_error"})).await;
    assert!(matches!(settle(&session, &broken).await, TaskPayload::Failed { .. }));

    let unknown = session.get_task(GetTaskParams::new("01890000-0000-7000-8000-000000000000".to_owned())).await;
    assert!(matches!(&unknown, Err(ServiceError::McpError(error)) if error.code.0 == -32602), "{unknown:?}");
}

#[tokio::test]
async fn the_rmcp_client_retries_a_call_and_gets_the_same_task() {
    let setup = Setup::new();
    let server = setup.start();
    let session = connect(server.url()).await;
    let retry = async || {
        let mut params = call("countdown", &json!({"seconds": 0}));
        params.meta =
            serde_json::from_value(json!({"dev.longhaul/idempotencyKey": "retry"})).expect("this is a `_meta`");
        match session.peer().call_tool_once(params).await {
            Ok(CallToolResponse::Task(created)) => Some(created.task.task_id),
            Err(ServiceError::McpError(error)) if error.code.0 == -32600 => None,
            other => panic!("not a task: {other:?}"),
        }
    };
    let first = retry().await;
    assert_eq!(first.is_some(), !Setup::KEYS.is_empty(), "keys are refused where nobody identifies the callers");
    assert_eq!(first, retry().await);
}
