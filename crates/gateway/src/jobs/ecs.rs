//! Tasks of Amazon ECS: containers that are run once.

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::jobs::arguments::{is_reserved_variable, named};
use crate::jobs::aws::{AwsError, AwsJob, Pages, Protocol, Repeat, Service, Spec, list, text};
use crate::jobs::job::{Again, ExternalJob, JobError, JobKey, JobProgress, JobRef, Poll, Start, Started};
use crate::jobs::output;
use crate::jobs::rights::Rights;

const LIST: Pages = Pages { operation: "ListTasks", items: "/taskArns", token: "nextToken" };

/// As many tasks as AWS describes at a time.
const DESCRIBED: usize = 100;

/// The task definition that is run, and the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EcsTaskSpec {
    /// The name or the ARN of the cluster.
    pub cluster: String,
    /// The family, perhaps with a revision, or the ARN of the task definition.
    pub task_definition: String,
    /// The container whose environment gets the arguments.
    pub container: String,
    /// The subnets of a task on Fargate; none for one on the cluster's own machines.
    pub subnets: Vec<String>,
    /// Its security groups.
    pub security_groups: Vec<String>,
    /// Whether it gets a public address. A task in a public subnet without NAT needs one to load its image.
    pub assign_public_ip: bool,
    /// The capacity providers that it may run on, all alike. If there are none, it is Fargate where there are subnets.
    pub capacity_providers: Vec<String>,
    /// The roles that the task definition names. The identity that runs it must be allowed to pass them on.
    pub roles: Vec<String>,
    /// The arguments that callers may pass.
    pub arguments: Vec<String>,
}

impl EcsTaskSpec {
    /// Whether a variable of this name decides which code runs, or belongs to AWS or the driver: no caller may set it.
    #[must_use]
    pub fn reserves(name: &str) -> bool {
        is_reserved_variable(name)
    }

    /// The permissions that running it needs.
    #[must_use]
    pub fn rights(&self) -> Vec<Rights> {
        let definition = arn(&self.task_definition, "task-definition");
        let last = definition.rsplit('/').next().unwrap_or_default();
        let definition = if last.contains(':') { definition } else { format!("{definition}:*") };
        let cluster = arn(&self.cluster, "cluster");
        let tasks = format!("{}/*", cluster.replacen(":cluster/", ":task/", 1));
        let mut rights = vec![
            Rights::new(&["ecs:RunTask"], vec![definition]),
            Rights::new(&["ecs:DescribeTasks", "ecs:StopTask"], vec![tasks]),
            // For lists, ECS knows the cluster only as a condition.
            Rights::new(&["ecs:ListTasks"], vec!["*".to_owned()]).only_if(json!({"ArnLike": {"ecs:cluster": cluster}})),
        ];
        let roles = &self.roles;
        rights.extend((!roles.is_empty()).then(|| Rights::new(&["iam:PassRole"], roles.clone())));
        rights
    }

    /// The task definition without its revision.
    fn family(&self) -> &str {
        let name = self.task_definition.rsplit('/').next().unwrap_or_default();
        name.split(':').next().unwrap_or_default()
    }
}

fn arn(name: &str, kind: &str) -> String {
    if name.starts_with("arn:") { name.to_owned() } else { format!("arn:aws:ecs:*:*:{kind}/{name}") }
}

/// Containers that are run once: the arguments of a call that the specification names are environment variables of one
/// of them. ECS keeps no output: the result says how the containers ended.
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

    fn region(&self) -> Option<&str> {
        self.cluster.strip_prefix("arn:")?.split(':').nth(2).filter(|region| !region.is_empty())
    }
}

impl EcsTask {
    fn request(&self, key: &JobKey, named: Vec<(String, String)>) -> Value {
        let spec = &self.spec;
        let mut variables: Vec<Value> =
            named.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        variables.push(json!({"name": "LONGHAUL_TASK", "value": key.as_str()}));
        let mut request = json!({
            "cluster": spec.cluster,
            "taskDefinition": spec.task_definition,
            "clientToken": key.task(),
            "startedBy": key.task(),
            "count": 1,
            "overrides": {"containerOverrides": [{"name": spec.container, "environment": variables}]},
        });
        let Some(members) = request.as_object_mut() else { return request };
        if !spec.subnets.is_empty() {
            let public = if spec.assign_public_ip { "ENABLED" } else { "DISABLED" };
            let network = json!({
                "subnets": spec.subnets, "securityGroups": spec.security_groups, "assignPublicIp": public,
            });
            members.insert("networkConfiguration".to_owned(), json!({"awsvpcConfiguration": network}));
        }
        if !spec.capacity_providers.is_empty() {
            let strategy = spec.capacity_providers.iter().map(|name| json!({"capacityProvider": name, "weight": 1}));
            members.insert("capacityProviderStrategy".to_owned(), strategy.collect());
        } else if !spec.subnets.is_empty() {
            members.insert("launchType".to_owned(), json!("FARGATE"));
        }
        request
    }
}

#[async_trait]
impl ExternalJob for EcsTask {
    async fn start(&self, start: &Start<'_>) -> Result<Started, JobError> {
        let named = named(&self.spec.arguments, is_reserved_variable, start.input())?;
        let request = self.request(start.key(), named);
        let answer = self.call_to_start(start, "RunTask", &request, Repeat::Yes).await?.map_err(AwsError::of_start)?;
        if let Some(arn) = text(&answer, "/tasks/0/taskArn") {
            return Ok(Started::Job(JobRef::new(arn)));
        }
        let reason = text(&answer, "/failures/0/reason").unwrap_or("ECS does not say why");
        let words = format!("RunTask: no task was started: {reason}");
        // There is no room for it now, or never.
        let may_be_later = reason.starts_with("RESOURCE:") || reason.contains("apacity");
        Err(if may_be_later { JobError::NotNow(words) } else { JobError::Refused(words) })
    }

    fn again(&self) -> Again {
        Again::SameJob
    }

    /// Lists the ECS tasks that were started with its key and are to run. If there are none, it searches those that
    /// were stopped within the last hour. AWS allows no other filter next to `startedBy`, and without a status that
    /// filter lists only tasks that are to run.
    async fn find(&self, key: &JobKey, _input: &Value) -> Result<Option<JobRef>, JobError> {
        let Self { spec, .. } = self;
        let running = self.ask("ListTasks", &json!({"cluster": spec.cluster, "startedBy": key.task()})).await?;
        if let Some(arn) = text(&running, "/taskArns/0") {
            return Ok(Some(JobRef::new(arn)));
        }
        let stopped = json!({"cluster": spec.cluster, "family": spec.family(), "desiredStatus": "STOPPED"});
        let stopped = self.pages(&LIST, &stopped).await?;
        for some in stopped.chunks(DESCRIBED) {
            let described = self.ask("DescribeTasks", &json!({"cluster": spec.cluster, "tasks": some})).await?;
            let found = list(&described, "/tasks").find(|task| text(task, "/startedBy") == Some(key.task()));
            if let Some(arn) = found.and_then(|task| text(task, "/taskArn")) {
                return Ok(Some(JobRef::new(arn)));
            }
        }
        Ok(None)
    }

    async fn poll(&self, job: &JobRef) -> Result<Poll, JobError> {
        let request = json!({"cluster": self.spec.cluster, "tasks": [job]});
        let answer = self.ask("DescribeTasks", &request).await?;
        let Some(task) = list(&answer, "/tasks").next() else {
            return Err(JobError::NotFound(format!(
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
        Ok(Poll::Done(Ok(match of_ours {
            Some(container) if is_good(container) => output::succeeded(&what),
            Some(container) => {
                let code =
                    container.get("exitCode").map_or_else(|| "no code".to_owned(), |code| format!("code {code}"));
                let name = &self.spec.container;
                output::failed(&format!("the container `{name}` ended with {code}: {reason}"), what)
            }
            None => output::failed(&format!("the task has no container `{}`: {reason}", self.spec.container), what),
        })))
    }

    async fn stop(&self, job: &JobRef, why: &str) -> Result<(), JobError> {
        let reason: String = why.chars().take(255).collect();
        let request = json!({"cluster": self.spec.cluster, "task": job, "reason": reason});
        match self.call("StopTask", &request, Repeat::Yes).await {
            Ok(_) => Ok(()),
            // It is not there yet, or has ended and is forgotten.
            Err(error) if error.is("InvalidParameterException") => Err(JobError::NotFound(error.to_string())),
            Err(error) => Err(error.later()),
        }
    }
}
