//! The life of a task on `turul-mcp-server` with `turul-mcp-ext-tasks`, in a DynamoDB table.
//!
//!     turul-life ADDRESS TABLE
//!
//! The server spawns the tool's work in the process that accepted the call.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use turul_mcp_ext_tasks::v2026_07_28::dynamodb::DynamoDbTaskStore;
use turul_mcp_protocol::ToolSchema;
use turul_mcp_protocol::tools::{CallToolResult, ToolResult};
use turul_mcp_server::prelude::*;
use turul_mcp_server::{McpServer, McpTool, SessionContext};

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

/// A tool's names and schema.
struct Tool {
    name: &'static str,
    schema: ToolSchema,
}

impl Tool {
    fn new(name: &'static str) -> Self {
        Self { name, schema: ToolSchema::object() }
    }
}

impl HasBaseMetadata for Tool {
    fn name(&self) -> &str {
        self.name
    }
}
impl HasDescription for Tool {}
impl HasInputSchema for Tool {
    fn input_schema(&self) -> &ToolSchema {
        &self.schema
    }
}
impl HasOutputSchema for Tool {}
impl HasAnnotations for Tool {}
impl HasToolMeta for Tool {}
impl HasIcons for Tool {}

#[async_trait]
impl McpTool for Tool {
    async fn call(&self, arguments: Value, _session: Option<SessionContext>) -> McpResult<CallToolResult> {
        let text = match self.name {
            "life" => life(&read(arguments)?).await,
            _ => "x".repeat(read::<Blob>(arguments)?.bytes),
        };
        Ok(CallToolResult::success(vec![ToolResult::text(text)]))
    }
}

fn read<T: DeserializeOwned>(arguments: Value) -> McpResult<T> {
    serde_json::from_value(arguments).map_err(|error| McpError::tool_execution(&error.to_string()))
}

/// The sum of the steps' numbers. There is no journal, so the steps are turns of a loop.
async fn life(asked: &Asked) -> String {
    let mut sum = 0;
    for number in 0..asked.steps {
        note(asked, "begins", number);
        if asked.pause_ms > 0 {
            tokio::time::sleep(Duration::from_millis(asked.pause_ms)).await;
        }
        note(asked, "ends", number);
        sum += number;
    }
    sum.to_string()
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
    let address: SocketAddr = arguments.next().ok_or("an address to listen on")?.parse()?;
    let table = arguments.next().ok_or("the name of a table")?;
    let client = aws_sdk_dynamodb::Client::new(&aws_config::load_from_env().await);
    let server = McpServer::builder()
        .name("turul-life")
        .version("0.1.0")
        .with_ext_tasks(Arc::new(DynamoDbTaskStore::new(client, table)))
        .ext_task_tool_required(Tool::new("life"))
        .ext_task_tool_required(Tool::new("blob"))
        .bind_address(address)
        .build()?;
    server.run().await?;
    Ok(())
}
