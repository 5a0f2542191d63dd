//! Arguments of calls, checked against the input schemas of their tools before there is a task.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::ServerHandler;
use rmcp::model::JsonObject;
use serde_json::Value;

use crate::policy::ArgumentCheck;
use crate::schema::Schema;
use crate::shared::{Shared, tool_list};

/// The schemas of the tools that policies name. Each is compiled once, and again if its tool changes it.
#[derive(Default)]
pub(crate) struct Schemas {
    compiled: Mutex<BTreeMap<String, Compiled>>,
    /// What a handler lists that does not answer `get_tool`.
    listed: tokio::sync::Mutex<Option<BTreeMap<String, Arc<JsonObject>>>>,
}

struct Compiled {
    source: Arc<JsonObject>,
    /// `None` if it cannot be compiled.
    schema: Option<Arc<Schema>>,
}

impl Schemas {
    /// The compiled schema; `None` if it cannot be compiled, which the start of the server refuses: then the tool has
    /// changed it since.
    fn compiled(&self, tool: &str, source: Arc<JsonObject>) -> Option<Arc<Schema>> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = compiled.get(tool)
            && (Arc::ptr_eq(&known.source, &source) || known.source == source)
        {
            return known.schema.clone();
        }
        let schema = match Schema::compile(&Value::Object((*source).clone())) {
            Ok(schema) => Some(Arc::new(schema)),
            Err(error) => {
                tracing::error!(tool, %error, "arguments are not checked: the tool's input schema cannot be used");
                None
            }
        };
        compiled.insert(tool.to_owned(), Compiled { source, schema: schema.clone() });
        schema
    }
}

/// Checks the arguments of a call, if the tool has a policy that wants it. They are taken and put back, not copied.
///
/// # Errors
/// What is wrong with them, for the caller.
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
