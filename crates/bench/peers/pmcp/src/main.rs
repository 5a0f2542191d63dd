//! The life of a task on `pmcp` with `pmcp-tasks`, in a DynamoDB table.
//!
//!     pmcp-life ADDRESS TABLE
//!
//! As in its example `durable_task_store`: the tool's work is spawned in the process that accepted the call.

use std::future::Future;
use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pmcp::server::axum_router::{RouterConfig, concurrent_router_with_config};
use pmcp::server::streamable_http_server::StreamableHttpServerConfig;
use pmcp::server::task_store::{CreatedTask, TaskStore};
use pmcp::server::typed_tool::TypedTool;
use pmcp::types::protocol::{PROTOCOL_VERSION_2026_07_28, ProtocolVersion};
use pmcp::types::tasks::TaskStatus;
use pmcp::types::{CallToolResult, Content, TaskSupport, ToolExecution};
use pmcp::{RequestHandlerExtra, Server, ToolHandler};
use pmcp_tasks::{DynamoDbBackend, GenericTaskStore, ServerTaskStore, TaskSecurityConfig};
use serde::Deserialize;
use serde_json::{Value, json};

/// Its default of 100 counts finished tasks too: the 101st call of a caller is refused until the first has expired.
const TASKS_PER_OWNER: usize = 10_000_000;

/// What a life is to do.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    steps: u32,
    #[serde(default)]
    pause_ms: u64,
    log: Option<String>,
    id: Option<String>,
}

/// How long a result is to be.
#[derive(Deserialize)]
struct Blob {
    bytes: usize,
}

type Text = Pin<Box<dyn Future<Output = String> + Send>>;

/// A tool whose work, which ends with a text, continues after its call was answered with a task.
fn tool(name: &str, store: Arc<dyn TaskStore>, work: fn(Value) -> Result<Text, serde_json::Error>) -> impl ToolHandler {
    let run = move |arguments: Value, extra: RequestHandlerExtra| {
        let work = work(arguments).map_err(|error| pmcp::Error::validation(error.to_string()));
        let store = Arc::clone(&store);
        let answer = work.map(|work| {
            extra.on_task_created(move |created| {
                tokio::spawn(finish(store, created, work));
            });
            json!({ "taskId": "assigned-by-the-store", "status": "working" })
        });
        Box::pin(async { answer }) as Pin<Box<dyn Future<Output = pmcp::Result<Value>> + Send>>
    };
    TypedTool::new_with_schema(name, json!({ "type": "object" }), run)
        .with_execution(ToolExecution::new().with_task_support(TaskSupport::Required))
}

async fn finish(store: Arc<dyn TaskStore>, created: CreatedTask, work: Text) {
    let (id, owner) = (created.task.task_id, created.owner_id);
    let result = CallToolResult::new(vec![Content::text(work.await)]);
    let stored = store.set_result(&id, &owner, result).await;
    let ended = store.update_status(&id, &owner, TaskStatus::Completed, None).await;
    if let Some(error) = stored.err().or(ended.err()) {
        eprintln!("task {id}: {error}");
    }
}

/// The sum of the steps' numbers. There is no journal, so the steps are turns of a loop.
fn life(arguments: Value) -> Result<Text, serde_json::Error> {
    let asked: Asked = serde_json::from_value(arguments)?;
    Ok(Box::pin(async move {
        let mut sum = 0;
        for number in 0..asked.steps {
            note(&asked, "begins", number);
            if asked.pause_ms > 0 {
                tokio::time::sleep(Duration::from_millis(asked.pause_ms)).await;
            }
            note(&asked, "ends", number);
            sum += number;
        }
        sum.to_string()
    }))
}

fn blob(arguments: Value) -> Result<Text, serde_json::Error> {
    let blob: Blob = serde_json::from_value(arguments)?;
    Ok(Box::pin(async move { "x".repeat(blob.bytes) }))
}

fn note(asked: &Asked, what: &str, number: u32) {
    let Some(log) = &asked.log else { return };
    let line = format!("{} {what} {number}\n", asked.id.as_deref().unwrap_or_default());
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(log);
    // What is missing in the file is counted as never begun.
    drop(opened.and_then(|mut file| file.write_all(line.as_bytes())));
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().ok_or("an address to listen on")?;
    let table = arguments.next().ok_or("the name of a table")?;
    let backend = DynamoDbBackend::from_env_with_table(table).await;
    let security = TaskSecurityConfig::default().with_allow_anonymous(true).with_max_tasks_per_owner(TASKS_PER_OWNER);
    let store: Arc<dyn TaskStore> =
        Arc::new(ServerTaskStore::new(GenericTaskStore::new(backend).with_security(security)));
    let server = Server::builder()
        .name("pmcp-life")
        .version("0.1.0")
        .with_supported_protocol_versions([ProtocolVersion(PROTOCOL_VERSION_2026_07_28.to_owned())])
        .tool("life", tool("life", Arc::clone(&store), life))
        .tool("blob", tool("blob", Arc::clone(&store), blob))
        .task_store(store)
        .build()?;
    let config = RouterConfig { server_config: StreamableHttpServerConfig::stateless(), ..RouterConfig::default() };
    let routes = axum::Router::new().nest("/mcp", concurrent_router_with_config(Arc::new(server), config));
    axum::serve(tokio::net::TcpListener::bind(address).await?, routes).await?;
    Ok(())
}
