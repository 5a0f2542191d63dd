//! SIGKILL of the gateway at any moment: no task is lost, and nothing is carried out twice that may not be.

use std::time::Duration;

use serde_json::json;

use super::process::{Gateway, Setup, ended, why, words};

#[tokio::test]
async fn a_call_that_may_be_repeated_survives_kills_of_the_gateway() {
    let setup = Setup::fixture(&[]);
    let gateway = setup.start();
    let id = gateway.caller().call_task("slow_read_only", json!({})).await;
    setup.until_called(1).await;
    gateway.kill();
    // More often than a tool may crash that runs in the server's own process.
    for times in 2..=5 {
        let again = setup.start();
        setup.until_called(times).await;
        again.kill();
    }
    let again = setup.start();
    assert_eq!(words(&ended(&again.caller(), &id).await), "done: 6");
}

#[tokio::test]
async fn a_call_that_may_not_be_repeated_fails_after_a_kill_of_the_gateway() {
    let setup = Setup::fixture(&[]);
    let gateway = setup.start();
    let id = gateway.caller().call_task("slow", json!({})).await;
    setup.until_called(1).await;
    gateway.kill();
    let again = setup.start();
    let why = why(&ended(&again.caller(), &id).await);
    assert!(why.starts_with("the call may have been carried out; it was not repeated"), "{why}");
    assert_eq!(setup.calls(), ["slow"]);
}

/// In each round, calls a tool that may not be repeated some times, and kills the gateway after the pause times the
/// number of the round. Returns the gateway that then found every call to be carried out once at most.
pub(crate) async fn kill_at_moments(setup: &Setup, tool: &str, rounds: u32, calls: usize, pause: Duration) -> Gateway {
    let mut ids = Vec::new();
    for round in 0..rounds {
        let gateway = setup.start();
        for _ in 0..calls {
            ids.push(gateway.caller().call_task(tool, json!({})).await);
        }
        tokio::time::sleep(pause * round).await;
        gateway.kill();
    }
    let gateway = setup.start();
    let caller = gateway.caller();
    let mut completed = 0;
    for id in &ids {
        let task = ended(&caller, id).await;
        match task["status"].as_str().unwrap() {
            "completed" => completed += 1,
            _ => assert!(why(&task).contains("it was not repeated"), "{task}"),
        }
    }
    let calls = setup.calls().len();
    assert!((completed..=ids.len()).contains(&calls), "{completed} of {} completed, {calls} calls", ids.len());
    gateway
}

#[tokio::test]
async fn kills_at_many_moments_carry_no_call_out_twice() {
    let setup = Setup::fixture(&[]);
    let _gateway = kill_at_moments(&setup, "short", 8, 2, Duration::from_millis(25)).await;
    setup.until_all_have_ended().await;
}
