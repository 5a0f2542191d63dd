//! The runner of a task's tool, and the view of an ended task for the code that cleans up.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::{Entry, EntryKind, Task, Timestamp};

use crate::attempt::{Start, outcome};
use crate::{Attempt, AttemptEnd, Cleaned, Engine, LoadError};

/// Runs the tool of a task for one attempt.
#[async_trait]
pub trait ToolRunner: Send + Sync {
    /// Runs the tool until it ends or has to wait. Dropping the future stops the tool at its next await point.
    ///
    /// An implementation drives the tool's future with [`Attempt::drive`], which returns when the tool waits for
    /// something that ends the attempt.
    async fn run(&self, attempt: Attempt) -> AttemptEnd;

    /// Cleans up a task that has ended, and not with success: runs the [compensations](Ended::replay) of its tool, and
    /// what else its author has for that. Runs at least once for each such task that was accepted with
    /// [cleanup](crate::Call::cleanup). Dropping the future stops it.
    async fn clean(&self, _ended: &Ended) -> Cleaned {
        Cleaned::NoSuchTool
    }
}

/// A task that has ended, and not with success.
#[derive(Clone)]
pub struct Ended {
    engine: Engine,
    task: Task,
    request: String,
    journal: Arc<Vec<Entry>>,
    /// How long the worker has for this try.
    until: Timestamp,
}

impl Ended {
    pub(crate) fn new(engine: Engine, task: Task, request: String, journal: Vec<Entry>, until: Timestamp) -> Self {
        Self { engine, task, request, journal: Arc::new(journal), until }
    }

    /// An attempt to drive the tool with, once more. It does no work and records nothing, and stops at the end of the
    /// record. On the way it registers the tool's compensations. Then [`Attempt::undo`] runs them.
    #[must_use]
    pub fn replay(&self) -> Attempt {
        let start = Start {
            task: self.task.clone(),
            request: self.request.clone(),
            journal: self.journal.to_vec(),
            trace: self.task.trace,
            ends_at: Some(self.until),
            unstored: None,
        };
        // A worker that held the task may have run on for a lease, and clocks differ.
        let ended_at = self.task.ended_at.unwrap_or(self.task.updated_at);
        let ran_until = ended_at.plus_ms(2 * self.engine.settings().lease_ms);
        Attempt::replay(self.engine.clone(), start, ran_until.min(self.engine.now()))
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
        let is_it = |entry: &&Entry| entry.kind == EntryKind::Step && entry.name == name;
        match self.journal.iter().find(is_it) {
            Some(entry) => Ok(outcome(self.engine.load(&self.task.key(), &entry.value).await?).ok()),
            None => Ok(None),
        }
    }
}
