//! The driver, which is the same for all systems: start once, poll until the end, stop what nobody waits for any more.

use std::sync::Arc;
use std::time::Duration;

use longhaul::ports::Clock as _;
use longhaul::{End, EndedTask, EndedTaskError, Every, SystemClock, TaskContext};
use rmcp::ErrorData;
use rmcp::model::CallToolResult;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::job::{Again, JobError, JobKey, JobProgress, JobRef, OutsideJob, Poll};
use crate::limits;

/// The step that records which job the task has started.
const JOB: &str = "outside job";

/// An outside job as the body of a durable tool. Clones are the same.
///
/// ```
/// # use std::sync::Arc;
/// use longhaul::rmcp::handler::server::wrapper::Parameters;
/// use longhaul::rmcp::model::{CallToolResult, JsonObject};
/// use longhaul::rmcp::{self, ErrorData, ServerHandler, tool, tool_handler, tool_router};
/// use longhaul::{EndedTask, Server, TaskContext, TaskPolicy};
/// use longhaul_jobs::{Aws, DurableJob, StateMachine, StepFunctions};
///
/// #[derive(Clone)]
/// struct Tools {
///     etl: DurableJob,
/// }
///
/// #[tool_router]
/// impl Tools {
///     #[tool(description = "Loads the sales of a month")]
///     async fn etl(&self, input: Parameters<JsonObject>, task: TaskContext) -> Result<CallToolResult, ErrorData> {
///         self.etl.run(&task, &input.0.into()).await
///     }
/// }
///
/// #[tool_handler]
/// impl ServerHandler for Tools {}
///
/// # fn server() -> Result<Server, Box<dyn std::error::Error>> {
/// let machine = StateMachine::of_arn("arn:aws:states:eu-west-1:123456789012:stateMachine:etl")?;
/// let etl = DurableJob::new(StepFunctions::new(Aws::from_environment(), machine));
/// let tools = Tools { etl: etl.clone() };
/// # Ok(
/// Server::new(move || tools.clone()).task("etl", TaskPolicy::required()).clean_up("etl", move |ended: EndedTask| {
///     let etl = etl.clone();
///     async move { etl.clean_up(&ended).await }
/// })
/// # )
/// # }
/// ```
#[derive(Clone)]
pub struct DurableJob {
    job: Arc<dyn OutsideJob>,
    every: Every,
}

/// How a poll ended the polling: its error is the result of the task, so that it is not recorded twice.
type Ended = Result<CallToolResult, ErrorData>;

/// What is never found: the polls of a job end with an error, which is its result.
#[derive(Serialize, Deserialize)]
enum Never {}

/// What a task waits for in vain: cleanup is tried again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CleanUpError {
    /// The system does not answer.
    #[error("the job could not be stopped: {0}")]
    NotStopped(JobError),
    /// What is on record cannot be read.
    #[error(transparent)]
    Record(#[from] EndedTaskError),
}

impl DurableJob {
    /// Jobs of this kind, polled after a second, then more and more seldom, up to every 15 minutes.
    pub fn new(job: impl OutsideJob) -> Self {
        Self::shared(Arc::new(job))
    }

    /// The same for a kind that is shared.
    #[must_use]
    pub fn shared(job: Arc<dyn OutsideJob>) -> Self {
        Self { job, every: Every::growing(limits::POLL_FIRST, limits::POLL_LONGEST) }
    }

    /// Waits so long between two polls.
    #[must_use]
    pub fn poll_every(self, every: impl Into<Every>) -> Self {
        Self { every: every.into(), ..self }
    }

    /// Starts the job, unless that is on record, and waits for its end. For the body of a tool whose task has nothing
    /// else to do. Nothing is held while it waits.
    ///
    /// # Errors
    /// Why it could not be started or polled, with what to do. A job that failed is a result that says so.
    pub async fn run(&self, task: &TaskContext, input: &Value) -> Result<CallToolResult, ErrorData> {
        let Some(task_key) = task.task_key() else {
            return Err(failed("an outside job needs a task: give its tool a TaskPolicy"));
        };
        let key = JobKey::of(&task_key);
        let job = match self.job.again() {
            Again::SameJob => self.start_until_it_is(task, &key, input).await?,
            Again::AnotherJob => self.start_once(task, &key, input).await?,
        };
        let polled: Result<Never, Ended> = task.poll_until("end", self.every, || self.poll(task, &job)).await;
        let Err(end) = polled;
        end
    }

    /// Stops what the task has started. For `Server::clean_up`. A job whose start is not on record is looked for.
    ///
    /// # Errors
    /// [`CleanUpError`], after which cleanup is tried again.
    pub async fn clean_up(&self, ended: &EndedTask) -> Result<(), CleanUpError> {
        let job = match ended.step::<JobRef>(JOB).await? {
            Some(job) => Some(job),
            // No attempt has begun, and so nothing was started.
            None if ended.attempts() == 0 => None,
            None => {
                let input = Value::Object(ended.arguments::<Map<String, Value>>()?);
                unless_refused(self.find_late(&JobKey::of(&ended.task_key()), &input).await)?.flatten()
            }
        };
        let Some(job) = job else { return Ok(()) };
        unless_refused(self.job.stop(&job, &why(ended.end())).await)?;
        Ok(())
    }

    /// The job, which may be seen later than the first question for it: a start that was cut off may still be on its
    /// way, and lists of jobs may be some seconds old.
    async fn find_late(&self, key: &JobKey, input: &Value) -> Result<Option<JobRef>, JobError> {
        let mut pauses = self.pauses_of_finding().iter();
        loop {
            match (self.job.find(key, input).await?, pauses.next()) {
                (None, Some(pause_ms)) => SystemClock.sleep_ms(*pause_ms).await,
                (found, _) => return Ok(found),
            }
        }
    }

    /// How long to wait, in milliseconds, after each poll that has not found a job, but for the last.
    fn pauses_of_finding(&self) -> &'static [u64] {
        if self.job.can_find() { &limits::FIND_AGAIN_MS } else { &[] }
    }

    /// For systems to which a second start is the first one.
    async fn start_until_it_is(&self, task: &TaskContext, key: &JobKey, input: &Value) -> Result<JobRef, ErrorData> {
        let start = || async {
            match self.job.start(key, input).await {
                Ok(job) => Ok(Some(job)),
                Err(JobError::Refused(why)) => Err(failed(&why)),
                Err(JobError::NotNow(why) | JobError::Unanswered(why)) => {
                    tracing::warn!(why, "an outside job was not started; it is tried again");
                    task.progress(0).message(format!("not started yet: {why}")).await;
                    Ok(None)
                }
            }
        };
        task.poll_until(JOB, limits::START_AGAIN, start).await
    }

    /// For systems to which a second start is another job: that it will be started is on record before it is.
    async fn start_once(&self, task: &TaskContext, key: &JobKey, input: &Value) -> Result<JobRef, ErrorData> {
        if let Some(job) = recorded(task, JOB).await {
            return Ok(job);
        }
        let attempt = task.attempt();
        let mut why = String::new();
        for try_number in 0..limits::STARTS_MAX {
            let begun_by = task.step(&format!("start {try_number}"), async || attempt).await;
            let refusal = format!("start {try_number} was refused");
            if begun_by == attempt {
                match self.job.start(key, input).await {
                    Ok(job) => return Ok(task.step(JOB, async || job).await),
                    Err(JobError::Refused(why)) => return Err(failed(&why)),
                    Err(JobError::Unanswered(why)) => return self.started_after_all(task, key, input, &why).await,
                    Err(JobError::NotNow(reason)) => why = task.step(&refusal, async || reason).await,
                }
            } else if let Some(reason) = recorded(task, &refusal).await {
                why = reason;
            } else {
                return self.started_after_all(task, key, input, "the worker stopped while it started it").await;
            }
            task.progress(0).message(format!("not started yet: {why}")).await;
            task.sleep(limits::start_pause(try_number)).await;
        }
        Err(failed(&format!("the job was not started in {} tries: {why}", limits::STARTS_MAX)))
    }

    /// The job of a start whose answer was lost, if the system can tell.
    async fn started_after_all(
        &self,
        task: &TaskContext,
        key: &JobKey,
        input: &Value,
        why: &str,
    ) -> Result<JobRef, ErrorData> {
        let mut pauses = self.pauses_of_finding().iter();
        for number in 0.. {
            let find = || async {
                match self.job.find(key, input).await {
                    Ok(found) => Ok(Some(found)),
                    Err(JobError::Refused(other)) => Err(failed(&format!(
                        "the job may have been started; it was not started again: {why}; and it could not be polled \
                         for: {other}"
                    ))),
                    Err(JobError::NotNow(_) | JobError::Unanswered(_)) => Ok(None),
                }
            };
            let found = task.poll_until(&format!("poll {number} for the job"), limits::START_AGAIN, find).await?;
            match (found, pauses.next()) {
                (Some(job), _) => return Ok(task.step(JOB, async || job).await),
                (None, Some(pause_ms)) => task.sleep(Duration::from_millis(*pause_ms)).await,
                (None, None) => break,
            }
        }
        Err(failed(&format!("the job may have been started; it was not started again: {why}")))
    }

    async fn poll(&self, task: &TaskContext, job: &JobRef) -> Result<Option<Never>, Ended> {
        match self.job.poll(job).await {
            Ok(Poll::Done(result)) => Err(Ok(crate::output::within_limits(result, job))),
            Ok(Poll::Going(progress)) => {
                report(task, progress).await;
                Ok(None)
            }
            Err(JobError::Refused(why)) => {
                // Nobody polls it any more, so it is not to go on, if it does.
                if let Err(error) = self.job.stop(job, &why).await {
                    tracing::warn!(%job, %error, "an outside job that cannot be polled was not stopped");
                }
                Err(Err(failed(&why)))
            }
            Err(JobError::NotNow(why) | JobError::Unanswered(why)) => {
                tracing::warn!(%job, why, "a poll of an outside job failed; the next one will tell");
                Ok(None)
            }
        }
    }
}

impl std::fmt::Debug for DurableJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DurableJob").field("every", &self.every).finish_non_exhaustive()
    }
}

async fn report(task: &TaskContext, progress: Option<JobProgress>) {
    let Some(JobProgress { done, total, message }) = progress else { return };
    let report = task.progress(done).message(message);
    match total {
        Some(total) => report.of(total).await,
        None => report.await,
    }
}

/// What an earlier attempt has recorded as this step.
async fn recorded<T: Serialize + serde::de::DeserializeOwned>(task: &TaskContext, step: &str) -> Option<T> {
    // Nothing is recorded here: a try that fails records nothing.
    if task.attempt() > 1 { task.try_step(step, async || Err::<T, ()>(())).await.ok() } else { None }
}

/// What was answered, or `None` if that was a refusal: then nothing can be done, now or later, and somebody should
/// know.
fn unless_refused<T>(answer: Result<T, JobError>) -> Result<Option<T>, CleanUpError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(JobError::Refused(why)) => {
            tracing::error!(why, "an outside job that nobody waits for any more cannot be stopped");
            Ok(None)
        }
        Err(error) => Err(CleanUpError::NotStopped(error)),
    }
}

/// Why it is stopped, for whoever polls the job.
fn why(end: &End) -> String {
    match end {
        End::Cancelled => "its task was cancelled".to_owned(),
        End::Failed { message, .. } => format!("its task failed: {message}"),
        _ => "its task has ended".to_owned(),
    }
}

fn failed(why: &str) -> ErrorData {
    ErrorData::internal_error(why.to_owned(), None)
}
