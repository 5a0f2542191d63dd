//! Any input schema of a tool with any arguments: it is refused when the server starts, or judges the arguments in
//! little time.
//!
//! An input is a JSON object `{"schema": …, "arguments": …}`.

use std::collections::BTreeMap;
use std::sync::Arc;

use longhaul_mcp::{McpServer, McpSettings, TaskPolicy, ToolError, check_schemas};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;

use crate::dialogue::{call_block, check, request};
use crate::driver::drive;
use crate::world::{World, owner, read};

/// Bytes of an input. Larger schemas are only slower.
const INPUT_BYTES_MAX: usize = 8 * 1024;

/// A handler with one tool, which has the schema of the input.
#[derive(Clone)]
struct AnySchema(Arc<JsonObject>);

impl AnySchema {
    fn tool(&self) -> Tool {
        Tool::new("tool", "Takes what its schema allows", Arc::clone(&self.0))
    }
}

impl ServerHandler for AnySchema {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        (name == "tool").then(|| self.tool())
    }

    async fn call_tool(
        &self,
        _request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(CallToolResult::success(vec![ContentBlock::text("called")]).into())
    }
}

/// Checks one schema, and arguments against it.
pub(crate) fn run(input: &[u8]) {
    if input.len() > INPUT_BYTES_MAX {
        return;
    }
    let Ok(Value::Object(mut input)) = serde_json::from_slice(input) else { return };
    let (Some(Value::Object(schema)), Some(Value::Object(arguments))) =
        (input.remove("schema"), input.remove("arguments"))
    else {
        return;
    };
    let has_controls = has_controls(&Value::Object(schema.clone()));
    let handler = AnySchema(Arc::new(schema));
    let policies = BTreeMap::from([("tool".to_owned(), TaskPolicy::optional())]);
    let world = World::new();
    let clock = Arc::clone(&world.clock);
    drive(&clock, async {
        let checked = check_schemas(|| handler.clone(), &policies.clone().into()).await;
        match checked {
            Err(ToolError::Schema { cause, .. }) => assert!(cause.to_string().len() < 2_000, "{cause}"),
            Err(other) => panic!("{other}"),
            Ok(()) => {
                let made = handler.clone();
                let mcp =
                    McpServer::new(move || made.clone(), policies, world.engine.clone(), McpSettings::new([7; 32]));
                judge(&mcp, &arguments, has_controls).await;
            }
        }
    });
}

/// Whether a text or a name in it has a control character.
fn has_controls(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(char::is_control),
        Value::Array(items) => items.iter().any(has_controls),
        Value::Object(members) => {
            members.iter().any(|(name, member)| name.contains(char::is_control) || has_controls(member))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Calls the tool: a task, or a refusal that says why.
async fn judge(mcp: &McpServer, arguments: &JsonObject, has_controls: bool) {
    let block = call_block("alice", "tool", &Value::Object(arguments.clone()));
    let (_, request) = request(block.as_bytes()).unwrap();
    let answer = read(mcp.respond(request, owner("alice")).await).await;
    let messages = check(&answer);
    let [message] = &messages[..] else { panic!("{messages:?}") };
    if message["result"]["taskId"].is_string() {
        return;
    }
    let refusal = message["result"]["content"][0]["text"].as_str().or_else(|| message["error"]["message"].as_str());
    let refusal = refusal.unwrap_or_else(|| panic!("{message}"));
    assert!(refusal.contains("not valid"), "{message}");
    assert!(refusal.len() < 4_000, "{message}");
    // The names in a schema are its author's, and are repeated as they are. What a caller sent is not.
    assert!(has_controls || !refusal.contains(char::is_control), "{message}");
}
