//! Tasks as MCP `2025-11-25` defines them in its core: the client asks for a task with the call, polls it, and fetches
//! the result with a request that waits for it.

use async_trait::async_trait;
use http::Response;
use longhaul_core::{OwnerId, Task};
use longhaul_engine::Cancelled;
use rmcp::ErrorData;
use serde_json::{Map, Value, json};

use crate::Body;
use crate::policy::Need;
use crate::protocol_version::{Endpoint, ProtocolVersion};
use crate::revision::Generation;
use crate::shared::Shared;
use crate::shared::incoming::Incoming;
use crate::shared::{errors, reply};
use crate::views::filtered;

mod call;
mod list;
mod lookup;
mod result;
mod wire;

use lookup::polled;

/// The revision that has them.
const REVISION: &str = "2025-11-25";

/// The protocol version.
pub(crate) struct CoreTasks;

#[async_trait]
impl ProtocolVersion for CoreTasks {
    async fn answer(&self, call: &Incoming<'_>, endpoint: &Endpoint) -> Option<Response<Body>> {
        if !speaks(call) {
            return None;
        }
        let shared = endpoint.shared();
        match &*call.method {
            "tools/call" => call::answer(call, endpoint).await,
            "tasks/get" => Some(reply::outcome(&call.id, get(call, shared).await)),
            "tasks/cancel" => Some(reply::outcome(&call.id, cancel(call, shared).await)),
            "tasks/result" => Some(result::answer(call, shared).await),
            filtered::METHOD if filtered::is_for(call, shared) => {
                let page = filtered::page(call, shared).await;
                Some(reply::outcome(&call.id, page.map(|page| Value::from(page).to_string())))
            }
            "tasks/list" if filtered::is_for(call, shared) => {
                Some(reply::outcome(&call.id, list::answer(call, shared).await))
            }
            _ => None,
        }
    }

    async fn resume(&self, last_event_id: &str, owner: OwnerId, endpoint: &Endpoint) -> Option<Response<Body>> {
        result::resume(last_event_id, owner, endpoint.shared()).await
    }

    fn patches(&self, call: &Incoming<'_>) -> bool {
        match &*call.method {
            "initialize" => call.client.generation() == Generation::Handshake,
            "tools/list" => speaks(call),
            _ => false,
        }
    }

    fn patch(&self, call: &Incoming<'_>, endpoint: &Endpoint, result: &mut Map<String, Value>) {
        if call.method == "initialize" {
            declare(call, endpoint.shared(), result);
        } else {
            let tools = result.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten();
            for tool in tools.filter_map(Value::as_object_mut) {
                let support = tool.get("name").and_then(Value::as_str).map(|name| support(endpoint.shared(), name));
                tool.insert("execution".to_owned(), json!({"taskSupport": support}));
            }
        }
    }
}

fn speaks(call: &Incoming<'_>) -> bool {
    call.client.revision() == REVISION
}

/// Declares tasks in the handshake, if this revision was negotiated.
fn declare(call: &Incoming<'_>, shared: &Shared, result: &mut Map<String, Value>) {
    if result.get("protocolVersion").and_then(Value::as_str) != Some(REVISION) || shared.policies.is_empty() {
        return;
    }
    let mut tasks = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
    if let Some(tasks) = tasks.as_object_mut().filter(|_| filtered::is_for(call, shared)) {
        tasks.insert("list".to_owned(), json!({}));
    }
    let capabilities = result.entry("capabilities").or_insert_with(|| json!({}));
    if let Some(capabilities) = capabilities.as_object_mut() {
        capabilities.insert("tasks".to_owned(), tasks);
    }
}

/// `execution.taskSupport` of a tool.
fn support(shared: &Shared, tool: &str) -> &'static str {
    match shared.policies.get(tool).map(|policy| policy.need()) {
        None => "forbidden",
        Some(Need::Optional) => "optional",
        Some(Need::Required) => "required",
    }
}

async fn get(call: &Incoming<'_>, shared: &Shared) -> Result<String, ErrorData> {
    let task = polled(call, shared).await?;
    wire::render(&shared.engine, &task).await
}

async fn cancel(call: &Incoming<'_>, shared: &Shared) -> Result<String, ErrorData> {
    match shared.engine.cancel_unfinished(&lookup::key(call)?).await.map_err(errors::of_poll)? {
        Cancelled::Now(task) => wire::render(&shared.engine, &task).await,
        Cancelled::Not(task) => Err(ended(&task)),
    }
}

fn ended(task: &Task) -> ErrorData {
    let message = format!("the task cannot be cancelled: it is {} already", wire::status(task));
    ErrorData::invalid_params(message, None)
}
