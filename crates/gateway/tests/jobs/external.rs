//! Requests and error codes, compared with the models of the services that AWS's own clients are made from.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use longhaul_gateway::jobs::{EcsTask, EcsTaskSpec};
use serde_json::{Value, json};

use crate::kinds::{aws, each, ecs_spec, executions};
use crate::permissions::{exercise, exercise_executions};
use crate::stand_in::{Asked, StandIn, ok, refusal};
use crate::tool::{MINUTE, call, call_within};

/// The answer of the models: see `external.py`.
fn models(question: &Value) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("../../.cache/tools/aws/bin/python");
    assert!(python.exists(), "run scripts/setup-tools.sh aws");
    let mut command = Command::new(python);
    command.arg(root.join("tests/jobs/external.py")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut asked = command.spawn().unwrap();
    asked.stdin.take().unwrap().write_all(question.to_string().as_bytes()).unwrap();
    let said = asked.wait_with_output().unwrap();
    assert!(said.status.success());
    serde_json::from_slice(&said.stdout).unwrap()
}

/// The service's name in botocore.
fn service_of(kind: &str) -> &str {
    if kind == "executions" { "stepfunctions" } else { kind }
}

fn requests(kind: &str, service: &StandIn) -> Vec<Value> {
    let request = |asked: Asked| {
        let operation = asked.operation().rsplit('/').next().unwrap().to_owned();
        json!({"service": service_of(kind), "operation": operation, "input": asked.body})
    };
    service.asked().into_iter().map(request).collect()
}

async fn all_requests() -> Vec<Value> {
    let mut all = requests("executions", &exercise_executions().await);
    for kind in each() {
        all.extend(requests(kind.name, &exercise(kind).await));
    }
    let spec = EcsTaskSpec {
        security_groups: vec!["sg-1".to_owned()],
        assign_public_ip: true,
        capacity_providers: vec!["FARGATE_SPOT".to_owned()],
        ..ecs_spec()
    };
    let ecs = each().find(|kind| kind.name == "ecs").unwrap();
    let service = ecs.service(|kind, _| ok((kind.done)())).await;
    call(EcsTask::new(aws(&service), spec), json!({})).to_end().await.unwrap();
    all.extend(requests("ecs", &service));
    all
}

/// The codes that the source of a kind names.
fn codes(service: &str, source: &str) -> Vec<Value> {
    let texts = source.split('"').skip(1).step_by(2);
    let ends = ["Exception", "Exceeded", "AlreadyExists", "DoesNotExist", "Deleting"];
    let is_code = |text: &&str| {
        ends.iter().any(|end| text.ends_with(end)) && text.chars().all(|next| next.is_ascii_alphanumeric())
    };
    texts.filter(is_code).map(|code| json!({"service": service, "code": code})).collect()
}

#[tokio::test]
async fn requests_and_error_codes_are_those_of_the_services() {
    let sources = [
        ("stepfunctions", include_str!("../../src/jobs/step_functions.rs")),
        ("batch", include_str!("../../src/jobs/batch.rs")),
        ("codebuild", include_str!("../../src/jobs/codebuild.rs")),
        ("ecs", include_str!("../../src/jobs/ecs.rs")),
        ("glue", include_str!("../../src/jobs/glue.rs")),
    ];
    let codes: Vec<Value> = sources.iter().flat_map(|(service, source)| codes(service, source)).collect();
    assert!(codes.len() >= 9, "{codes:?}");
    let said = models(&json!({"requests": all_requests().await, "codes": codes}));
    assert_eq!(said["faults"], json!([]));
    // A request that is wrong is found.
    let wrong = json!({"cluster": "c", "startedBye": "x", "desiredStatus": "DONE"});
    let wrong = json!([{"service": "ecs", "operation": "ListTasks", "input": wrong}]);
    let said = models(&json!({"requests": wrong, "codes": [{"service": "ecs", "code": "NoSuchException"}]}));
    assert_eq!(said["faults"].as_array().unwrap().len(), 2, "{said}");
}

/// The meaning of a start that is answered with an error of the service.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    NotNow,
    NobodyKnows,
    Refused,
}

/// The errors of starts that do not end a call. All others do.
fn meaning(kind: &str, code: &str) -> Meaning {
    match code {
        "ExecutionLimitExceeded"
        | "KmsThrottlingException"
        | "ResourceNumberLimitExceededException"
        | "ConcurrentRunsExceededException"
        | "AccountLimitExceededException" => Meaning::NotNow,
        // A start that is the same however often it is made is made again.
        "ServerException" if kind == "ecs" => Meaning::NotNow,
        "ServerException" | "InternalServiceException" | "OperationTimeoutException" => Meaning::NobodyKnows,
        _ => Meaning::Refused,
    }
}

#[tokio::test]
async fn every_error_of_a_start_means_what_the_services_say() {
    let said = models(&json!({"requests": all_requests().await, "codes": []}));
    let starts = [
        ("executions", "StartExecution", "StartExecution"),
        ("batch", "SubmitJob", "POST /v1/submitjob"),
        ("codebuild", "StartBuild", "StartBuild"),
        ("ecs", "RunTask", "RunTask"),
        ("glue", "StartJobRun", "StartJobRun"),
    ];
    let mut seen = 0;
    for (kind, name, operation) in starts {
        let codes = said["errors"][service_of(kind)][name].as_array().unwrap();
        // That one is looked for, and another test says how.
        for code in codes.iter().map(|code| code.as_str().unwrap()).filter(|code| *code != "ExecutionAlreadyExists") {
            assert_eq!(meaning_of(kind, operation, code.to_owned()).await, meaning(kind, code), "{name}: {code}");
            seen += 1;
        }
    }
    assert!(seen > 20, "{said}");
}

/// The driver's meaning of a code, with any status.
async fn meaning_of(kind: &str, operation: &'static str, code: String) -> Meaning {
    let service = StandIn::new(move |asked: &Asked, _| match asked.operation() {
        asked if asked == operation => refusal(&code, "an error of the service"),
        asked if asked == "DescribeStateMachine" => ok(json!({"type": "STANDARD"})),
        _ => ok(json!({})),
    })
    .await;
    let job = match each().find(|known| known.name == kind) {
        Some(kind) => (kind.job)(&service),
        None => executions(&service),
    };
    let run = call_within(MINUTE, job, json!({})).to_end().await.unwrap();
    if run.steps().iter().any(|step| *step == "outside job looked for") {
        return Meaning::NobodyKnows;
    }
    // One call of an operation makes three requests at most.
    if service.times(operation) > 3 { Meaning::NotNow } else { Meaning::Refused }
}
