//! Runs of jobs of AWS Glue.

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use crate::jobs::arguments::{is_reserved_by_glue, named};
use crate::jobs::aws::{AwsJob, Pages, Protocol, Repeat, Service, Spec, list, started, text};
use crate::jobs::job::{Again, ExternalJob, JobError, JobKey, JobProgress, JobRef, Poll, Start, Started};
use crate::jobs::output;
use crate::jobs::rights::Rights;

/// The argument that says in a run which task it is for.
const TASK: &str = "--longhaul_task";

/// The list that is searched for a run whose answer was lost, and how many runs a page has: as many as AWS allows.
const LIST: Pages = Pages { operation: "GetJobRuns", items: "/JobRuns", token: "NextToken" };
const PAGE: u32 = 200;

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlueJobSpec {
    /// Its name.
    pub job_name: String,
    /// The arguments that callers may pass.
    pub arguments: Vec<String>,
}

impl GlueJobSpec {
    /// Whether Glue itself obeys an argument of this name, or the driver needs it: no caller may pass it.
    #[must_use]
    pub fn reserves(name: &str) -> bool {
        is_reserved_by_glue(name)
    }

    /// The IAM permissions that running it needs.
    #[must_use]
    pub fn rights(&self) -> Vec<Rights> {
        let actions = ["glue:BatchStopJobRun", "glue:GetJobRun", "glue:GetJobRuns", "glue:StartJobRun"];
        vec![Rights::new(&actions, vec![format!("arn:aws:glue:*:*:job/{}", self.job_name)])]
    }
}

/// Runs of a job: the arguments of a call that the specification names are the run's, each with `--` before its name.
/// Glue keeps no output: the result says how the run ended.
///
/// Glue has no token for a start. An argument of a run says which task it is for, so that it can be found.
pub type GlueJob = AwsJob<GlueJobSpec>;

impl Spec for GlueJobSpec {
    const SERVICE: Service = Service {
        id: "GLUE",
        host: "glue",
        protocol: Protocol::Json { content_type: "application/x-amz-json-1.1", target: "AWSGlue" },
    };
}

#[async_trait]
impl ExternalJob for GlueJob {
    async fn start(&self, start: &Start<'_>) -> Result<Started, JobError> {
        let named = named(&self.spec.arguments, is_reserved_by_glue, start.input())?.into_iter();
        let named = named.map(|(name, value)| (format!("--{name}"), Value::String(value)));
        let arguments: Map<String, Value> = named.chain([(TASK.to_owned(), json!(start.key().as_str()))]).collect();
        let request = json!({"JobName": self.spec.job_name, "Arguments": arguments});
        match self.call_to_start(start, "StartJobRun", &request, Repeat::No).await? {
            Ok(answer) => started("StartJobRun", &answer, "/JobRunId"),
            // As many runs as the job or the account may have.
            Err(error)
                if error.is("ConcurrentRunsExceededException") || error.is("ResourceNumberLimitExceededException") =>
            {
                Err(error.into_not_now().of_start())
            }
            Err(error) => Err(error.of_start()),
        }
    }

    fn again(&self) -> Again {
        Again::AnotherJob
    }

    async fn find(&self, key: &JobKey, _input: &Value) -> Result<Option<JobRef>, JobError> {
        let runs = self.pages(&LIST, &json!({"JobName": self.spec.job_name, "MaxResults": PAGE})).await?;
        let is_ours = |run: &&Value| text(run, &format!("/Arguments/{TASK}")) == Some(key.as_str());
        Ok(runs.iter().find(is_ours).and_then(|run| text(run, "/Id")).map(JobRef::new))
    }

    async fn poll(&self, job: &JobRef) -> Result<Poll, JobError> {
        let request = json!({"JobName": self.spec.job_name, "RunId": job});
        let answer = match self.call("GetJobRun", &request, Repeat::Yes).await {
            Ok(answer) => answer,
            Err(error) if error.is("EntityNotFoundException") => {
                return Err(JobError::NotFound(format!(
                    "Glue does not know the run {job} of `{}` any more",
                    self.spec.job_name
                )));
            }
            Err(error) => return Err(error.later()),
        };
        let state = text(&answer, "/JobRun/JobRunState").unwrap_or("unknown");
        let seconds = answer.pointer("/JobRun/ExecutionTime").and_then(Value::as_f64).unwrap_or_default();
        let what = json!({"run": job, "state": state, "executionSeconds": seconds});
        Ok(match state {
            "SUCCEEDED" => Poll::Done(Ok(output::succeeded(&what))),
            "FAILED" | "ERROR" | "TIMEOUT" | "STOPPED" | "EXPIRED" => {
                let why = text(&answer, "/JobRun/ErrorMessage").unwrap_or("Glue does not say why");
                Poll::Done(Ok(output::failed(&format!("the run ended as {state}: {why}"), what)))
            }
            _ => Poll::Going(Some(JobProgress { done: seconds, total: None, message: state.to_lowercase() })),
        })
    }

    async fn stop(&self, job: &JobRef, _why: &str) -> Result<(), JobError> {
        let request = json!({"JobName": self.spec.job_name, "JobRunIds": [job]});
        let answer = self.ask("BatchStopJobRun", &request).await?;
        // It has ended if it is not stopped.
        match list(&answer, "/Errors").next() {
            None => Ok(()),
            Some(error) => match self.poll(job).await {
                Ok(Poll::Done(_)) => Ok(()),
                Err(JobError::NotFound(why)) => Err(JobError::NotFound(why)),
                _ => Err(JobError::Unanswered(format!("BatchStopJobRun: {error}"))),
            },
        }
    }
}
