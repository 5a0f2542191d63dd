//! Jobs of AWS Batch.

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use crate::jobs::arguments::texts;
use crate::jobs::aws::{AwsError, AwsJob, Pages, Protocol, Repeat, Service, Spec, list, not_stopped, started, text};
use crate::jobs::job::{Again, ExternalJob, JobError, JobKey, JobProgress, JobRef, Poll, Start, Started};
use crate::jobs::output;
use crate::jobs::rights::Rights;

/// The prefix of the names of jobs; the task id follows.
const NAME: &str = "longhaul-";

const LIST: Pages = Pages { operation: "ListJobs", items: "/jobSummaryList", token: "nextToken" };

/// A queue, and what is run from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchJobSpec {
    /// The name or the ARN of the job queue.
    pub job_queue: String,
    /// The name, perhaps with a revision, or the ARN of the job definition.
    pub job_definition: String,
}

impl BatchJobSpec {
    /// The IAM permissions that running it needs. Batch knows no narrower resources for jobs and their lists.
    #[must_use]
    pub fn rights(&self) -> Vec<Rights> {
        let arn = |kind: &str, name: &str| match name.starts_with("arn:") {
            true => name.to_owned(),
            false => format!("arn:aws:batch:*:*:{kind}/{name}"),
        };
        let definition = arn("job-definition", &self.job_definition);
        // A name without a revision is that of the newest one.
        let last = definition.rsplit('/').next().unwrap_or_default();
        let definition = if last.contains(':') { definition } else { format!("{definition}:*") };
        vec![
            Rights::new(&["batch:SubmitJob"], vec![arn("job-queue", &self.job_queue), definition]),
            Rights::new(&["batch:TerminateJob"], vec!["arn:aws:batch:*:*:job/*".to_owned()]),
            Rights::new(&["batch:DescribeJobs", "batch:ListJobs"], vec!["*".to_owned()]),
        ]
    }
}

/// Jobs of AWS Batch: a call's arguments are the parameters of the job definition. Batch keeps no output: the result
/// says how the job ended, and where its log is.
///
/// Batch has no token for a start. The name of a job says which task it is for, so that it can be found.
pub type BatchJob = AwsJob<BatchJobSpec>;

impl Spec for BatchJobSpec {
    const SERVICE: Service = Service { id: "BATCH", host: "batch", protocol: Protocol::Rest };

    fn region(&self) -> Option<&str> {
        let arn = self.job_queue.strip_prefix("arn:")?;
        arn.split(':').nth(2).filter(|region| !region.is_empty())
    }
}

#[async_trait]
impl ExternalJob for BatchJob {
    async fn start(&self, start: &Start<'_>) -> Result<Started, JobError> {
        let key = start.key();
        let parameters: Map<String, Value> =
            texts(start.input()).map(|(name, value)| (name.clone(), value.into())).collect();
        let request = json!({
            "jobName": format!("{NAME}{}", key.task()),
            "jobQueue": self.spec.job_queue,
            "jobDefinition": self.spec.job_definition,
            "parameters": parameters,
            "tags": {"longhaul-task": key.as_str()},
        });
        let answer = self.call_to_start(start, "SubmitJob", &request, Repeat::No).await?.map_err(AwsError::of_start)?;
        started("SubmitJob", &answer, "/jobId")
    }

    fn again(&self) -> Again {
        Again::AnotherJob
    }

    async fn find(&self, key: &JobKey, _input: &Value) -> Result<Option<JobRef>, JobError> {
        let name = format!("{NAME}{}", key.task());
        let request = json!({"jobQueue": self.spec.job_queue, "filters": [{"name": "JOB_NAME", "values": [name]}]});
        let jobs = self.pages(&LIST, &request).await?;
        let found = jobs.iter().find(|job| text(job, "/jobName") == Some(name.as_str()));
        Ok(found.and_then(|job| text(job, "/jobId")).map(JobRef::new))
    }

    async fn poll(&self, job: &JobRef) -> Result<Poll, JobError> {
        let answer = self.ask("DescribeJobs", &json!({"jobs": [job]})).await?;
        let Some(described) = list(&answer, "/jobs").next() else {
            return Err(JobError::NotFound(format!(
                "Batch does not know the job {job} any more: it forgets them after 7 days"
            )));
        };
        let status = text(described, "/status").unwrap_or("unknown");
        let what = json!({
            "job": job, "status": status, "exitCode": described.pointer("/container/exitCode"),
            "logStream": text(described, "/container/logStreamName"), "reason": text(described, "/statusReason"),
        });
        Ok(match status {
            "SUCCEEDED" => Poll::Done(Ok(output::succeeded(&what))),
            "FAILED" => {
                let why = text(described, "/container/reason").or_else(|| text(described, "/statusReason"));
                Poll::Done(Ok(output::failed(
                    &format!("the job failed: {}", why.unwrap_or("Batch does not say why")),
                    what,
                )))
            }
            other => {
                let steps = ["SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING"];
                let step = steps.iter().position(|step| *step == other).unwrap_or_default();
                let done = f64::from(u32::try_from(step).unwrap_or_default());
                Poll::Going(Some(JobProgress { done, total: None, message: other.to_lowercase() }))
            }
        })
    }

    async fn stop(&self, job: &JobRef, why: &str) -> Result<(), JobError> {
        let request = json!({"jobId": job, "reason": output::cut(why)});
        // For a job that has ended, Batch does nothing.
        match self.call("TerminateJob", &request, Repeat::Yes).await {
            Ok(_) => Ok(()),
            Err(error) if error.is("ClientException") => not_stopped(self.poll(job).await, error),
            Err(error) => Err(error.later()),
        }
    }
}
