//! The permissions that a kind asks for are those of the operations that it sends.

use std::collections::BTreeSet;

use longhaul_core::TaskKey;
use longhaul_gateway::jobs::{JobKey, Rights, StateMachine};
use serde_json::json;

use crate::kinds::{Kind, MACHINE, POLLS, each, executions};
use crate::stand_in::{Asked, StandIn, ok, refusal};
use crate::tool::{HOUR, call_within};

/// The operations that a stand-in was asked for, as IAM names them but for upper case.
fn sent(service: &StandIn) -> BTreeSet<String> {
    let operations = service.operations().into_iter();
    operations.map(|operation| operation.rsplit('/').next().unwrap().to_ascii_lowercase()).collect()
}

fn asked_for(rights: &[Rights]) -> BTreeSet<String> {
    let actions = rights.iter().flat_map(Rights::actions);
    actions.map(|action| action.split(':').next_back().unwrap().to_ascii_lowercase()).collect()
}

/// Has a kind do everything that it can do. A search that finds nothing is continued everywhere.
pub(crate) async fn exercise(kind: &'static Kind) -> StandIn {
    let service = StandIn::new(move |asked: &Asked, before| match asked.operation() {
        operation if operation == kind.start => ok((kind.started)()),
        operation if POLLS.contains(&operation.as_str()) && before == 0 => ok((kind.going)()),
        operation if operation == "ListTasks" && asked.body.get("startedBy").is_none() => {
            ok(json!({"taskArns": ["arn:task/9"]}))
        }
        operation if operation == "ListBuildsForProject" => ok(json!({"ids": ["site:9"]})),
        operation if operation == kind.stop && before == 0 => refusal("ClientException", "not now"),
        _ => ok((kind.done)()),
    })
    .await;
    let call = || call_within(HOUR, (kind.job)(&service), json!({"month": "06"}));
    call().to_end().await.unwrap();
    call().cancel_after("outside job").to_end().await.unwrap();
    let task = "01a20865-b505-72d6-a2ec-4c413b1088a3".parse().unwrap();
    let owner = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d".parse().unwrap();
    (kind.job)(&service).find(&JobKey::of(&TaskKey::new(owner, task)), &json!({})).await.unwrap();
    service
}

/// The same for executions of a state machine.
pub(crate) async fn exercise_executions() -> StandIn {
    let service = StandIn::new(|asked: &Asked, _| match asked.operation().as_str() {
        "StartExecution" => ok(json!({"executionArn": format!("{MACHINE}:x").replace("stateMachine", "execution")})),
        "DescribeStateMachine" => ok(json!({"type": "STANDARD"})),
        _ => ok(json!({"status": "RUNNING"})),
    })
    .await;
    call_within(HOUR, executions(&service), json!({})).to_end().await.unwrap();
    service
}

#[tokio::test]
async fn a_kind_asks_for_the_permissions_of_the_operations_that_it_sends_and_for_no_others() {
    for kind in each() {
        assert_eq!(sent(&exercise(kind).await), asked_for(&(kind.rights)()), "{}", kind.name);
    }
    let rights = StateMachine::of_arn(MACHINE).unwrap().rights();
    assert_eq!(sent(&exercise_executions().await), asked_for(&rights));
}
