//! What runs the tool of a task, and what the code that cleans up sees of a task that is over.

use std::collections::HashMap;

use async_trait::async_trait;
use longhaul_core::{Entry, EntryKind, Payload, Task};

use crate::attempt::outcome;
use crate::{Attempt, AttemptEnd, Engine, LoadError};

/// Runs the tool of a task for one attempt.
#[async_trait]
pub trait ToolRunner: Send + Sync {
    /// Runs the tool until it ends or has to wait. Dropping the future stops the tool at its next await point.
    ///
    /// An implementation drives the tool's future with [`Attempt::drive`], which returns when the tool waits for
    /// something that ends the attempt.
    async fn run(&self, attempt: Attempt) -> AttemptEnd;

    /// Cleans up a task that is over, and that its tool did not bring to its end. Runs at least once for each such task
    /// that was accepted with [cleanup](crate::Call::cleanup). Dropping the future stops it.
    async fn clean(&self, _ended: &Ended) -> Cleaned {
        Cleaned::NoSuchTool
    }
}

/// A task that is over, and that its tool did not bring to its end.
#[derive(Clone)]
pub struct Ended {
    engine: Engine,
    task: Task,
    request: String,
    steps: HashMap<String, Payload>,
}

/// How a try to clean up ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cleaned {
    /// All is clean.
    Done,
    /// It failed, and is to be tried again, but not often: it may always fail.
    Failed {
        /// What is known about it, for the log.
        reason: String,
    },
    /// The author's code returned an error, and is to be tried again for hours: what it cleans may not be reachable.
    Unfinished {
        /// What is known about it, for the log.
        reason: String,
    },
    /// This worker does not have the tool, or no cleanup for it: nothing was run, and another worker may have it.
    NoSuchTool,
    /// This worker has no memory for what the tool was called with: nothing was run, and it may have some in a moment.
    NoMemory,
}

impl Ended {
    pub(crate) fn new(engine: Engine, task: Task, request: String, journal: Vec<Entry>) -> Self {
        let steps = journal.into_iter().filter(|entry| entry.kind == EntryKind::Step);
        Self { engine, task, request, steps: steps.map(|entry| (entry.name, entry.value)).collect() }
    }

    /// The task as it ended.
    #[must_use]
    pub const fn task(&self) -> &Task {
        &self.task
    }

    /// The request that made the task.
    #[must_use]
    pub fn request(&self) -> &str {
        &self.request
    }

    /// How long ago the task ended, in milliseconds.
    #[must_use]
    pub fn since_end_ms(&self) -> u64 {
        self.engine.since_end_ms(&self.task)
    }

    /// The JSON text of the value that step `name` recorded; `None` if it failed, or recorded nothing, though its work
    /// may have been done.
    pub async fn step(&self, name: &str) -> Result<Option<String>, LoadError> {
        match self.steps.get(name) {
            Some(value) => Ok(outcome(self.engine.load(&self.task.key(), value).await?).ok()),
            None => Ok(None),
        }
    }
}
