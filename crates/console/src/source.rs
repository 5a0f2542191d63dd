//! The source of the console's tasks.

mod remote;

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_client::{Call, Called, Error, Question, Status, Task, Tool};
use serde_json::{Map, Value};

pub use remote::Remote;

/// The source of the console's tasks, with the permissions of one caller.
///
/// Each method fails with the server's error, or with the reason why there is no answer.
#[async_trait]
pub trait Source: Send + Sync {
    /// The URL of the server, for lines that a reader copies.
    fn url(&self) -> &str;

    /// The same source for the tasks of another owner, or of [`ALL_OWNERS`](longhaul_client::ALL_OWNERS), whom only an
    /// operator names.
    fn of_owner(&self, owner: &str) -> Arc<dyn Source>;

    /// Whether this caller is an operator, who sees the tasks of all owners.
    async fn is_operator(&self) -> Result<bool, Error>;

    /// How many tasks wait for an answer, counted up to some limit.
    async fn asking(&self) -> Result<usize, Error>;

    /// Tasks, newest first.
    async fn tasks(&self, filter: &Filter) -> Result<Listed, Error>;

    /// One task.
    async fn task(&self, id: &str) -> Result<Task, Error>;

    /// All recorded data of a task, as [`Client::inspect`](longhaul_client::Client::inspect) has it.
    async fn inspect(&self, id: &str) -> Result<Value, Error>;

    /// The same without the journal, as [`Client::record`](longhaul_client::Client::record) has it.
    async fn record(&self, id: &str) -> Result<Value, Error>;

    /// The tool and the arguments that a task was called with.
    async fn called(&self, id: &str) -> Result<(String, Map<String, Value>), Error>;

    /// All tools.
    async fn tools(&self) -> Result<Vec<Tool>, Error>;

    /// Calls a tool. A question before it is a task gets no answer. Its key is left out if the server takes none.
    async fn call(&self, call: &Call) -> Result<Called, Error>;

    /// Answers a question of a task.
    async fn answer(&self, id: &str, question: &Question, answer: Value) -> Result<(), Error>;

    /// Has a new task continue a failed one, as [`Client::resume_task`](longhaul_client::Client::resume_task) does.
    async fn resume(&self, id: &str, from: Option<&str>, key: Option<&str>) -> Result<Task, Error>;

    /// Asks for a task to be cancelled.
    async fn cancel(&self, id: &str) -> Result<(), Error>;
}

/// Which tasks are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only those with this status.
    pub status: Option<Status>,
    /// Only those of this tool.
    pub tool: Option<String>,
    /// Only those with this label: its key and its value.
    pub label: Option<(String, String)>,
    /// Only those created within so many milliseconds.
    pub age_ms_max: Option<i64>,
    /// Only those with this in their id, message, arguments or owner, in lower case.
    pub text: Option<String>,
    /// Only those older than an earlier list, which named this place as [`Listed::older`].
    pub before: Option<String>,
}

/// A task in a list.
#[derive(Clone, Debug)]
pub struct Row {
    /// The task.
    pub task: Task,
    /// Its tool, if that is known.
    pub tool: Option<String>,
}

/// Tasks, their counts and their tools.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// The tasks that match, newest first.
    pub rows: Vec<Row>,
    /// The number of tasks of each status, in the order of [`Status::ALL`], that match the other filters.
    pub counts: [usize; 5],
    /// All tools of the tasks that were read.
    pub tools: Vec<String>,
    /// If there are more tasks than were read: how many were read.
    pub newest: Option<usize>,
    /// Where the older tasks begin that were not read.
    pub older: Option<String>,
}

impl Listed {
    /// The tasks of `all` that a filter takes now.
    pub(crate) fn filtered(all: Vec<Row>, filter: &Filter, now_ms: i64) -> Self {
        let mut tools: Vec<String> = all.iter().filter_map(|row| row.tool.clone()).collect();
        tools.sort_unstable();
        tools.dedup();
        let mut listed = Self { tools, ..Self::default() };
        for row in all.into_iter().filter(|row| filter.takes(row, now_ms)) {
            let status = row.task.status;
            let counted = Status::ALL.iter().zip(&mut listed.counts).find(|(one, _)| **one == status);
            counted.into_iter().for_each(|(_, count)| *count += 1);
            if filter.status.is_none_or(|wanted| wanted == status) {
                listed.rows.push(row);
            }
        }
        listed
    }
}

impl Filter {
    /// Whether a task matches all filters except its status.
    fn takes(&self, row: &Row, now_ms: i64) -> bool {
        let created = || created_ms(&row.task);
        let has_text = |text: &String| {
            let said = ["title", "says", "owner", "caller"].map(|name| told(&row.task, name));
            let searched = [Some(row.task.id.as_str()), row.task.message.as_deref()].into_iter().chain(said);
            searched.flatten().any(|part| part.to_lowercase().contains(text))
        };
        self.tool.as_ref().is_none_or(|tool| row.tool.as_ref() == Some(tool))
            && self.label.iter().all(|(key, value)| row.task.labels().any(|label| label == (key, value)))
            && self.age_ms_max.is_none_or(|max| created().is_some_and(|at| now_ms.saturating_sub(at) <= max))
            && self.text.as_ref().is_none_or(has_text)
    }
}

/// A text that the server says of a task in a list.
pub(crate) fn told<'t>(task: &'t Task, name: &str) -> Option<&'t str> {
    task.raw.get(name).and_then(Value::as_str)
}

/// The first line of its question, of its tool's error, or of its message.
pub(crate) fn says(task: &Task) -> Option<String> {
    let said = told(task, "says").or(task.message.as_deref())?;
    Some(longhaul_client::text::line(said.lines().next()?, 300))
}

pub(crate) fn created_ms(task: &Task) -> Option<i64> {
    moment_of(task, "createdAt")
}

/// When a task changed last, as its server tells.
pub(crate) fn updated_ms(task: &Task) -> Option<i64> {
    moment_of(task, "lastUpdatedAt").or_else(|| created_ms(task))
}

/// When a waiting task continues on its own, if its server says so.
pub(crate) fn wakes_ms(task: &Task) -> Option<i64> {
    moment_of(task, "wakesAt")
}

pub(crate) fn moment_of(task: &Task, name: &str) -> Option<i64> {
    told(task, name).and_then(crate::clock::moment_ms)
}
