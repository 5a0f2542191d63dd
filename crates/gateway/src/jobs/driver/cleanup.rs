//! Stops the job of a task after the task has ended in another way.

use longhaul::{End, EndedTask, EndedTaskError};
use serde_json::{Map, Value};

use super::{Driver, ms};
use crate::jobs::job::{Again, JobError, JobKey, JobRef};
use crate::jobs::limits;

/// Why a job is not stopped yet: cleanup is tried again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CleanUpError {
    /// The system does not stop it, or does not show it yet.
    #[error("the job could not be stopped: {0}")]
    NotStopped(JobError),
    /// The start of the job was not recorded, and the system does not show a job yet.
    #[error("the job that may have been started is not found yet")]
    NotFoundYet,
    /// The recorded steps or arguments cannot be read.
    #[error(transparent)]
    Record(#[from] EndedTaskError),
}

impl Driver<'_> {
    /// Stops the job that the task has started. If the start is not recorded, it searches for the job. Systems may show
    /// a job minutes after its start. It therefore repeats the search until five minutes after the task has ended.
    pub async fn clean_up(&self, ended: &EndedTask) -> Result<(), CleanUpError> {
        // The driver has stopped each job whose end it did not see, before it returned an error.
        if ended.end().is_of_its_tool() {
            return Ok(());
        }
        let is_settled = ms(ended.since_end()) >= limits::SEEN_WITHIN_MS;
        let Some(job) = self.left_by(ended, is_settled).await? else { return Ok(()) };
        match self.job.stop(&job, &why(ended.end())).await {
            Ok(()) => Ok(()),
            Err(JobError::NotFound(_)) if is_settled => Ok(()),
            Err(JobError::Refused(why)) => {
                tracing::error!(%job, why, "an external job of an ended task cannot be stopped");
                Ok(())
            }
            Err(error) => Err(CleanUpError::NotStopped(error)),
        }
    }

    /// The job that the task has started, if any.
    async fn left_by(&self, ended: &EndedTask, is_settled: bool) -> Result<Option<JobRef>, CleanUpError> {
        let steps = self.job.steps();
        if let Some(job) = ended.step::<JobRef>(steps.job).await? {
            return Ok(Some(job));
        }
        let is_marked = match self.job.again() {
            Again::SameJob => ended.attempts() > 0,
            Again::AnotherJob => ended.step::<u32>(&self.job.mark_of(0)).await?.is_some(),
        };
        if !is_marked || !self.job.can_find() {
            return Ok(None);
        }
        let input = Value::Object(ended.arguments::<Map<String, Value>>()?);
        match self.job.find(&JobKey::of(&ended.task_key()), &input).await {
            Ok(Some(job)) => Ok(Some(job)),
            Ok(None) | Err(JobError::NotFound(_)) if is_settled => Ok(None),
            Ok(None) | Err(JobError::NotFound(_)) => Err(CleanUpError::NotFoundYet),
            Err(JobError::Refused(why)) => {
                tracing::error!(why, "an external job of an ended task cannot be searched for");
                Ok(None)
            }
            Err(error) => Err(CleanUpError::NotStopped(error)),
        }
    }
}

/// Why the job is stopped, for the system that runs it.
fn why(end: &End) -> String {
    match end {
        End::Cancelled => "its task was cancelled".to_owned(),
        End::Failed { message, .. } => format!("its task failed: {message}"),
        _ => "its task has ended".to_owned(),
    }
}
