//! Tasks of Amazon ECS: containers that are run once.

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::aws::{AwsError, AwsJob, Protocol, Repeat, Rights, Service, Spec, arguments, list, text};
use crate::job::{Again, JobError, JobKey, JobProgress, JobRef, OutsideJob, Poll};
use crate::output;

/// What is run, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EcsTaskSpec {
    /// The name of the cluster.
    pub cluster: String,
    /// The family, perhaps with a revision.
    pub task_definition: String,
    /// The container whose environment gets the arguments.
    pub container: String,
    /// The subnets of a task on Fargate; none for one on the cluster's own machines.
    pub subnets: Vec<String>,
    /// Its security groups.
    pub security_groups: Vec<String>,
    /// The roles that the task definition names, which whoever runs it has to be allowed to pass on.
    pub roles: Vec<String>,
}

impl EcsTaskSpec {
    /// What whoever runs it has to be allowed.
    #[must_use]
    pub fn rights(&self) -> Vec<Rights> {
        let Self { cluster, task_definition, roles, .. } = self;
        let revision = if task_definition.contains(':') { "" } else { ":*" };
        let definition = format!("arn:aws:ecs:*:*:task-definition/{task_definition}{revision}");
        let mut rights = vec![
            Rights::new(&["ecs:RunTask"], vec![definition]),
            Rights::new(&["ecs:DescribeTasks", "ecs:StopTask"], vec![format!("arn:aws:ecs:*:*:task/{cluster}/*")]),
        ];
        rights.extend((!roles.is_empty()).then(|| Rights::new(&["iam:PassRole"], roles.clone())));
        rights
    }
}

/// Containers that are run once: a call's arguments are environment variables of one of them. ECS keeps no output: the
/// result says how the containers ended.
///
/// A start has a token, so that a repeated one is the same task.
pub type EcsTask = AwsJob<EcsTaskSpec>;

impl Spec for EcsTaskSpec {
    const SERVICE: Service = Service {
        id: "ECS",
        host: "ecs",
        protocol: Protocol::Json {
            content_type: "application/x-amz-json-1.1",
            target: "AmazonEC2ContainerServiceV20141113",
        },
    };
}

impl EcsTask {
    fn request(&self, key: &JobKey, input: &Value) -> Value {
        let mut variables: Vec<Value> =
            arguments(input).map(|(name, value)| json!({"name": name, "value": value})).collect();
        variables.push(json!({"name": "LONGHAUL_TASK", "value": key.as_str()}));
        let mut request = json!({
            "cluster": self.spec.cluster,
            "taskDefinition": self.spec.task_definition,
            "clientToken": key.task(),
            "startedBy": key.task(),
            "count": 1,
            "overrides": {"containerOverrides": [{"name": self.spec.container, "environment": variables}]},
        });
        if let (false, Some(request)) = (self.spec.subnets.is_empty(), request.as_object_mut()) {
            let network = json!({"subnets": self.spec.subnets, "securityGroups": self.spec.security_groups});
            request.insert("launchType".to_owned(), json!("FARGATE"));
            request.insert("networkConfiguration".to_owned(), json!({"awsvpcConfiguration": network}));
        }
        request
    }
}

#[async_trait]
impl OutsideJob for EcsTask {
    async fn start(&self, key: &JobKey, input: &Value) -> Result<JobRef, JobError> {
        let answer = self.call("RunTask", &self.request(key, input), Repeat::Yes).await.map_err(AwsError::of_start)?;
        if let Some(arn) = text(&answer, "/tasks/0/taskArn") {
            return Ok(JobRef::new(arn));
        }
        let reason = text(&answer, "/failures/0/reason").unwrap_or("ECS does not say why");
        let words = format!("RunTask: no task was started: {reason}");
        // There is no room for it at the moment, or never.
        let may_be_later = reason.starts_with("RESOURCE:") || reason.contains("apacity");
        Err(if may_be_later { JobError::NotNow(words) } else { JobError::Refused(words) })
    }

    fn again(&self) -> Again {
        Again::SameJob
    }

    /// Lists what was started with its key, running or stopped within the last hour.
    async fn find(&self, key: &JobKey, _input: &Value) -> Result<Option<JobRef>, JobError> {
        for status in ["RUNNING", "STOPPED"] {
            let request = json!({"cluster": self.spec.cluster, "startedBy": key.task(), "desiredStatus": status});
            let answer = self.ask("ListTasks", &request).await?;
            if let Some(arn) = text(&answer, "/taskArns/0") {
                return Ok(Some(JobRef::new(arn)));
            }
        }
        Ok(None)
    }

    async fn poll(&self, job: &JobRef) -> Result<Poll, JobError> {
        let request = json!({"cluster": self.spec.cluster, "tasks": [job]});
        let answer = self.ask("DescribeTasks", &request).await?;
        let Some(task) = list(&answer, "/tasks").next() else {
            return Err(JobError::Refused(format!(
                "ECS does not know the task {job} any more: it forgets them an hour after their end"
            )));
        };
        let status = text(task, "/lastStatus").unwrap_or("unknown");
        if status != "STOPPED" {
            return Ok(Poll::Going(Some(JobProgress { done: 0.0, total: None, message: status.to_lowercase() })));
        }
        let end = |container: &Value| {
            json!({
                "name": container.get("name"), "exitCode": container.get("exitCode"), "reason": container.get("reason"),
            })
        };
        let containers: Vec<Value> = list(task, "/containers").map(end).collect();
        let reason = text(task, "/stoppedReason").unwrap_or("ECS does not say why");
        let what = json!({"task": job, "reason": reason, "containers": containers});
        let is_good = |container: &Value| container.get("exitCode").and_then(Value::as_i64) == Some(0);
        let of_ours =
            list(task, "/containers").find(|container| text(container, "/name") == Some(&self.spec.container));
        Ok(Poll::Done(match of_ours {
            Some(container) if is_good(container) => output::succeeded(&what),
            Some(container) => {
                let code =
                    container.get("exitCode").map_or_else(|| "no code".to_owned(), |code| format!("code {code}"));
                let name = &self.spec.container;
                output::failed(&format!("the container `{name}` ended with {code}: {reason}"), what)
            }
            None => output::failed(&format!("the task has no container `{}`: {reason}", self.spec.container), what),
        }))
    }

    async fn stop(&self, job: &JobRef, why: &str) -> Result<(), JobError> {
        let reason: String = why.chars().take(255).collect();
        let request = json!({"cluster": self.spec.cluster, "task": job, "reason": reason});
        match self.call("StopTask", &request, Repeat::Yes).await {
            Ok(_) => Ok(()),
            // It has ended and is forgotten.
            Err(error) if error.is("InvalidParameterException") => Ok(()),
            Err(error) => Err(error.later()),
        }
    }
}
