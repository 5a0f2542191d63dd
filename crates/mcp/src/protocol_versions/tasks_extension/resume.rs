//! `dev.longhaul/tasks/resume`, a method of our own: a new task continues a failed one with its recorded steps. It
//! takes an idempotency key, like a call.

use longhaul_core::{Cleanup, Principal, Task, TaskKey, limits};
use longhaul_engine::Resumption;
use rmcp::ErrorData;
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::{Value, json};

use super::inspect::journal_memory;
use crate::protocol_version::Endpoint;
use crate::reply::errors;
use crate::request::incoming::Incoming;
use crate::tool_calls::caller;
use crate::views::task as view;

pub(super) const METHOD: &str = "dev.longhaul/tasks/resume";

/// Bytes of a caller's name that a task keeps.
const NAME_BYTES_MAX: usize = 256;

/// The parameters next to the task's id.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Params {
    /// The step from which on the work is done again, instead of the first one that failed.
    from: Option<String>,
}

pub(super) async fn resume(
    call: &Incoming<'_>,
    endpoint: &Endpoint,
    key: &TaskKey,
    params: Params,
) -> Result<String, ErrorData> {
    let shared = endpoint.shared();
    let failed = shared.polls.poll(key).await.map_err(|error| error.or(errors::of_poll))?;
    check_tool(call.caller, endpoint, &failed).await?;
    let fields = json!({"taskId": failed.id, "from": params.from});
    let named: JsonObject = fields.as_object().cloned().unwrap_or_default();
    let idempotency = caller::idempotency_of(call.http.headers(), &call.meta.whole(), METHOD, Some(&named))?;
    let resumption = Resumption {
        from: params.from,
        by: call.caller.identity.as_ref().map(|identity| limits::cut(&identity.subject, NAME_BYTES_MAX)),
        idempotency: call.scope.bind(idempotency)?,
        cleanup: if shared.policies.cleans_up(&failed.tool) { Cleanup::ARMED } else { Cleanup::None },
    };
    let _held = journal_memory(shared).await?;
    let resumed = shared.engine.resume(&failed, resumption).await.map_err(errors::of_resume)?;
    view::render_created(&resumed.into_task(), shared.engine.ports().clock.now())
}

/// Resuming a task calls its tool, so it needs what a call needs.
async fn check_tool(caller: &Principal, endpoint: &Endpoint, failed: &Task) -> Result<(), ErrorData> {
    let (tool, shared) = (failed.tool.as_str(), endpoint.shared());
    let needed = shared.scopes_of_call(tool);
    if !caller.scopes.contain_all(&needed) {
        let scope = needed.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        let message = format!("insufficient scope: to resume this task needs a token with the scopes `{scope}`");
        let data: Value = json!({"error": "insufficient_scope", "scope": scope});
        return Err(ErrorData::invalid_request(message, Some(data)));
    }
    endpoint.backend().must_have(tool).await?;
    if shared.policies.get(tool).is_none() {
        return Err(ErrorData::invalid_params(format!("calls of `{tool}` do not become tasks"), None));
    }
    Ok(())
}
