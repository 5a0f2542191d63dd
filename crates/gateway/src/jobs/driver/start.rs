//! Starting a job once.

use std::sync::atomic::AtomicBool;

use longhaul::{Every, TaskContext};
use rmcp::ErrorData;
use serde_json::Value;

use super::{Driver, failed, now_ms, pause, recorded};
use crate::jobs::job::{Again, INTERRUPTED, JobError, JobKey, JobRef, Start, Started};
use crate::jobs::limits;

/// The pauses between two tries.
fn pauses() -> Every {
    Every::growing(limits::START_AGAIN, limits::START_AGAIN_LONGEST)
}

fn refusal_of(mark: &str) -> String {
    format!("{mark} was refused")
}

impl Driver<'_> {
    /// The job that the task has started, now or in an earlier attempt.
    pub(super) async fn started(&self, task: &TaskContext, key: &JobKey, input: &Value) -> Result<Started, ErrorData> {
        let steps = self.job.steps();
        if let Some(job) = recorded(task, steps.job).await {
            return Ok(Started::Job(job));
        }
        let mut why = String::new();
        for number in 0..limits::STARTS_MAX {
            let mark = (self.job.again() == Again::AnotherJob).then(|| self.job.mark_of(number));
            if let Some(mark) = &mark
                && recorded::<u32>(task, mark).await.is_some()
            {
                match recorded::<String>(task, &refusal_of(mark)).await {
                    Some(reason) => why = reason,
                    None => return self.started_after_all(task, key, input, INTERRUPTED).await,
                }
                continue;
            }
            let start = Start { task, key, input, mark, is_marked: AtomicBool::new(false) };
            match self.start(&start).await? {
                Ok(started) => return Ok(started),
                Err(reason) => why = reason,
            }
        }
        Err(failed(&format!("the job was not started in {} tries: {why}", limits::STARTS_MAX)))
    }

    /// Tries to start the job until the system answers. Returns the reason if the system has refused for now a start
    /// that was marked as sent.
    async fn start(&self, start: &Start<'_>) -> Result<Result<Started, String>, ErrorData> {
        let Start { task, key, input, .. } = *start;
        // An earlier attempt may have sent a start that needs no mark.
        let mut may_be_started = start.mark.is_none() && task.attempt() > 1;
        loop {
            let why = match (self.job.start(start).await, &start.mark) {
                (Ok(Started::Job(job)), _) => {
                    let job = task.step(self.job.steps().job, async || job).await;
                    return Ok(Ok(Started::Job(job)));
                }
                (Ok(ended), _) => return Ok(Ok(ended)),
                (Err(JobError::Refused(why)), _) if may_be_started && self.job.can_find() => {
                    return self.found_or(task, key, input, &why).await.map(Ok);
                }
                (Err(JobError::Refused(why)), _) => return Err(failed(&why)),
                (Err(JobError::NotNow(why)), Some(mark)) if start.is_marked() => {
                    let why = task.step(&refusal_of(mark), async || why).await;
                    self.wait(task, &why).await;
                    return Ok(Err(why));
                }
                (Err(JobError::Unanswered(why) | JobError::NotFound(why)), Some(_)) if start.is_marked() => {
                    return self.started_after_all(task, key, input, &why).await.map(Ok);
                }
                (Err(JobError::NotNow(why)), _) => why,
                (Err(JobError::Unanswered(why) | JobError::NotFound(why)), _) => {
                    may_be_started = true;
                    why
                }
            };
            self.wait(task, &why).await;
        }
    }

    async fn wait(&self, task: &TaskContext, why: &str) {
        tracing::warn!(why, "external work was not started; it is tried again");
        task.progress(0).message(format!("not started yet: {why}")).await;
        pause(task, &format!("{} again", self.job.steps().job), pauses()).await;
    }

    /// The job of an earlier start, although the last one was refused.
    async fn found_or(&self, task: &TaskContext, key: &JobKey, input: &Value, why: &str) -> Result<Started, ErrorData> {
        match self.job.find(key, input).await {
            Ok(Some(job)) => Ok(Started::Job(task.step(self.job.steps().job, async || job).await)),
            Ok(None) | Err(_) => Err(failed(why)),
        }
    }

    /// The job of a start whose answer was lost, if the system can tell.
    async fn started_after_all(
        &self,
        task: &TaskContext,
        key: &JobKey,
        input: &Value,
        why: &str,
    ) -> Result<Started, ErrorData> {
        let unknown = self.job.may_have_started(why);
        if !self.job.can_find() {
            return Err(failed(&unknown));
        }
        let step = self.job.steps().job;
        let since: u64 = task.step(&format!("{step} looked for"), async || now_ms(task)).await;
        let find = || async {
            let is_late = now_ms(task).saturating_sub(since) >= limits::SEEN_WITHIN_MS;
            match self.job.find(key, input).await {
                Ok(Some(job)) => Ok(Some(job)),
                Ok(None) | Err(JobError::NotFound(_)) if is_late => Err(failed(&unknown)),
                Ok(None) | Err(JobError::NotFound(_)) => Ok(None),
                Err(JobError::Refused(other)) => {
                    Err(failed(&format!("{unknown}; and it could not be looked for: {other}")))
                }
                Err(JobError::NotNow(why) | JobError::Unanswered(why)) => {
                    tracing::warn!(why, "external work could not be looked for; it is tried again");
                    Ok(None)
                }
            }
        };
        let every = Every::growing(limits::POLL_FIRST, limits::FIND_LONGEST);
        let job: JobRef = task.poll_until(step, every, find).await?;
        Ok(Started::Job(job))
    }
}
