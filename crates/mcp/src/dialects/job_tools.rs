//! Jobs, for clients that know no tasks of any kind: a call that takes long answers with a job id, and two tools look
//! after the job. A job is a task, and its id the task's id.
//!
//! The tools run in [`crate::durable`], where calls become tasks; here is what such clients see of them in the list.

use async_trait::async_trait;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use super::{Dialect, Generation, own_revision};
use crate::durable::Shared;
use crate::front::Front;
use crate::incoming::Incoming;
use crate::policy::Need;

pub(crate) mod wire;

/// The dialect.
pub(crate) struct JobTools;

/// One of the tools that look after jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobTool {
    /// Tells how a job is, and waits for its end for a while.
    Status,
    /// Ends a job.
    Cancel,
}

impl JobTool {
    const ALL: [Self; 2] = [Self::Status, Self::Cancel];

    /// The tool of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Status => "get_job_status",
            Self::Cancel => "cancel_job",
        }
    }

    /// The tool as a client sees it.
    pub(crate) fn tool(self, shared: &Shared) -> Tool {
        let wait_s = shared.settings.inline_wait_ms / 1_000;
        let job_id = json!({"type": "string", "description": "The job_id that another tool answered with"});
        let (description, schema, annotations) = match self {
            Self::Status => (
                format!(
                    "Tells how a job is that another tool answered with a job_id for: queued, running, completed with \
                     its result, or failed with its error. Waits up to {wait_s} s for the end before it answers."
                ),
                json!({
                    "type": "object",
                    "properties": {
                        "job_id": job_id,
                        "wait_s": {
                            "type": "number", "minimum": 0,
                            "description": format!("How many seconds to wait for the end; {wait_s} at the most"),
                        },
                    },
                    "required": ["job_id"],
                }),
                ToolAnnotations::new().read_only(true).open_world(false),
            ),
            Self::Cancel => (
                "Stops a job. A job that has ended stays as it ended.".to_owned(),
                json!({"type": "object", "properties": {"job_id": job_id}, "required": ["job_id"]}),
                ToolAnnotations::new().read_only(false).destructive(true).idempotent(true).open_world(false),
            ),
        };
        let schema: JsonObject = serde_json::from_value(schema).unwrap_or_default();
        Tool::new(self.name(), description, schema).with_annotations(annotations)
    }
}

#[async_trait]
impl Dialect for JobTools {
    fn decorates(&self, call: &Incoming<'_>) -> bool {
        call.method == "tools/list" && knows_no_tasks(call)
    }

    fn decorate(&self, _call: &Incoming<'_>, front: &Front, result: &mut Map<String, Value>) {
        let shared = front.shared();
        let is_last_page = result.get("nextCursor").is_none_or(Value::is_null);
        let Some(tools) = result.get_mut("tools").and_then(Value::as_array_mut) else { return };
        for tool in tools.iter_mut().filter_map(Value::as_object_mut) {
            announce(shared, tool);
        }
        if is_last_page && shared.policies.values().any(|policy| policy.need() == Need::Optional) {
            // A tool of the server's own keeps its name.
            let missing: Vec<JobTool> =
                JobTool::ALL.into_iter().filter(|job_tool| !has(tools, job_tool.name())).collect();
            for job_tool in missing {
                tools.push(serde_json::to_value(job_tool.tool(shared)).unwrap_or_default());
            }
        }
    }
}

fn has(tools: &[Value], name: &str) -> bool {
    tools.iter().any(|tool| tool.get("name").and_then(Value::as_str) == Some(name))
}

/// Whether nothing that the client said lets it look after a task.
fn knows_no_tasks(call: &Incoming<'_>) -> bool {
    match call.client.generation() {
        Generation::PerRequest => !call.capabilities().supports_tasks(),
        // A client of `2025-11-25` does not have to say whether it knows tasks.
        Generation::Handshake => own_revision(call.client.revision()).is_none(),
    }
}

/// Says of a tool that it may answer with a job id. Such an answer does not fit the schema of its results, so that goes.
fn announce(shared: &Shared, tool: &mut Map<String, Value>) {
    let policy = tool.get("name").and_then(Value::as_str).and_then(|name| shared.policies.get(name));
    if policy.is_none_or(|policy| policy.need() != Need::Optional) {
        return;
    }
    tool.remove("outputSchema");
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
