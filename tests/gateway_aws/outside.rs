//! Executions of Step Functions as tools of the gateway's functions, woken by an event.

use harness::caller::Caller;
use harness::root;
use harness::states::{Machine, api};
use serde_json::{Value, json};

use super::setup::Setup;

/// The message that the rule of template.yaml makes of an event.
const MESSAGE: &str = r#"{"wake": "<name>"}"#;

/// The names that the rule of template.yaml is for.
const NAMES: &str = "*.*-*-*-*-*";

/// A rule that sends the ends of a state machine's executions to a queue, as that of the template does.
async fn rule(machine: &Machine, queue: &str) {
    let detail = json!({
        "status": ["SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"], "stateMachineArn": [machine.arn()],
        "name": [{"wildcard": NAMES}],
    });
    let pattern =
        json!({"source": ["aws.states"], "detail-type": ["Step Functions Execution Status Change"], "detail": detail});
    let put = json!({"Name": queue, "EventPattern": pattern.to_string()});
    let put = api("events", "AWSEvents.PutRule", &put).await;
    assert!(put["RuleArn"].is_string(), "{put}");
    let transformer = json!({"InputPathsMap": {"name": "$.detail.name"}, "InputTemplate": MESSAGE});
    let arn = format!("arn:aws:sqs:us-east-1:000000000000:{queue}");
    let targets = json!({"Rule": queue, "Targets": [{"Id": "work", "Arn": arn, "InputTransformer": transformer}]});
    let put = api("events", "AWSEvents.PutTargets", &targets).await;
    assert_eq!(put["FailedEntryCount"], 0, "{put}");
}

fn etl(machine: &Machine) -> Value {
    // Without the event, the second look would come after the patience of this test.
    json!({"etl": {
        "type": "aws-step-functions", "stateMachine": machine.arn(), "description": "Loads", "pollEvery": "10m",
    }})
}

#[test]
fn the_template_has_the_rule_that_is_tested_here() {
    let template = std::fs::read_to_string(root().join("template.yaml")).unwrap();
    assert!(template.contains(&format!("InputTemplate: '{MESSAGE}'")));
    assert!(template.contains(&format!("name: [{{ wildcard: \"{NAMES}\" }}]")));
    assert!(template.contains("InputPathsMap: { name: $.detail.name }"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_an_execution_wakes_the_task_that_waits_for_it() {
    let machine = Machine::waiting(3).await;
    let setup = Setup::of_jobs(etl(&machine)).await;
    rule(&machine, setup.queue()).await;
    let (frontend, _worker) = setup.functions(&[]).await;
    let ended = setup.ended(&Caller::new(frontend.url()), "etl").await;
    assert_eq!(ended["result"]["structuredContent"], json!({"got": {}}), "{ended}");
    assert_eq!(machine.executions().await.len(), 1);
}
