//! The tasks of a caller, or some of them; and all that is recorded of one, from servers that show it
//! (`dev.longhaul/tasks/inspect`).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::connect::Lifecycle;
use crate::error::{Error, Refusal};
use crate::task::{Status, Task};
use crate::wire::METHOD_NOT_FOUND;

/// For servers that show only some of the tasks, as Longhaul servers do.
const FILTERED: &str = "dev.longhaul/tasks/list";

/// Which tasks are wanted. By default, all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskFilter {
    /// The statuses of the tasks; empty for all.
    pub statuses: Vec<Status>,
    /// The tool of the tasks.
    pub tool: Option<String>,
    /// The labels of the tasks, which have all of them.
    pub labels: BTreeMap<String, String>,
    /// Where the list begins: the [`next`](Listed::next) of an earlier list with the same filter.
    pub cursor: Option<String>,
}

impl TaskFilter {
    /// Whether it takes a task. The tool is compared only where the server shows it, and most servers do not.
    /// A task that is shown without labels has none.
    #[must_use]
    pub fn takes(&self, task: &Task) -> bool {
        let of_status = self.statuses.is_empty() || self.statuses.contains(&task.status);
        let other_tool = self.tool.as_deref().zip(task.tool()).is_some_and(|(wanted, tool)| wanted != tool);
        let labelled = self.labels.iter().all(|(key, value)| task.labels().any(|one| one == (key, value)));
        of_status && !other_tool && labelled
    }

    fn params(&self) -> Value {
        let mut params = Map::new();
        if !self.statuses.is_empty() {
            let names: Vec<&str> = self.statuses.iter().map(|status| status.name()).collect();
            params.insert("status".to_owned(), names.into());
        }
        params.extend(self.tool.iter().map(|tool| ("tool".to_owned(), tool.as_str().into())));
        if !self.labels.is_empty() {
            params.insert("labels".to_owned(), json!(self.labels));
        }
        params.extend(self.cursor.iter().map(|cursor| ("cursor".to_owned(), cursor.as_str().into())));
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
    /// Where the rest begins; `None` if there are no more tasks.
    pub next: Option<String>,
}

impl Client {
    /// All tasks of this caller: a [`list`](Self::list) without a filter.
    pub async fn tasks(&self) -> Result<Vec<Task>, Error> {
        Ok(self.list(&TaskFilter::default(), usize::MAX).await?.tasks)
    }

    /// The tasks of this caller that `filter` takes, and no more pages of them than `enough` tasks need.
    ///
    /// A Longhaul server filters them itself. Others are asked for all, with `tasks/list` of `2025-11-25`, even if they
    /// speak `2026-07-28`, which has no list. Their tasks are filtered here by status, and by tool where that is shown.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the server has no list; otherwise what it answers, or why there is no answer.
    pub async fn list(&self, filter: &TaskFilter, enough: usize) -> Result<Listed, Error> {
        let read = |row: &Value| Task::read(row).filter(|task| filter.takes(task));
        if self.takes_keys() {
            match self.pages(FILTERED, filter.params(), "tasks", enough, read).await {
                // It is of an older version.
                Err(Error::Refused(Refusal { code: METHOD_NOT_FOUND, .. })) => {}
                pages => return pages.map(|(tasks, pages, next)| Listed { tasks, pages, next }),
            }
        }
        let other = || async { Self::begin(self.wire.clone(), self.identity.clone()).await.map(Box::new) };
        let client = match &self.lifecycle {
            Lifecycle::Handshake(_) => self,
            Lifecycle::PerRequest => self.of_list.get_or_try_init(other).await?,
        };
        if client.capabilities.pointer("/tasks/list").is_none() {
            return Err(Error::Unsupported("the server has no list of tasks".to_owned()));
        }
        let from = filter.cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
        let (tasks, pages, next) = client.pages("tasks/list", from, "tasks", enough, read).await?;
        Ok(Listed { tasks, pages, next })
    }
}

/// All that is recorded of a task.
const INSPECT: &str = "dev.longhaul/tasks/inspect";

/// At most so many pages of a journal are read: of 512 entries each, as many as a task may record.
const PAGES_MAX: usize = 8;

impl Client {
    /// The whole record of a task. It has the answer of `tasks/get` as `task`, its `tool`, `arguments`, `attempts` and
    /// the whole `journal`. Each entry has its value if that is small.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the server shows nothing of the kind; otherwise what it answers, or why there is no
    /// answer.
    pub async fn inspect(&self, id: &str) -> Result<Value, Error> {
        let mut shown = self.inspected(id, json!({"taskId": id})).await?;
        for _ in 1..PAGES_MAX {
            let Some(cursor) = shown.get("nextCursor").cloned().filter(|cursor| !cursor.is_null()) else { break };
            let mut next = self.inspected(id, json!({"taskId": id, "cursor": cursor})).await?;
            let more = next["journal"].take();
            if let (Some(journal), Value::Array(more)) = (shown["journal"].as_array_mut(), more) {
                journal.extend(more);
            }
            shown["nextCursor"] = next["nextCursor"].take();
        }
        shown.as_object_mut().map(|shown| shown.shift_remove("nextCursor"));
        Ok(shown)
    }

    /// The same without the journal, which the server then need not read. A server of an older version still sends the
    /// first page of it.
    pub async fn record(&self, id: &str) -> Result<Value, Error> {
        self.inspected(id, json!({"taskId": id, "journal": false})).await
    }

    /// The tool and the arguments that a task was called with.
    pub async fn called(&self, id: &str) -> Result<(String, Map<String, Value>), Error> {
        let shown = self.record(id).await?;
        let whole = json!({"taskId": id, "whole": {"kind": "arguments"}});
        let arguments = match &shown["arguments"] {
            cut if cut["cut"] == true => self.inspected(id, whole).await?["value"].take(),
            shown => shown["value"].clone(),
        };
        match (shown["tool"].as_str(), arguments) {
            (Some(tool), Value::Object(arguments)) => Ok((tool.to_owned(), arguments)),
            _ => Err(Error::Unexpected(format!("`{INSPECT}` is answered without the tool and its arguments"))),
        }
    }

    async fn inspected(&self, id: &str, params: Value) -> Result<Value, Error> {
        let unsupported = || Error::Unsupported("the server does not show the stored data of its tasks".to_owned());
        match &self.lifecycle {
            Lifecycle::PerRequest => {}
            Lifecycle::Handshake(_) => return Err(unsupported()),
        }
        match self.result(INSPECT, params, Some(id)).await {
            Err(Error::Refused(Refusal { code: METHOD_NOT_FOUND, .. })) => Err(unsupported()),
            shown => shown,
        }
    }
}
