//! The state of a console, which all of its pages share.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

use crate::guard::Guard;
use crate::problem::Problem;
use crate::source::Source;

/// An action of a user in the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act<'a> {
    /// The action: `cancel`, `again`, `call`, `answer`, `decline`, `dismiss`, `log in` or `log out`.
    pub what: &'static str,
    /// The id of the task that it was for.
    pub task: Option<&'a str>,
    /// Why it was not done.
    pub error: Option<&'a str>,
}

/// Logs the actions of people in the console.
pub type Acts = Box<dyn Fn(&Act<'_>) + Send + Sync>;

/// Names the parts of the server that cannot be used now, each with the reason.
pub type DegradedParts = Box<dyn Fn() -> Vec<(String, String)> + Send + Sync>;

/// The state that all pages of a console share.
pub(crate) struct State {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) guard: Guard,
    pub(crate) is_read_only: bool,
    pub(crate) live: Arc<Semaphore>,
    /// Whether open pages receive no more updates.
    pub(crate) closed: watch::Sender<bool>,
    pub(crate) acts: Acts,
    pub(crate) degraded: DegradedParts,
}

impl State {
    /// Logs an action.
    pub(crate) fn acted<T>(
        &self,
        what: &'static str,
        task: Option<&str>,
        done: Result<T, Problem>,
    ) -> Result<T, Problem> {
        let error = done.as_ref().err().map(Problem::sentence);
        (self.acts)(&Act { what, task, error });
        done
    }
}
