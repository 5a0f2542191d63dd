//! Jobs, for clients that know no tasks of any kind. A call that takes long answers with a job id, and two tools manage
//! the job. A job is a task, and its id the task's id.
//!
//! `call::tool` answers calls of the tools; this module shows them to such clients in the list.

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::policy::Need;
use crate::protocol_version::{Endpoint, ProtocolVersion};
use crate::request::incoming::Incoming;
use crate::revision::{Generation, own_revision};
use crate::state::Shared;
use crate::views::job::JobTool;

pub(crate) struct JobTools;

#[async_trait]
impl ProtocolVersion for JobTools {
    fn patches(&self, call: &Incoming<'_>) -> bool {
        call.method == "tools/list" && knows_no_tasks(call)
    }

    fn patch(&self, call: &Incoming<'_>, endpoint: &Endpoint, result: &mut Map<String, Value>) {
        let shared = endpoint.shared();
        let is_last_page = result.get("nextCursor").is_none_or(Value::is_null);
        let Some(tools) = result.get_mut("tools").and_then(Value::as_array_mut) else { return };
        for tool in tools.iter_mut().filter_map(Value::as_object_mut) {
            announce(shared, tool);
        }
        if is_last_page && shared.policies.may_make_jobs() {
            // A tool of the server with the same name is not replaced.
            let may_call = |job_tool: &JobTool| call.caller.scopes.contain_all(job_tool.scopes(shared));
            let missing: Vec<JobTool> =
                JobTool::ALL.into_iter().filter(may_call).filter(|job_tool| !has(tools, job_tool.name())).collect();
            for job_tool in missing {
                match serde_json::to_value(job_tool.tool(shared)) {
                    Ok(tool) => tools.push(tool),
                    Err(error) => tracing::error!(%error, "a job tool cannot be listed"),
                }
            }
        }
    }
}

fn has(tools: &[Value], name: &str) -> bool {
    tools.iter().any(|tool| tool.get("name").and_then(Value::as_str) == Some(name))
}

/// Whether the client cannot manage a task, by the capabilities that it declared.
fn knows_no_tasks(call: &Incoming<'_>) -> bool {
    match call.client.generation() {
        Generation::PerRequest => !call.supports_tasks(),
        // A client of `2025-11-25` does not have to say whether it knows tasks.
        Generation::Handshake => own_revision(call.client.revision()).is_none(),
    }
}

/// Adds to a tool's description that it may answer with a job id. Such an answer does not match the schema of its
/// results, so the schema is removed.
fn announce(shared: &Shared, tool: &mut Map<String, Value>) {
    let policy = tool.get("name").and_then(Value::as_str).and_then(|name| shared.policies.get(name));
    if policy.is_none_or(|policy| policy.need != Need::Optional) {
        return;
    }
    tool.shift_remove("outputSchema");
    let wait_s = shared.settings.inline_wait_ms / 1_000;
    let note = format!(
        "If this takes longer than {wait_s} s, the answer is a job_id: call get_job_status with it to get the result."
    );
    let description = match tool.get("description").and_then(Value::as_str) {
        Some(own) if !own.is_empty() => format!("{own}\n\n{note}"),
        _ => note,
    };
    tool.insert("description".to_owned(), description.into());
}
