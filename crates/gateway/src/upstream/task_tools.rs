//! Which tools of a server may or must be called as tasks. Lists of revision `2025-11-25` declare it. `rmcp` does not
//! know that, so it is read from the messages themselves. In `2026-07-28` only a refused call shows it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_core::strict_json;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Whether a tool may be called as a task.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum TaskSupport {
    Optional,
    Required,
}

/// The task support of a server's tools that the gateway has learned so far. Clones share their content.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskTools(Arc<Mutex<Learned>>);

#[derive(Debug, Default)]
struct Learned {
    listed: Known,
    /// The tools that it refused to call without a task.
    refused: BTreeSet<String>,
}

/// The task support that the server's lists declare.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Known {
    offers_tasks: bool,
    tools: BTreeMap<String, TaskSupport>,
}

impl Known {
    /// Whether the server has declared nothing about tasks.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the server refuses to call a tool for clients that do not ask for a task.
    pub(crate) fn requires_task(&self, tool: &str) -> bool {
        self.support(tool) == Some(TaskSupport::Required)
    }

    fn support(&self, tool: &str) -> Option<TaskSupport> {
        self.tools.get(tool).copied().filter(|_| self.offers_tasks)
    }
}

/// Longer lines are not searched.
const LIST_BYTES_MAX: usize = 1 << 20;

impl TaskTools {
    fn lock(&self) -> MutexGuard<'_, Learned> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The declarations in the lists that the server has sent so far.
    pub(crate) fn known(&self) -> Known {
        self.lock().listed.clone()
    }

    /// Restores declarations that the server has made before.
    pub(crate) fn recall(&self, known: Known) {
        self.lock().listed = known;
    }

    /// The task support that the server wants for a tool; `None` if the tool is to be called plainly.
    pub(crate) fn support(&self, tool: &str) -> Option<TaskSupport> {
        let learned = self.lock();
        if learned.refused.contains(tool) { Some(TaskSupport::Required) } else { learned.listed.support(tool) }
    }

    /// Notes that the server has refused to call the tool without a task.
    pub(crate) fn require(&self, tool: &str) {
        self.lock().refused.insert(tool.to_owned());
    }

    /// Reads the task support in the result of `initialize` or `tools/list`.
    pub(crate) fn note(&self, result: &Value) {
        let known = &mut self.lock().listed;
        if let Some(has) = result.get("capabilities") {
            known.offers_tasks = has.pointer("/tasks/requests/tools/call").is_some();
        }
        for tool in result.get("tools").and_then(Value::as_array).into_iter().flatten() {
            let Some(name) = tool.get("name").and_then(Value::as_str) else { continue };
            match tool.pointer("/execution/taskSupport").and_then(Value::as_str) {
                Some("optional") => known.tools.insert(name.to_owned(), TaskSupport::Optional),
                Some("required") => known.tools.insert(name.to_owned(), TaskSupport::Required),
                _ => known.tools.remove(name),
            };
        }
    }

    /// Reads a line of a process, if it may be one of those results.
    pub(crate) fn note_line(&self, line: &[u8]) {
        let contains = |part: &[u8]| line.windows(part.len()).any(|window| window == part);
        if line.len() > LIST_BYTES_MAX || !(contains(b"\"taskSupport\"") || contains(b"\"protocolVersion\"")) {
            return;
        }
        if let Ok(message) = strict_json::from_slice::<Value>(line) {
            message.get("result").into_iter().for_each(|result| self.note(result));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_is_called_as_a_task_only_if_its_server_offers_tasks() {
        let tools = TaskTools::default();
        let list = r#"{"result": {"tools": [{"name": "a", "execution": {"taskSupport": "required"}},
            {"name": "b", "execution": {"taskSupport": "forbidden"}}, {"name": "c"}]}}"#;
        tools.note_line(list.as_bytes());
        assert_eq!(tools.support("a"), None);
        let info = r#"{"result": {"protocolVersion": "2025-11-25", "capabilities": {"tasks": {"requests": {"tools": {"call": {}}}}}}}"#;
        tools.note_line(info.as_bytes());
        assert_eq!(["a", "b", "c"].map(|tool| tools.support(tool)), [Some(TaskSupport::Required), None, None]);
    }

    #[test]
    fn what_a_list_does_not_say_any_more_counts_no_longer() {
        let tools = TaskTools::default();
        tools.note(&json!({"capabilities": {"tasks": {"requests": {"tools": {"call": {}}}}}}));
        tools.note(&json!({"tools": [{"name": "a", "execution": {"taskSupport": "required"}}]}));
        assert!(tools.known().requires_task("a"));
        tools.note(&json!({"tools": [{"name": "a"}]}));
        assert_eq!(tools.support("a"), None);
    }

    #[test]
    fn a_refused_call_tells_how_to_call_and_not_what_the_lists_say() {
        let tools = TaskTools::default();
        tools.require("a");
        assert_eq!(tools.support("a"), Some(TaskSupport::Required));
        assert!(tools.known().is_empty());
    }
}
