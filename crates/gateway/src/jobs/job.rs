//! The trait of all external work, and its words.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD;
use longhaul::{Every, TaskContext};
use longhaul_core::TaskKey;
use rmcp::ErrorData;
use rmcp::model::{CallToolResponse, CallToolResult, InputRequests, InputResponses};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::jobs::limits;

/// Work that another system does: how it is started, polled, answered and stopped. The driver does the rest:
/// [`DurableJob`](crate::jobs::DurableJob) makes the body of a durable tool of it, and [`Driver`](crate::jobs::Driver)
/// runs one call.
///
/// Every method makes few quick requests and does not wait for the job. The task waits, at no cost.
#[async_trait]
pub trait ExternalJob: Send + Sync {
    /// Starts the job. With [`Again::AnotherJob`] it calls [`Start::mark`] immediately before it sends what starts the
    /// job, and starts nothing if that fails.
    ///
    /// # Errors
    /// [`JobError`]. With [`Again::SameJob`] the start is repeated after every error but [`JobError::Refused`]; with
    /// [`Again::AnotherJob`] only after [`JobError::NotNow`], and after [`JobError::Unanswered`] the job is looked for.
    async fn start(&self, start: &Start<'_>) -> Result<Started, JobError>;

    /// Whether a second start with the same key and input is the same job, however much later it comes.
    fn again(&self) -> Again;

    /// The job that a start with this key and input began, if its answer was lost. `None` if there is none yet.
    async fn find(&self, _key: &JobKey, _input: &Value) -> Result<Option<JobRef>, JobError> {
        Ok(None)
    }

    /// Whether the system has a way to find a job. If so, a job that is not found is looked for again for five minutes.
    fn can_find(&self) -> bool {
        true
    }

    /// Polls once.
    ///
    /// # Errors
    /// [`JobError`]. [`JobError::Refused`] ends the task, [`JobError::NotFound`] does if the job is not found for five
    /// minutes, and every other error leads to another poll.
    async fn poll(&self, job: &JobRef) -> Result<Poll, JobError>;

    /// Sends the answers to questions of a poll. They may be sent twice.
    ///
    /// # Errors
    /// [`JobError`]. [`JobError::NotFound`]: the questions are not open any more, and the job may ask them again. Every
    /// other error but [`JobError::Refused`] leads to another try.
    async fn answer(&self, _job: &JobRef, _answers: &InputResponses) -> Result<(), JobError> {
        Err(JobError::Refused("this kind of job takes no answers".to_owned()))
    }

    /// Stops it. Stopping a job that has ended is not an error.
    ///
    /// # Errors
    /// [`JobError`]. [`JobError::Refused`] is final, [`JobError::NotFound`] is after five minutes, and every other
    /// error leads to another try.
    async fn stop(&self, job: &JobRef, why: &str) -> Result<(), JobError>;

    /// Whether the job can be started at all, if that can be known without starting it. A gateway checks this once,
    /// when it starts.
    ///
    /// # Errors
    /// [`JobError::Refused`] says what has to be changed first. The other errors leave the question open.
    async fn check(&self) -> Result<(), JobError> {
        Ok(())
    }

    /// The names under which the task records the start and the polls.
    fn steps(&self) -> Steps {
        Steps { job: "outside job", poll: "end" }
    }

    /// The name of the step that says which attempt sent a start. It is stored, too.
    fn mark_of(&self, number: u32) -> String {
        format!("start {number}")
    }

    /// How long to wait between two polls, unless the configuration says so.
    fn poll_every(&self, _job: &JobRef) -> Every {
        Every::growing(limits::POLL_FIRST, limits::POLL_LONGEST)
    }

    /// The message for the caller if it is unknown whether the job was started.
    fn may_have_started(&self, why: &str) -> String {
        format!("the job may have been started; it was not started again: {why}")
    }
}

/// The names of the steps that the driver records. They are stored: a version that changes them forgets what older
/// versions started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Which job was started.
    pub job: &'static str,
    /// The result of a poll; the number of the round of questions follows.
    pub poll: &'static str,
}

/// The result of a start.
#[derive(Clone, Debug)]
pub enum Started {
    /// A job, which is polled.
    Job(JobRef),
    /// The system answered at once, and there is nothing to poll: with a result, a question to ask first, or an error.
    Ended(Result<CallToolResponse, ErrorData>),
}

/// The effect of a second start with the same key and input.
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

    /// The key of a call, which need not be a task.
    #[must_use]
    pub fn of_call(task: &TaskContext) -> Self {
        let plain = || Self { whole: task.idempotency_key(), task: task.idempotency_key() };
        task.task_key().map_or_else(plain, |key| Self::of(&key))
    }

    /// Owner (in base64url) and task with a `.` between them: 80 characters, otherwise letters, digits, `_` and
    /// `-`.
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

/// The system's name for a job that was started: an ARN, a number, a name. It stands in the task's journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobRef(Value);

impl JobRef {
    /// The system's name for a job.
    pub fn new(name: impl Into<Value>) -> Self {
        Self(name.into())
    }

    /// The name, where it is a text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str().unwrap_or_default()
    }

    /// The name as it was given.
    #[must_use]
    pub const fn value(&self) -> &Value {
        &self.0
    }
}

impl fmt::Display for JobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Value::String(text) => f.write_str(text),
            other => write!(f, "{other}"),
        }
    }
}

/// The result of a poll.
#[derive(Clone, Debug)]
pub enum Poll {
    /// It has not ended. With how far it is, if the system says so.
    Going(Option<JobProgress>),
    /// It waits for answers to these questions.
    Asks(InputRequests),
    /// It has ended. A job that failed has a result that says so (`isError`), or an error.
    Done(Result<CallToolResult, ErrorData>),
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

/// Why a system did not do what it was asked to. The messages are for the caller of the tool and for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// Not now: it has certainly not been done, and may be done later. Too many requests, no connection, credentials or
    /// a clock that the system does not take now.
    #[error("{0}")]
    NotNow(String),
    /// It is unknown whether it was done: no answer, or an error of the system itself.
    #[error("{0}")]
    Unanswered(String),
    /// Not there: the system does not know the job, or not yet. Systems may show a job minutes after its start.
    #[error("{0}")]
    NotFound(String),
    /// It was not done, and another try would not be answered otherwise.
    #[error("{0}")]
    Refused(String),
}

/// One try to start a job.
pub struct Start<'s> {
    pub(crate) task: &'s TaskContext,
    pub(crate) key: &'s JobKey,
    pub(crate) input: &'s Value,
    /// The step that says that the start was sent. `None` for jobs that may be started twice.
    pub(crate) mark: Option<String>,
    pub(crate) is_marked: AtomicBool,
}

impl Start<'_> {
    /// The name of the start: the same in every attempt, and for no other task.
    #[must_use]
    pub const fn key(&self) -> &JobKey {
        self.key
    }

    /// The arguments.
    #[must_use]
    pub const fn input(&self) -> &Value {
        self.input
    }

    /// Records that the start is sent now. No later attempt sends it again, unless the system says that it was not
    /// carried out.
    ///
    /// # Errors
    /// [`JobError::Unanswered`] if another attempt has sent it: then it must not be sent.
    pub async fn mark(&self) -> Result<(), JobError> {
        let Some(mark) = self.mark.as_ref().filter(|_| !self.is_marked()) else { return Ok(()) };
        let attempt = self.task.attempt();
        let sent_by = self.task.step(mark, async || attempt).await;
        self.is_marked.store(true, Ordering::Relaxed);
        if sent_by == attempt { Ok(()) } else { Err(JobError::Unanswered(INTERRUPTED.to_owned())) }
    }

    pub(crate) fn is_marked(&self) -> bool {
        self.is_marked.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Start<'_> {
    /// Without the arguments.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Start").field("key", self.key).field("is_marked", &self.is_marked()).finish_non_exhaustive()
    }
}

pub(crate) const INTERRUPTED: &str = "the worker stopped while it started it";

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
