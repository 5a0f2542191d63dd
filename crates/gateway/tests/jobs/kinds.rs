//! The services of AWS that run jobs, as stand-ins answer for them.

use std::sync::Arc;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use longhaul_gateway::jobs::{
    Aws, BatchJob, BatchJobSpec, CodeBuild, CodeBuildSpec, EcsTask, EcsTaskSpec, ExternalJob, GlueJob, GlueJobSpec,
    Rights, StateMachine, StepFunctions,
};
use serde_json::{Value, json};

use crate::stand_in::{Asked, Reply, StandIn, ok};

pub(crate) fn aws(service: &StandIn) -> Arc<Aws> {
    aws_with(service, Credentials::new("test", "test", None, None, "tests"))
}

/// The same with other credentials.
pub(crate) fn aws_with(service: &StandIn, credentials: impl ProvideCredentials + 'static) -> Arc<Aws> {
    let config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-west-1"))
        .endpoint_url(&service.url)
        .credentials_provider(SharedCredentialsProvider::new(credentials));
    Aws::new(config.build())
}

/// One of the four kinds: its operations, and what its service answers.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) job: fn(&StandIn) -> Arc<dyn ExternalJob>,
    pub(crate) rights: fn() -> Vec<Rights>,
    pub(crate) start: &'static str,
    pub(crate) stop: &'static str,
    pub(crate) started: fn() -> Value,
    pub(crate) going: fn() -> Value,
    pub(crate) done: fn() -> Value,
    pub(crate) failed: fn() -> Value,
    /// The message of the failure.
    pub(crate) why: &'static str,
    /// The answer to a search for the task of this key.
    pub(crate) found: fn(&str) -> Value,
    /// The code for "not now" that its name does not tell.
    pub(crate) not_now: &'static str,
}

/// The arguments that the tests pass.
pub(crate) fn named() -> Vec<String> {
    ["month", "rows"].map(str::to_owned).to_vec()
}

fn batch_spec() -> BatchJobSpec {
    BatchJobSpec { job_queue: "nightly".to_owned(), job_definition: "load:3".to_owned() }
}

fn codebuild_spec() -> CodeBuildSpec {
    CodeBuildSpec { project: "site".to_owned(), arguments: named() }
}

pub(crate) fn ecs_spec() -> EcsTaskSpec {
    EcsTaskSpec {
        cluster: "jobs".to_owned(),
        task_definition: "load".to_owned(),
        container: "main".to_owned(),
        subnets: vec!["subnet-1".to_owned()],
        arguments: named(),
        ..EcsTaskSpec::default()
    }
}

pub(crate) fn glue_spec() -> GlueJobSpec {
    GlueJobSpec { job_name: "sales".to_owned(), arguments: named() }
}

/// The ARN of the state machine of the tests.
pub(crate) const MACHINE: &str = "arn:aws:states:eu-west-1:123456789012:stateMachine:etl";

pub(crate) fn executions(service: &StandIn) -> Arc<dyn ExternalJob> {
    Arc::new(StepFunctions::new(aws(service), StateMachine::of_arn(MACHINE).unwrap()))
}

fn batch() -> Kind {
    Kind {
        name: "batch",
        job: |service| Arc::new(BatchJob::new(aws(service), batch_spec())),
        rights: || batch_spec().rights(),
        start: "POST /v1/submitjob",
        stop: "POST /v1/terminatejob",
        started: || json!({"jobId": "b-1"}),
        going: || json!({"jobs": [{"jobId": "b-1", "status": "RUNNING"}]}),
        done: || json!({"jobs": [{"jobId": "b-1", "status": "SUCCEEDED", "container": {"exitCode": 0}}]}),
        failed: || {
            json!({"jobs": [{"jobId": "b-1", "status": "FAILED", "statusReason":
            "Essential container exited"}]})
        },
        why: "the job failed: Essential container exited",
        found: |key| {
            let task = key.split('.').next_back().unwrap();
            json!({"jobSummaryList": [{"jobId": "b-1", "jobName": format!("longhaul-{task}")}]})
        },
        not_now: "TooManyRequestsException",
    }
}

fn codebuild() -> Kind {
    Kind {
        name: "codebuild",
        job: |service| Arc::new(CodeBuild::new(aws(service), codebuild_spec())),
        rights: || codebuild_spec().rights(),
        start: "StartBuild",
        stop: "StopBuild",
        started: || json!({"build": {"id": "site:1"}}),
        going: || {
            json!({"builds": [{"id": "site:1", "buildStatus": "IN_PROGRESS", "currentPhase": "INSTALL", "phases":
            [{}]}]})
        },
        done: || {
            json!({"builds": [{"id": "site:1", "buildStatus": "SUCCEEDED",
                    "exportedEnvironmentVariables": [{"name": "URL", "value": "https://site"}]}]})
        },
        failed: || {
            json!({"builds": [{"id": "site:1", "buildStatus": "FAILED", "phases":
            [{"contexts": [{"message": "exit status 1"}]}]}]})
        },
        why: "the build ended as FAILED: exit status 1",
        found: |key| {
            let variables = json!([{"name": "LONGHAUL_TASK", "value": key}]);
            json!({"ids": ["site:1"], "builds": [{"id": "site:1", "environment": {"environmentVariables": variables}}]})
        },
        not_now: "AccountLimitExceededException",
    }
}

fn ecs() -> Kind {
    Kind {
        name: "ecs",
        job: |service| Arc::new(EcsTask::new(aws(service), ecs_spec())),
        rights: || ecs_spec().rights(),
        start: "RunTask",
        stop: "StopTask",
        started: || json!({"tasks": [{"taskArn": "arn:task/1"}]}),
        going: || json!({"tasks": [{"lastStatus": "PENDING"}]}),
        done: || json!({"tasks": [{"lastStatus": "STOPPED", "containers": [{"name": "main", "exitCode": 0}]}]}),
        failed: || {
            json!({"tasks": [{"lastStatus": "STOPPED", "stoppedReason": "Essential container in task exited",
                    "containers": [{"name": "main", "exitCode": 137}]}]})
        },
        why: "the container `main` ended with code 137: Essential container in task exited",
        found: |_key| json!({"taskArns": ["arn:task/1"]}),
        not_now: "ThrottlingException",
    }
}

fn glue() -> Kind {
    Kind {
        name: "glue",
        job: |service| Arc::new(GlueJob::new(aws(service), glue_spec())),
        rights: || glue_spec().rights(),
        start: "StartJobRun",
        stop: "BatchStopJobRun",
        started: || json!({"JobRunId": "jr_1"}),
        going: || json!({"JobRun": {"JobRunState": "RUNNING", "ExecutionTime": 12}}),
        done: || json!({"JobRun": {"JobRunState": "SUCCEEDED", "ExecutionTime": 60}}),
        failed: || json!({"JobRun": {"JobRunState": "FAILED", "ErrorMessage": "no such bucket"}}),
        why: "the run ended as FAILED: no such bucket",
        found: |key| json!({"JobRuns": [{"Id": "jr_0"}, {"Id": "jr_1", "Arguments": {"--longhaul_task": key}}]}),
        not_now: "ConcurrentRunsExceededException",
    }
}

pub(crate) const POLLS: [&str; 4] = ["POST /v1/describejobs", "BatchGetBuilds", "DescribeTasks", "GetJobRun"];

impl Kind {
    /// Its answer to a start. Notes the key of the start.
    pub(crate) fn starts(&self, started: &mut Option<String>, asked: &Asked) -> Value {
        *started = Some(key_in(asked));
        (self.started)()
    }

    /// Its answer to a poll when all is done. CodeBuild is searched by the same operation, so the key is in it.
    pub(crate) fn seen(&self, key: &str) -> Value {
        let mut seen = (self.done)();
        if self.name == "codebuild" {
            seen["builds"][0]["environment"] = (self.found)(key)["builds"][0]["environment"].clone();
        }
        seen
    }

    /// Its service, which answers polls as `poll` says.
    pub(crate) async fn service(&'static self, poll: fn(&'static Self, usize) -> Reply) -> StandIn {
        StandIn::new(move |asked: &Asked, before| match asked.operation() {
            operation if operation == self.start => ok((self.started)()),
            operation if POLLS.contains(&operation.as_str()) => poll(self, before),
            _ => ok(json!({})),
        })
        .await
    }
}

pub(crate) fn each() -> impl Iterator<Item = &'static Kind> {
    Vec::leak(vec![batch(), codebuild(), ecs(), glue()]).iter()
}

/// The key in a request to start.
pub(crate) fn key_in(start: &Asked) -> String {
    let body = start.body.to_string();
    let at = body.find('.').unwrap();
    body.get(at - 43..at + 37).unwrap().to_owned()
}
