//! Arguments of calls, checked against the input schemas of their tools before there is a task.

use std::sync::Arc;

use rmcp::ServerHandler;
use rmcp::model::JsonObject;
use serde_json::Value;

use crate::policy::ArgumentCheck;
use crate::shared::{Shared, tool_list};

/// Checks the arguments of a call, if the tool has a policy that wants it. They are taken and put back, not copied.
pub(crate) async fn check<H: ServerHandler>(
    handler: &H,
    shared: &Shared,
    tool: &str,
    arguments: &mut Option<JsonObject>,
) -> Result<(), String> {
    match shared.policies.get(tool).map(|policy| policy.arguments()) {
        Some(ArgumentCheck::BySchema) => {}
        Some(ArgumentCheck::ByTool) | None => return Ok(()),
    }
    if let Some(known) = handler.get_tool(tool) {
        return check_against(shared, tool, known.input_schema, arguments);
    }
    let mut listed = shared.schemas.listed.lock().await;
    if let Some(source) = listed.as_ref().and_then(|listed| listed.get(tool))
        && check_against(shared, tool, Arc::clone(source), arguments).is_ok()
    {
        return Ok(());
    }
    // It is listed again before a call is refused: the tool may have changed.
    *listed = tool_list::read(handler).await;
    let source = listed.as_ref().and_then(|listed| listed.get(tool)).cloned();
    drop(listed);
    source.map_or(Ok(()), |source| check_against(shared, tool, source, arguments))
}

fn check_against(
    shared: &Shared,
    tool: &str,
    source: Arc<JsonObject>,
    arguments: &mut Option<JsonObject>,
) -> Result<(), String> {
    let Some(schema) = shared.schemas.compiled(tool, source) else { return Ok(()) };
    let taken = Value::Object(arguments.take().unwrap_or_default());
    let checked = schema.check(&taken);
    if let Value::Object(taken) = taken {
        *arguments = Some(taken);
    }
    checked.map_err(|faults| format!("The arguments of `{tool}` are not valid: {}.", faults.join("; ")))
}
