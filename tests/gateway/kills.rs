//! SIGKILL of the gateway at any moment: no task is lost, and nothing is carried out twice that may not be.

use serde_json::json;

use super::process::{Setup, ended, why, words};

#[tokio::test]
async fn a_call_that_may_be_repeated_survives_kills_of_the_gateway() {
    let (setup, gateway) = Setup::fixture(&[]).running();
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
    let (setup, gateway) = Setup::fixture(&[]).running();
    let id = gateway.caller().call_task("slow", json!({})).await;
    setup.until_called(1).await;
    gateway.kill();
    let again = setup.start();
    let why = why(&ended(&again.caller(), &id).await);
    assert!(why.starts_with("the call may have been carried out; it was not repeated"), "{why}");
    assert_eq!(setup.calls(), ["slow"]);
}
