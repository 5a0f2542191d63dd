//! Tasks as MCP `2025-11-25` defines them in its core. The client asks for a task with the call, polls it, and fetches
//! the result with a request that waits for it.

use async_trait::async_trait;
use http::Response;
use longhaul_core::{OwnerId, Task, TaskId, strict_json};
use longhaul_engine::Cancelled;
use rmcp::ErrorData;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::Body;
use crate::policy::Need;
use crate::protocol_version::{Endpoint, ProtocolVersion};
use crate::reply::{self, errors};
use crate::request::incoming::Incoming;
use crate::revision::Generation;
use crate::signing::signer::Purpose;
use crate::state::Shared;
use crate::views::filtered;
use crate::views::subject::Subject;

mod call;
mod result;
mod wire;

const REVISION: &str = "2025-11-25";

const PAGE: usize = 50;

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
                let page = filtered::page(call, Subject::Caller(call.owner), shared).await;
                Some(reply::outcome(&call.id, page.map(|page| Value::from(page).to_string())))
            }
            "tasks/list" if filtered::is_for(call, shared) => Some(reply::outcome(&call.id, list(call, shared).await)),
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

fn support(shared: &Shared, tool: &str) -> &'static str {
    match shared.policies.get(tool).map(|policy| policy.need) {
        None | Some(Need::OnWorker) => "forbidden",
        Some(Need::Optional) => "optional",
        Some(Need::Required) => "required",
    }
}

async fn get(call: &Incoming<'_>, shared: &Shared) -> Result<String, ErrorData> {
    let task = wire::polled(call, shared).await?;
    wire::render(&shared.engine, &task).await
}

async fn cancel(call: &Incoming<'_>, shared: &Shared) -> Result<String, ErrorData> {
    match shared.engine.cancel_unfinished(&wire::key(call)?).await.map_err(errors::of_poll)? {
        Cancelled::Now(task) => wire::render(&shared.engine, &task).await,
        Cancelled::Not(task) => Err(ended(&task)),
    }
}

fn ended(task: &Task) -> ErrorData {
    let message = format!("the task cannot be cancelled: it is {} already", wire::status(task));
    ErrorData::invalid_params(message, None)
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListParams {
    cursor: Option<String>,
}

/// One page of the caller's tasks, newest first, from all protocol versions.
async fn list(call: &Incoming<'_>, shared: &Shared) -> Result<String, ErrorData> {
    let bad_cursor = || ErrorData::invalid_params("the cursor is not valid; start again without one", None);
    let params = match call.params {
        Some(params) => strict_json::from_str::<ListParams>(params.get()).map_err(|_malformed| bad_cursor())?,
        None => ListParams::default(),
    };
    let before: Option<TaskId> = match params.cursor {
        Some(cursor) => {
            let opened = shared.signer.verify(Purpose::Cursor, &call.owner, &cursor);
            Some(opened.ok_or_else(bad_cursor)?)
        }
        None => None,
    };
    let page = shared.engine.list(&call.owner, before, PAGE).await.map_err(errors::of_poll)?;
    let next = page.next.map(|next| shared.signer.sign(Purpose::Cursor, &call.owner, &next)).transpose()?;
    Ok(wire::render_list(&page.tasks, shared.engine.ports().clock.now(), next))
}
