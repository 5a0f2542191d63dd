//! The tasks of a caller, or some of them.

use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::connect::Lifecycle;
use crate::error::{Error, Refusal};
use crate::task::{Status, Task};

/// Of servers that show some of the tasks only, as ours do.
const FILTERED: &str = "dev.longhaul/tasks/list";

/// The server does not know the method.
const METHOD_NOT_FOUND: i64 = -32601;

/// Which tasks are wanted. By default, all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskFilter {
    /// Those with one of these statuses; if it is empty, with any.
    pub statuses: Vec<Status>,
    /// Those of this tool.
    pub tool: Option<String>,
}

impl TaskFilter {
    /// Whether it takes a task, as far as that can be seen: most servers do not show which tool a task is of.
    #[must_use]
    pub fn takes(&self, task: &Task) -> bool {
        let of_status = self.statuses.is_empty() || self.statuses.contains(&task.status);
        let other_tool = self.tool.as_deref().zip(task.tool()).is_some_and(|(wanted, tool)| wanted != tool);
        of_status && !other_tool
    }

    fn params(&self) -> Value {
        let mut params = Map::new();
        if !self.statuses.is_empty() {
            let names: Vec<&str> = self.statuses.iter().map(|status| status.name()).collect();
            params.insert("status".to_owned(), names.into());
        }
        params.extend(self.tool.iter().map(|tool| ("tool".to_owned(), tool.as_str().into())));
        params.into()
    }
}

/// Tasks, and what it took to get them.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Newest first, or as the server lists them.
    pub tasks: Vec<Task>,
    /// How many pages the server was asked for.
    pub pages: u32,
}

impl Client {
    /// All tasks of this caller: a [`list`](Self::list) without a filter.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub async fn tasks(&self) -> Result<Vec<Task>, Error> {
        Ok(self.list(&TaskFilter::default(), usize::MAX).await?.tasks)
    }

    /// Those of this caller's tasks that `filter` takes, and no more pages of them than `enough` tasks need.
    ///
    /// A server of ours filters them itself. Others are asked for all, with `tasks/list` of `2025-11-25`, also if they
    /// speak `2026-07-28`, which has no list; what comes is filtered here by its status, and by its tool where that is
    /// shown.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the server has no list; otherwise what it answers, or why there is no answer.
    pub async fn list(&self, filter: &TaskFilter, enough: usize) -> Result<Listed, Error> {
        let read = |row: &Value| Task::read(row).filter(|task| filter.takes(task));
        if self.takes_keys() {
            match self.pages(FILTERED, filter.params(), "tasks", enough, read).await {
                // It is of an older version.
                Err(Error::Refused(Refusal { code: METHOD_NOT_FOUND, .. })) => {}
                pages => return pages.map(|(tasks, pages)| Listed { tasks, pages }),
            }
        }
        let other;
        let client = match &self.lifecycle {
            Lifecycle::Handshake(_) => self,
            Lifecycle::PerRequest => {
                other = Self::with_handshake(self.wire.again()).await?;
                &other
            }
        };
        if client.capabilities.pointer("/tasks/list").is_none() {
            return Err(Error::Unsupported("the server has no list of tasks".to_owned()));
        }
        let (tasks, pages) = client.pages("tasks/list", json!({}), "tasks", enough, read).await?;
        Ok(Listed { tasks, pages })
    }
}
