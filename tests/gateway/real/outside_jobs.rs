//! Executions of Step Functions as tools, by configuration alone, with Step Functions in the emulator.

use serde_json::{Value, json};

use super::super::outside_jobs::etl;
use super::super::process::{Gateway, Setup, ended, why, words};
use harness::emulator::endpoint;
use harness::gate::{Gate, Held};
use harness::states::{Machine, states_api};

/// A gateway whose tool `etl` is this state machine of the emulator, with these additional members of its entry.
fn with(machine: &str, more: Value) -> Setup {
    etl(machine, more).with_aws(endpoint())
}

fn of(machine: &Machine) -> Setup {
    with(machine.arn(), json!({}))
}

fn june() -> Value {
    json!({"month": "2026-06"})
}

/// A gateway with a task whose execution is being started: the request is held, and the gate has to stay.
async fn held_at_the_start(machine: &Machine, held: Held) -> (Gate, Setup, Gateway, String) {
    let gate = Gate::open(endpoint()).await;
    let (setup, gateway) = of(machine).with_aws(gate.url()).running();
    let is_held = gate.hold("StartExecution", "", held);
    let id = gateway.caller().call_task("etl", june()).await;
    is_held.await.unwrap();
    (gate, setup, gateway, id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_machine_is_a_tool_by_configuration_alone() {
    let machine = Machine::waiting(1).await;
    let (_setup, _gateway, caller) = of(&machine).begun();
    let list = caller.result("tools/list", json!({})).await;
    assert_eq!(
        (&list["tools"][0]["name"], &list["tools"][0]["description"]),
        (&json!("etl"), &json!("Loads the sales of a month"))
    );
    assert_eq!(list["tools"][0]["inputSchema"]["required"], json!(["month"]));
    let id = caller.call_task("etl", june()).await;
    caller
        .until_it(&id, "progress", |task| {
            task["statusMessage"].as_str().is_some_and(|said| said.contains("in state First"))
        })
        .await;
    let task = ended(&caller, &id).await;
    assert_eq!(task["result"]["structuredContent"], json!({"got": june()}), "{task}");
    assert_eq!(words(&task), r#"{"got":{"month":"2026-06"}}"#);
    let executions = machine.executions().await;
    let name = executions[0]["name"].as_str().unwrap();
    assert!(name.ends_with(&format!(".{id}")) && name.len() <= 80, "{name}");
    assert_eq!(executions.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_are_checked_before_anything_is_started() {
    let machine = Machine::waiting(0).await;
    let (_setup, gateway) = of(&machine).running();
    let refused = gateway.caller().call("etl", json!({"month": 6})).await;
    assert_eq!(refused["isError"], true, "{refused}");
    assert_eq!(machine.executions().await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_that_fails_is_a_result_with_error_and_cause() {
    let fail = json!({"Type": "Fail", "Error": "Sales.Missing", "Cause": "there are no sales of that month"});
    let (_setup, gateway) = of(&Machine::of(json!({"First": fail})).await).running();
    let task = gateway.ended("etl", june()).await;
    assert_eq!((&task["status"], &task["result"]["isError"]), (&json!("completed"), &json!(true)), "{task}");
    assert_eq!(words(&task), "the execution failed: Sales.Missing: there are no sales of that month");
    assert_eq!(task["result"]["structuredContent"]["error"], "Sales.Missing");
}

#[tokio::test(flavor = "multi_thread")]
async fn to_cancel_the_task_stops_the_execution() {
    let machine = Machine::waiting(600).await;
    let (_setup, _gateway, caller) = of(&machine).begun();
    let id = caller.call_task("etl", june()).await;
    machine.until(1, "RUNNING").await;
    caller.result("tasks/cancel", json!({"taskId": id})).await;
    let stopped = machine.until(1, "ABORTED").await;
    assert_eq!((&stopped["error"], &stopped["cause"]), (&json!("Longhaul.Stopped"), &json!("its task was cancelled")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_times_out_stops_the_execution() {
    let machine = Machine::waiting(600).await;
    let (_setup, gateway) = with(machine.arn(), json!({"runAtMost": "2s"})).running();
    let task = gateway.ended("etl", june()).await;
    assert_eq!(task["status"], "failed", "{task}");
    let stopped = machine.until(1, "ABORTED").await;
    assert!(stopped["cause"].as_str().unwrap().starts_with("its task failed: "), "{stopped}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_before_it_records_the_start_starts_no_second_execution() {
    let machine = Machine::waiting(1).await;
    let (_gate, setup, gateway, id) = held_at_the_start(&machine, Held::AfterEffect).await;
    gateway.kill();
    assert!(!setup.has_recorded_a_step("outside job"));
    assert_eq!(machine.executions().await.len(), 1);
    let gateway = setup.start();
    assert_eq!(words(&ended(&gateway.caller(), &id).await), r#"{"got":{"month":"2026-06"}}"#);
    assert_eq!(machine.executions().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_finds_the_execution_whose_start_was_not_recorded() {
    let machine = Machine::waiting(600).await;
    let (_gate, setup, gateway, id) = held_at_the_start(&machine, Held::AfterEffect).await;
    gateway.caller().result("tasks/cancel", json!({"taskId": id})).await;
    machine.until(1, "ABORTED").await;
    assert!(!setup.has_recorded_a_step("outside job"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_of_somebody_else_under_our_name_is_neither_taken_nor_stopped() {
    let machine = Machine::waiting(600).await;
    let (_gate, setup, gateway, id) = held_at_the_start(&machine, Held::BeforeEffect).await;
    gateway.kill();
    // The name as it would be: the owner is in the record.
    let name = format!("{}.{id}", setup.owner_of_the_task());
    let theirs = json!({"stateMachineArn": machine.arn(), "name": name, "input": "{\"month\":\"1999-12\"}"});
    let started = states_api("StartExecution", &theirs).await;
    assert!(started["executionArn"].is_string(), "{started}");
    let gateway = setup.start();
    let why = why(&ended(&gateway.caller(), &id).await);
    assert!(why.contains("was started by another program under this name") && why.contains(&name), "{why}");
    assert_eq!(machine.until(1, "RUNNING").await["input"], theirs["input"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_over_the_limit_is_an_error_that_says_where_it_is() {
    let large = json!({"Type": "Pass", "Result": {"rows": "x".repeat(2 << 20)}, "End": true});
    let machine = Machine::of(json!({"First": large})).await;
    let (_setup, gateway) = of(&machine).running();
    let task = gateway.ended("etl", june()).await;
    let said = words(&task);
    assert!(said.contains("a result has 2097152 bytes at most") && task["result"]["isError"] == true, "{said}");
    let executions = machine.executions().await;
    assert!(said.contains(executions[0]["executionArn"].as_str().unwrap()), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_does_not_start_without_the_state_machine_and_says_what_to_do() {
    let machine = Machine::waiting(0).await;
    let said = with(&format!("{}-missing", machine.arn()), json!({})).refusal();
    assert!(
        said.contains("/mcpServers/etl: arn:aws:states:")
            && said.contains("-missing: the state machine does not exist"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_machine_that_is_deleted_later_is_an_error_of_the_call() {
    let machine = Machine::waiting(0).await;
    let (_setup, gateway) = of(&machine).running();
    assert_eq!(words(&gateway.ended("etl", june()).await), r#"{"got":{"month":"2026-06"}}"#);
    states_api("DeleteStateMachine", &json!({"stateMachineArn": machine.arn()})).await;
    let why = why(&gateway.ended("etl", june()).await);
    assert!(why.contains("the state machine does not exist: create it, or correct `stateMachine`"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_express_workflow_is_refused_at_the_start() {
    let machine = Machine::express().await;
    let said = of(&machine).refusal();
    assert!(said.contains("is an express workflow, which cannot be polled while it runs"), "{said}");
}
