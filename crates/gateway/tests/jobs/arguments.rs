//! Arguments that callers cannot pass to a job.

use longhaul_core::Status;
use longhaul_gateway::jobs::{EcsTask, EcsTaskSpec, GlueJob, GlueJobSpec};
use serde_json::{Value, json};

use crate::kinds::{aws, each, ecs_spec, glue_spec};
use crate::stand_in::ok;
use crate::tool::{HOUR, call, call_within};

#[tokio::test]
async fn arguments_that_load_code_or_that_the_configuration_does_not_name_start_no_job() {
    for kind in each().filter(|kind| kind.name != "batch") {
        let service = kind.service(|kind, _| ok((kind.done)())).await;
        for name in [
            "year",
            "LD_PRELOAD",
            "NODE_OPTIONS",
            "BASH_ENV",
            "PATH",
            "LONGHAUL_TASK",
            "longhaul_task",
            "scriptLocation",
            "extra-py-files",
            "TempDir",
            "additional-python-modules",
            "AWS_ENDPOINT_URL",
            "",
        ] {
            let run =
                call_within(HOUR, (kind.job)(&service), json!({"month": "06", name: "x"})).to_end().await.unwrap();
            let error = run.error().unwrap().message;
            assert!(error.contains(&format!("the argument `{name}` cannot be passed to the job")), "{error}");
            assert_eq!(run.status(), Status::Failed);
        }
        assert!(service.asked().is_empty(), "{}: {:?}", kind.name, service.operations());
    }
}

#[tokio::test]
async fn reserved_names_are_refused_even_if_they_are_named() {
    let service = each().next().unwrap().service(|kind, _| ok((kind.done)())).await;
    let reserved = |name: &str| vec![name.to_owned()];
    let ecs = EcsTaskSpec { arguments: reserved("LD_PRELOAD"), ..ecs_spec() };
    let glue = GlueJobSpec { arguments: reserved("scriptLocation"), ..glue_spec() };
    let of = |name: &str| json!({name: "x"});
    let runs = [
        call(EcsTask::new(aws(&service), ecs), of("LD_PRELOAD")).to_end().await.unwrap(),
        call(GlueJob::new(aws(&service), glue), of("scriptLocation")).to_end().await.unwrap(),
    ];
    for run in runs {
        assert!(run.error().unwrap().message.contains("its name is reserved"), "{:?}", run.error());
    }
    assert!(service.asked().is_empty());
}

#[tokio::test]
async fn a_container_gets_its_network_and_capacity_as_configured() {
    let kind = each().find(|kind| kind.name == "ecs").unwrap();
    let service = kind.service(|kind, _| ok((kind.done)())).await;
    let spec = EcsTaskSpec {
        assign_public_ip: true,
        capacity_providers: ["FARGATE_SPOT", "FARGATE"].map(str::to_owned).to_vec(),
        ..ecs_spec()
    };
    for spec in [ecs_spec(), spec] {
        call(EcsTask::new(aws(&service), spec), json!({})).to_end().await.unwrap();
    }
    let starts: Vec<Value> =
        service.asked().into_iter().filter(|asked| asked.operation() == "RunTask").map(|asked| asked.body).collect();
    let public = |start: &Value| start["networkConfiguration"]["awsvpcConfiguration"]["assignPublicIp"].clone();
    assert_eq!((public(&starts[0]), &starts[0]["launchType"]), (json!("DISABLED"), &json!("FARGATE")));
    assert_eq!((public(&starts[1]), starts[1].get("launchType")), (json!("ENABLED"), None));
    let strategy = json!([
        {"capacityProvider": "FARGATE_SPOT", "weight": 1}, {"capacityProvider": "FARGATE", "weight": 1},
    ]);
    assert_eq!(starts[1]["capacityProviderStrategy"], strategy);
}
