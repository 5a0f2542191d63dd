//! The driver, which is the same for all external work. It starts a job once, polls it until the end and passes
//! questions on. It stops a job that no task waits for any more.

use std::collections::BTreeSet;
use std::time::{Duration, UNIX_EPOCH};

use futures::future::try_join_all;
use longhaul::{Every, TaskContext};
use rmcp::ErrorData;
use rmcp::model::{CallToolResponse, CallToolResult, InputRequest, InputRequests, InputResponses};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::jobs::job::{ExternalJob, JobError, JobKey, JobProgress, JobRef, Poll, Started};
use crate::jobs::limits;

mod cleanup;
mod start;

pub use cleanup::CleanUpError;

/// One call of external work, in every attempt of its task.
#[derive(Clone, Copy)]
pub struct Driver<'j> {
    job: &'j dyn ExternalJob,
    every: Option<Every>,
}

/// How the polls ended that found no question.
enum End {
    /// The job has ended, or cannot be polled: nothing is left of it.
    Ended(Result<CallToolResult, ErrorData>),
    /// The system does not know it, for the first time.
    NotFound,
    /// The driver no longer polls the job, so the job is stopped.
    Left(ErrorData),
}

/// A pause is followed by nothing that is recorded.
#[derive(Serialize, Deserialize)]
enum Never {}

/// The answers that a job did not take, because it had forgotten who asked: it asks the same questions again.
type Undelivered = Vec<(InputRequest, Value)>;

impl<'j> Driver<'j> {
    /// The driver of this job, which is polled as often as its kind says.
    #[must_use]
    pub fn new(job: &'j dyn ExternalJob) -> Self {
        Self { job, every: None }
    }

    /// Waits so long between two polls.
    #[must_use]
    pub fn poll_every(self, every: Option<Every>) -> Self {
        Self { every, ..self }
    }

    /// Starts the job, unless the task has recorded that, and waits for its end. Nothing is held while it waits.
    ///
    /// # Errors
    /// Why it could not be started or polled, with what to do. A job that failed is a result that says so.
    pub async fn run(&self, task: &TaskContext, key: &JobKey, input: &Value) -> Result<CallToolResponse, ErrorData> {
        match Box::pin(self.started(task, key, input)).await? {
            Started::Ended(end) => end,
            Started::Job(job) => Box::pin(self.follow(task, &job)).await.map(Into::into),
        }
    }

    /// Polls until the job has ended, and passes its questions on.
    async fn follow(&self, task: &TaskContext, job: &JobRef) -> Result<CallToolResult, ErrorData> {
        let every = self.every.unwrap_or_else(|| self.job.poll_every(job));
        let (mut answered, mut undelivered) = (BTreeSet::new(), Undelivered::new());
        for round in 0..limits::ASKED_MAX {
            let asked = match self.until_it_asks(task, job, round, every, &answered).await {
                Ok(asked) => asked,
                Err(end) => return end,
            };
            let answers = match answers_to(task, round, &asked, &undelivered).await {
                Ok(answers) => answers,
                Err(error) => return self.leave(task, job, error).await,
            };
            if self.are_delivered(task, job, round, every, &answers).await? {
                answered.extend(asked.into_keys());
            } else {
                let given = asked.into_iter().filter_map(|(key, request)| Some((request, answers.get(&key)?.clone())));
                undelivered.extend(given);
            }
        }
        let why = failed(&format!("the job asked {} times, which is too often", limits::ASKED_MAX));
        self.leave(task, job, why).await
    }

    /// Polls until there are questions that were not answered yet.
    ///
    /// # Errors
    /// How the job ended before. The end is returned as the error so that it is not recorded twice: it is the result of
    /// the task.
    async fn until_it_asks(
        &self,
        task: &TaskContext,
        job: &JobRef,
        round: u32,
        every: Every,
        answered: &BTreeSet<String>,
    ) -> Result<InputRequests, Result<CallToolResult, ErrorData>> {
        let steps = self.job.steps();
        let (polls, not_found) = (format!("{} {round}", steps.poll), format!("{} not found {round}", steps.job));
        let mut not_found_at = recorded(task, &not_found).await;
        loop {
            let poll = || self.poll(task, job, answered, not_found_at);
            match task.poll_until(&polls, every, poll).await {
                Ok(asked) => return Ok(asked),
                Err(End::Ended(end)) => return Err(end),
                Err(End::Left(error)) => return Err(self.leave(task, job, error).await),
                Err(End::NotFound) => not_found_at = Some(task.step(&not_found, async || now_ms(task)).await),
            }
        }
    }

    async fn poll(
        &self,
        task: &TaskContext,
        job: &JobRef,
        answered: &BTreeSet<String>,
        not_found_at: Option<u64>,
    ) -> Result<Option<InputRequests>, End> {
        match self.job.poll(job).await {
            Ok(Poll::Done(end)) => Err(End::Ended(end.map(|result| crate::jobs::output::within_limits(result, job)))),
            Ok(Poll::Going(progress)) => {
                report(task, progress).await;
                Ok(None)
            }
            Ok(Poll::Asks(mut asked)) => {
                asked.retain(|key, _| !answered.contains(key));
                Ok(Some(asked).filter(|asked| !asked.is_empty()))
            }
            Err(JobError::Refused(why)) => Err(End::Left(failed(&why))),
            Err(JobError::NotFound(why)) => match not_found_at {
                None => Err(End::NotFound),
                Some(at) if now_ms(task).saturating_sub(at) >= limits::SEEN_WITHIN_MS => Err(End::Left(failed(&why))),
                Some(_) => {
                    tracing::info!(%job, why, "an external job is not found yet");
                    Ok(None)
                }
            },
            Err(JobError::NotNow(why) | JobError::Unanswered(why)) => {
                tracing::warn!(%job, why, "a poll of external work failed; the next one will tell");
                let message = format!("not seen at the last poll: {why}");
                report(task, Some(JobProgress { done: 0.0, total: None, message })).await;
                Ok(None)
            }
        }
    }

    /// Sends the answers. Returns whether the job took them.
    async fn are_delivered(
        &self,
        task: &TaskContext,
        job: &JobRef,
        round: u32,
        every: Every,
        answers: &InputResponses,
    ) -> Result<bool, ErrorData> {
        /// Recorded where the job did not take the answers.
        const GONE: &str = "gone";
        let send = || async {
            match self.job.answer(job, answers).await {
                Ok(()) => Ok(Some(Value::Null)),
                Err(JobError::NotFound(_)) => Ok(Some(GONE.into())),
                Err(JobError::Refused(why)) => Err(failed(&why)),
                Err(JobError::NotNow(why) | JobError::Unanswered(why)) => {
                    tracing::warn!(%job, why, "answers did not arrive; they are sent again");
                    Ok(None)
                }
            }
        };
        let sent: Value = task.poll_until(&format!("answered {round}"), every, send).await?;
        Ok(sent != GONE)
    }

    /// Stops a job that the driver no longer polls, and ends the task with the error.
    async fn leave<T>(&self, task: &TaskContext, job: &JobRef, error: ErrorData) -> Result<T, ErrorData> {
        let step = self.job.steps().job;
        let since: u64 = task.step(&format!("{step} left"), async || now_ms(task)).await;
        let stop = || async {
            match self.job.stop(job, &error.message).await {
                Ok(()) | Err(JobError::NotFound(_)) => Some(()),
                Err(JobError::Refused(why)) => {
                    tracing::error!(%job, why, "an external job that cannot be polled cannot be stopped");
                    Some(())
                }
                Err(JobError::NotNow(why) | JobError::Unanswered(why)) => {
                    tracing::warn!(%job, why, "an external job that cannot be polled was not stopped yet");
                    (now_ms(task).saturating_sub(since) >= limits::STOPPED_WITHIN_MS).then_some(())
                }
            }
        };
        let every = Every::growing(limits::POLL_FIRST, limits::POLL_LONGEST);
        let _stopped: Result<(), Never> =
            task.poll_until(&format!("{step} stopped"), every, || async { Ok(stop().await) }).await;
        Err(error)
    }
}

impl std::fmt::Debug for Driver<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("every", &self.every).finish_non_exhaustive()
    }
}

/// Asks the caller all questions at once, except those that it has answered already.
async fn answers_to(
    task: &TaskContext,
    round: u32,
    asked: &InputRequests,
    undelivered: &Undelivered,
) -> Result<InputResponses, ErrorData> {
    let asking = asked.iter().enumerate().map(async |(index, (key, request))| {
        let known = undelivered.iter().rev().find(|(earlier, _)| earlier == request);
        let answer = match known {
            Some((_, answer)) => answer.clone(),
            None => task.request_input(&format!("task-{round}-{index}"), request.clone()).await?,
        };
        Ok((key.clone(), answer))
    });
    try_join_all(asking).await.map(|answers| answers.into_iter().collect())
}

async fn report(task: &TaskContext, progress: Option<JobProgress>) {
    let Some(JobProgress { done, total, message }) = progress else { return };
    let report = task.progress(done).message(message);
    match total {
        Some(total) => report.of(total).await,
        None => report.await,
    }
}

/// Waits without recording anything. Every attempt that gets here waits once. The wait grows with the time since the
/// first wait of this name.
async fn pause(task: &TaskContext, name: &str, every: Every) {
    let mut polled = false;
    let twice = || {
        let over = std::mem::replace(&mut polled, true);
        async move { if over { Err(()) } else { Ok(None) } }
    };
    let _over: Result<Never, ()> = task.poll_until(name, every, twice).await;
}

/// The value that an earlier attempt has recorded for this step.
pub(crate) async fn recorded<T: DeserializeOwned>(task: &TaskContext, step: &str) -> Option<T> {
    if task.attempt() > 1 { task.recorded_step(step).await } else { None }
}

fn now_ms(task: &TaskContext) -> u64 {
    ms(task.clock_time().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn failed(why: &str) -> ErrorData {
    ErrorData::internal_error(why.to_owned(), None)
}
