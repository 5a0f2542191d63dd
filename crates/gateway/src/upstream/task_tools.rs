//! Which tools of a server of revision `2025-11-25` may or must be called as tasks. `rmcp` does not know that a list says
//! it, so it is read from the messages themselves.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Whether a tool may be called as a task.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum TaskSupport {
    Optional,
    Required,
}

/// What a server says about its tools. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskTools(Arc<Mutex<Known>>);

/// What is known at a moment.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Known {
    offers_tasks: bool,
    tools: BTreeMap<String, TaskSupport>,
}

impl Known {
    /// Whether the server has said nothing about tasks.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Longer lines are not searched.
const LIST_BYTES_MAX: usize = 1 << 20;

impl TaskTools {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the server has said so far.
    pub(crate) fn known(&self) -> Known {
        self.lock().clone()
    }

    /// The server has said this before.
    pub(crate) fn recall(&self, known: Known) {
        *self.lock() = known;
    }

    /// What the server wants for a tool; `None` if it is to be called plainly.
    pub(crate) fn support(&self, tool: &str) -> Option<TaskSupport> {
        let known = self.lock();
        known.tools.get(tool).copied().filter(|_| known.offers_tasks)
    }

    /// Notes that the server has refused to do without a task.
    pub(crate) fn require(&self, tool: &str) {
        let mut known = self.lock();
        known.offers_tasks = true;
        known.tools.insert(tool.to_owned(), TaskSupport::Required);
    }

    /// Reads what the result of `initialize` or `tools/list` says.
    pub(crate) fn note(&self, result: &Value) {
        let mut known = self.lock();
        if let Some(has) = result.get("capabilities") {
            known.offers_tasks = has.pointer("/tasks/requests/tools/call").is_some();
        }
        for tool in result.get("tools").and_then(Value::as_array).into_iter().flatten() {
            let support = match tool.pointer("/execution/taskSupport").and_then(Value::as_str) {
                Some("optional") => TaskSupport::Optional,
                Some("required") => TaskSupport::Required,
                _ => continue,
            };
            known.tools.extend(tool["name"].as_str().map(|name| (name.to_owned(), support)));
        }
    }

    /// Reads a line of a process, if it may be one of those results.
    pub(crate) fn note_line(&self, line: &[u8]) {
        let contains = |part: &[u8]| line.windows(part.len()).any(|window| window == part);
        if line.len() > LIST_BYTES_MAX || !(contains(b"\"taskSupport\"") || contains(b"\"protocolVersion\"")) {
            return;
        }
        if let Ok(message) = serde_json::from_slice::<Value>(line) {
            message.get("result").into_iter().for_each(|result| self.note(result));
        }
    }
}

#[cfg(test)]
mod tests {
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
}
