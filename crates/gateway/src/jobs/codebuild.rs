//! Builds of AWS CodeBuild.

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use crate::jobs::arguments::{is_reserved_variable, named};
use crate::jobs::aws::{AwsJob, Protocol, Repeat, Service, Spec, list, started, text};
use crate::jobs::job::{Again, ExternalJob, JobError, JobKey, JobProgress, JobRef, Poll, Start, Started};
use crate::jobs::output;
use crate::jobs::rights::Rights;

/// The variable that says in a build which task it is for.
const TASK: &str = "LONGHAUL_TASK";

/// A project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeBuildSpec {
    /// The name of the project.
    pub project: String,
    /// The arguments that callers may pass.
    pub arguments: Vec<String>,
}

impl CodeBuildSpec {
    /// Whether a variable of this name decides which code runs, or belongs to AWS or the driver: no caller may set it.
    #[must_use]
    pub fn reserves(name: &str) -> bool {
        is_reserved_variable(name)
    }

    /// The IAM permissions that running it needs.
    #[must_use]
    pub fn rights(&self) -> Vec<Rights> {
        let actions = [
            "codebuild:BatchGetBuilds",
            "codebuild:ListBuildsForProject",
            "codebuild:StartBuild",
            "codebuild:StopBuild",
        ];
        vec![Rights::new(&actions, vec![format!("arn:aws:codebuild:*:*:project/{}", self.project)])]
    }
}

/// Builds of a project. The arguments of a call that the specification names are environment variables. The variables
/// that the build exports are its output.
///
/// CodeBuild recognises a repeated start for five minutes only, which is less than a crash may take. The newest 100
/// builds of the project are searched for one whose answer was lost.
pub type CodeBuild = AwsJob<CodeBuildSpec>;

impl Spec for CodeBuildSpec {
    const SERVICE: Service = Service {
        id: "CODEBUILD",
        host: "codebuild",
        protocol: Protocol::Json { content_type: "application/x-amz-json-1.1", target: "CodeBuild_20161006" },
    };
}

fn variable(name: &str, value: &str) -> Value {
    json!({"name": name, "value": value, "type": "PLAINTEXT"})
}

#[async_trait]
impl ExternalJob for CodeBuild {
    async fn start(&self, start: &Start<'_>) -> Result<Started, JobError> {
        let (key, named) = (start.key(), named(&self.spec.arguments, is_reserved_variable, start.input())?);
        let mut variables: Vec<Value> = named.iter().map(|(name, value)| variable(name, value)).collect();
        variables.push(variable(TASK, key.as_str()));
        let request = json!({
            "projectName": self.spec.project, "idempotencyToken": key.task(), "environmentVariablesOverride": variables,
        });
        match self.call_to_start(start, "StartBuild", &request, Repeat::Yes).await? {
            Ok(answer) => started("StartBuild", &answer, "/build/id"),
            // As many builds as the account may run.
            Err(error) if error.is("AccountLimitExceededException") => Err(error.into_not_now().of_start()),
            Err(error) => Err(error.of_start()),
        }
    }

    fn again(&self) -> Again {
        Again::AnotherJob
    }

    async fn find(&self, key: &JobKey, _input: &Value) -> Result<Option<JobRef>, JobError> {
        let request = json!({"projectName": self.spec.project, "sortOrder": "DESCENDING"});
        let listed = self.ask("ListBuildsForProject", &request).await?;
        let ids: Vec<&Value> = list(&listed, "/ids").take(100).collect();
        if ids.is_empty() {
            return Ok(None);
        }
        let builds = self.ask("BatchGetBuilds", &json!({"ids": ids})).await?;
        let is_ours = |build: &&Value| {
            list(build, "/environment/environmentVariables")
                .any(|variable| text(variable, "/name") == Some(TASK) && text(variable, "/value") == Some(key.as_str()))
        };
        Ok(list(&builds, "/builds").find(is_ours).and_then(|build| text(build, "/id")).map(JobRef::new))
    }

    async fn poll(&self, job: &JobRef) -> Result<Poll, JobError> {
        let answer = self.ask("BatchGetBuilds", &json!({"ids": [job]})).await?;
        let Some(build) = list(&answer, "/builds").next() else {
            return Err(JobError::NotFound(format!("CodeBuild does not know the build {job} any more")));
        };
        let exported = list(build, "/exportedEnvironmentVariables")
            .filter_map(|variable| Some((text(variable, "/name")?.to_owned(), variable.get("value")?.clone())));
        let exported: Map<String, Value> = exported.collect();
        let (status, log) = (text(build, "/buildStatus").unwrap_or("unknown"), text(build, "/logs/deepLink"));
        Ok(match status {
            "SUCCEEDED" => Poll::Done(Ok(output::succeeded(&Value::Object(exported)))),
            "IN_PROGRESS" | "unknown" => {
                let phases = list(build, "/phases").count();
                let done = f64::from(u32::try_from(phases).unwrap_or_default());
                let phase = text(build, "/currentPhase").unwrap_or_default().to_lowercase();
                Poll::Going(Some(JobProgress { done, total: None, message: phase }))
            }
            // FAILED, FAULT, TIMED_OUT, STOPPED
            _ => {
                let messages = list(build, "/phases").flat_map(|phase| list(phase, "/contexts"));
                let why: Vec<&str> = messages.filter_map(|context| text(context, "/message")).collect();
                let words = format!("the build ended as {status}: {}", why.join("; "));
                Poll::Done(Ok(output::failed(
                    &words,
                    json!({"build": job, "status": status, "log": log, "exported": exported}),
                )))
            }
        })
    }

    async fn stop(&self, job: &JobRef, _why: &str) -> Result<(), JobError> {
        match self.call("StopBuild", &json!({"id": job}), Repeat::Yes).await {
            Ok(_) => Ok(()),
            Err(error) if error.is("ResourceNotFoundException") => Err(JobError::NotFound(error.to_string())),
            Err(error) => Err(error.later()),
        }
    }
}
