//! What the driver needs of a system that runs jobs.

use std::fmt;

use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD;
use longhaul::ports::TaskKey;
use rmcp::model::CallToolResult;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A kind of job in another system: how one is started, polled and stopped. [`DurableJob`](crate::DurableJob) makes
/// the body of a durable tool of it.
///
/// Every method makes few quick requests and does not wait for the job. Whoever waits is the task, at no cost.
#[async_trait]
pub trait OutsideJob: Send + Sync + 'static {
    /// Starts the job for this key.
    ///
    /// # Errors
    /// [`JobError`]. With [`Again::SameJob`] every error but [`JobError::Refused`] leads to another start with the same
    /// key and input; with [`Again::AnotherJob`] only [`JobError::NotNow`] does.
    async fn start(&self, key: &JobKey, input: &Value) -> Result<JobRef, JobError>;

    /// Whether a second start with the same key and input is the same job, however much later it comes.
    fn again(&self) -> Again;

    /// The job that a start with this key and input began, if its answer was lost. `None` if there is none yet, or if
    /// the system has no way to find it.
    async fn find(&self, key: &JobKey, input: &Value) -> Result<Option<JobRef>, JobError>;

    /// Whether the system has a way to find a job. If so, a job that is not found is looked for again for some seconds.
    fn can_find(&self) -> bool {
        true
    }

    /// Polls whether it has ended.
    ///
    /// # Errors
    /// [`JobError`]. Every error but [`JobError::Refused`] leads to another poll later.
    async fn poll(&self, job: &JobRef) -> Result<Poll, JobError>;

    /// Stops it. To stop what has ended, or what is not there, is no error.
    ///
    /// # Errors
    /// [`JobError`]. Every error but [`JobError::Refused`] leads to another try later.
    async fn stop(&self, job: &JobRef, why: &str) -> Result<(), JobError>;

    /// Whether it can be started at all, as far as that can be told without starting it: asked once when a gateway
    /// starts.
    ///
    /// # Errors
    /// [`JobError::Refused`] says what has to be changed first. The other errors mean that nobody knows.
    async fn check(&self) -> Result<(), JobError> {
        Ok(())
    }
}

/// What a second start with the same key and input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// The same job: the system recognises the key.
    SameJob,
    /// Perhaps another job, so that there must be no second start.
    AnotherJob,
}

/// Which task a job is for: the name of its start. Every task has another one, the same in every attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobKey {
    whole: String,
    task: String,
}

impl JobKey {
    /// The key of the job of a task.
    #[must_use]
    pub fn of(task: &TaskKey) -> Self {
        let owner = URL_SAFE_NO_PAD.encode(task.owner.as_bytes());
        Self { whole: format!("{owner}.{}", task.id), task: task.id.to_string() }
    }

    /// Owner (in base64url) and task with a `.` between them: 80 characters, of them letters, digits, `_` and `-`
    /// besides.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.whole
    }

    /// The task alone: 36 characters, of them hexadecimal digits and `-`. No two tasks have the same.
    #[must_use]
    pub fn task(&self) -> &str {
        &self.task
    }
}

/// What a system calls a job that was started: an ARN, a number, a name. It stands in the task's journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobRef(String);

impl JobRef {
    /// The system's name for a job.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The system's name for the job.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a poll has seen.
#[derive(Clone, Debug)]
pub enum Poll {
    /// It has not ended. With how far it is, if the system says so.
    Going(Option<JobProgress>),
    /// It has ended, with this result. If it has failed, the result says so (`isError`).
    Done(CallToolResult),
}

/// How far a job is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobProgress {
    /// How much is done: never less than at an earlier poll.
    pub done: f64,
    /// How much there is to do, if that is known.
    pub total: Option<f64>,
    /// The same in words; may be empty.
    pub message: String,
}

/// Why a system did not do what it was asked to. The texts are for the caller of the tool and for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// It has certainly not been done, and may be done later: too many requests, no connection.
    #[error("{0}")]
    NotNow(String),
    /// Nobody knows whether it was done: no answer, or an error of the system itself.
    #[error("{0}")]
    Unanswered(String),
    /// It was not done, and another try would not be answered otherwise.
    #[error("{0}")]
    Refused(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_as_long_as_the_name_of_an_execution_may_be() {
        let task = "01a20865-b505-72d6-a2ec-4c413b1088a3";
        let owner = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d";
        let key = JobKey::of(&TaskKey::new(owner.parse().unwrap(), task.parse().unwrap()));
        assert_eq!(key.as_str(), "bjQLnP-zepicpUTmu3gKLHiQHT-zNzh2hRGjBhevoB0.01a20865-b505-72d6-a2ec-4c413b1088a3");
        assert_eq!((key.as_str().len(), key.task()), (80, task));
    }
}
