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

/// Names the other servers that the tools of the server need.
pub type Servers = Box<dyn Fn() -> Vec<OtherServer> + Send + Sync>;

/// Another server that the tools of the server need, such as one behind a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherServer {
    /// Its name.
    pub name: String,
    /// Its processes, if the server starts it.
    pub processes: Option<Processes>,
    /// Why it cannot be used now.
    pub why: Option<String>,
}

/// The processes of another server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processes {
    /// How many have started and not answered yet.
    pub starting: u64,
    /// How many have answered and not ended.
    pub running: u64,
    /// How many starts replaced a process that failed.
    pub restarts: u64,
}

/// The state that all pages of a console share.
pub(crate) struct State {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) guard: Guard,
    pub(crate) is_read_only: bool,
    pub(crate) live: Arc<Semaphore>,
    /// Whether open pages receive no more updates.
    pub(crate) closed: watch::Sender<bool>,
    pub(crate) acts: Acts,
    pub(crate) servers: Servers,
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
