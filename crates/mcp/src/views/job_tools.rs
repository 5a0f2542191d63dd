//! The tools with which clients that know no tasks manage their jobs, as a list shows them.

use std::collections::BTreeSet;

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::json;

use crate::shared::Shared;

/// One of the tools that manage jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobTool {
    /// Reports the status of a job, after waiting a while for its end.
    Status,
    /// Ends a job.
    Cancel,
}

impl JobTool {
    /// All of them.
    pub(crate) const ALL: [Self; 2] = [Self::Status, Self::Cancel];

    /// The tool of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// What clients call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Status => "get_job_status",
            Self::Cancel => "cancel_job",
        }
    }

    /// The scopes of what the tool does.
    pub(crate) const fn scopes(self, shared: &Shared) -> &BTreeSet<String> {
        match self {
            Self::Status => &shared.settings.scopes.read,
            Self::Cancel => &shared.settings.scopes.cancel,
        }
    }

    /// The tool as a client sees it.
    pub(crate) fn tool(self, shared: &Shared) -> Tool {
        let wait_s = shared.settings.inline_wait_ms / 1_000;
        let job_id = json!({"type": "string", "description": "The job_id that another tool returned"});
        let (description, schema, annotations) = match self {
            Self::Status => (
                format!(
                    "Reports the status of a job, by the job_id that another tool returned: queued, running, completed \
                     with its result, or failed with its error. Waits up to {wait_s} s for the end before it answers."
                ),
                rmcp::object!({
                    "type": "object",
                    "properties": {
                        "job_id": job_id,
                        "wait_s": {
                            "type": "number", "minimum": 0,
                            "description": format!("How many seconds to wait for the end; at most {wait_s}"),
                        },
                    },
                    "required": ["job_id"],
                }),
                ToolAnnotations::new().read_only(true).open_world(false),
            ),
            Self::Cancel => (
                "Stops a job. A job that has already ended is not changed.".to_owned(),
                rmcp::object!({"type": "object", "properties": {"job_id": job_id}, "required": ["job_id"]}),
                ToolAnnotations::new().read_only(false).destructive(true).idempotent(true).open_world(false),
            ),
        };
        Tool::new(self.name(), description, schema).with_annotations(annotations)
    }
}
