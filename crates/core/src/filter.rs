//! Which of an owner's tasks a list shows.

use std::collections::BTreeSet;

use crate::{Labels, Status, Task};

/// The common properties of the tasks in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFilter {
    /// Their status is one of these.
    pub statuses: BTreeSet<Status>,
    /// The tool that was called; `None` for any.
    pub tool: Option<String>,
    /// They have all of these labels.
    pub labels: Labels,
}

impl TaskFilter {
    /// Whether a list with this filter shows the task.
    #[must_use]
    pub fn takes(&self, task: &Task) -> bool {
        self.statuses.contains(&task.status())
            && self.tool.as_ref().is_none_or(|tool| *tool == task.tool)
            && task.labels.include(&self.labels)
    }
}

impl Default for TaskFilter {
    fn default() -> Self {
        Self { statuses: Status::ALL.into(), tool: None, labels: Labels::default() }
    }
}
