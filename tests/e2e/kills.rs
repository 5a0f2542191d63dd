//! SIGKILL at any time loses nothing.

use std::process::Stdio;
use std::time::Duration;

use harness::caller::structured;
use harness::process::Server;
use serde_json::{Value, json};

use super::process::Setup;

#[tokio::test]
async fn an_accepted_call_survives_a_kill_right_after_its_answer() {
    let (setup, server) = Setup::started();
    let id = server.caller().call_task("countdown", json!({"seconds": 0.4, "steps": 4})).await;
    server.kill();
    let again = setup.start();
    let done = again.caller().until(&id, "completed").await;
    assert_eq!(structured(&done["result"])["steps"], 4);
}

#[tokio::test]
async fn finished_results_and_open_questions_survive_a_kill() {
    let (setup, server) = Setup::started();
    let caller = server.caller();
    let finished = caller.call_task("large_result", json!({"bytes": 100_000})).await;
    let asking = caller.call_task("ask", json!({"questions": ["still there?"]})).await;
    let result = caller.until(&finished, "completed").await["result"].clone();
    let asks = caller.until(&asking, "input_required").await["inputRequests"].clone();
    server.kill();
    let again = setup.start();
    let caller = again.caller();
    assert_eq!(caller.get(&finished).await["result"], result);
    assert_eq!(caller.get(&asking).await["inputRequests"], asks);
    let key = asks.as_object().unwrap().keys().next().unwrap();
    caller.accept(&asking, key, json!({"answer": "yes"})).await;
    caller.until(&asking, "completed").await;
}

/// How long a server takes that does not wait for leases, with much to spare; less than one lease of
/// [`with_long_leases`].
const WITHOUT_A_LEASE: Duration = Duration::from_secs(40);

/// A server whose leases outlast the test.
fn with_long_leases() -> Setup {
    Setup::with(&["--diagnostics", "--lease-ms", "50000", "--heartbeat-ms", "200"])
}

#[tokio::test]
async fn a_restarted_server_takes_up_its_tasks_without_waiting_for_their_leases() {
    let test = async {
        let setup = with_long_leases();
        let server = setup.start();
        let caller = server.caller();
        let mut ids = Vec::new();
        for _ in 0..5 {
            ids.push(caller.call_task("countdown", json!({"seconds": 3, "steps": 10})).await);
        }
        for id in &ids {
            caller.until_it(id, "progress", |task| task.get("statusMessage").is_some()).await;
        }
        let before = caller.get(&ids[0]).await;
        server.kill();
        let again = setup.start();
        let caller = again.caller();
        // Recorded work is not done again: progress never starts over.
        assert!(done_of(&caller.get(&ids[0]).await) >= done_of(&before));
        for id in ids {
            let done = structured(&caller.until(&id, "completed").await["result"]);
            assert_eq!((done["steps"].as_u64(), done["attempts"].as_u64()), (Some(10), Some(2)), "{done}");
        }
    };
    tokio::time::timeout(WITHOUT_A_LEASE, test).await.expect("the restarted server waited for a lease");
}

/// Waits until a process has logged this.
async fn until_logged(server: &Server, what: &str) {
    while !server.log().contains(what) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_process_killed_while_it_cleans_up_cleans_up_again_when_it_is_started_again() {
    let test = async {
        let setup = with_long_leases();
        let server = setup.start();
        let caller = server.caller();
        let id = caller.call_task("fail", json!({"how": "hang", "cleanup_s": 10})).await;
        until_logged(&server, "an attempt begins").await;
        caller.result("tasks/cancel", json!({"taskId": id})).await;
        until_logged(&server, "cleaning up begins").await;
        assert!(!server.log().contains("what the task left is clean"), "it takes ten seconds");
        server.kill();
        let again = setup.start();
        until_logged(&again, "what the task left is clean").await;
        assert_eq!(again.log().matches("cleaning up begins").count(), 1);
        assert_eq!(again.caller().get(&id).await["status"], "cancelled");
    };
    tokio::time::timeout(WITHOUT_A_LEASE, test).await.expect("nothing was cleaned up");
}

#[tokio::test]
async fn a_tool_that_kills_its_process_fails_when_no_retries_are_left() {
    let test = async {
        let setup = with_long_leases();
        let server = setup.start();
        // Later than the answer to this call, which the death of the server would cut off.
        let id = server.caller().call_task("fail", json!({"how": "exit", "after_s": 1})).await;
        server.wait();
        for _ in 0..2 {
            // Its wait is recorded: the tool dies at once now, and may end the server before it has printed its URL.
            setup.command().stdout(Stdio::null()).stderr(Stdio::null()).status().expect("the local binary starts");
        }
        let server = setup.start();
        let failed = server.caller().until(&id, "failed").await;
        assert!(failed["statusMessage"].as_str().unwrap().contains("3 failures in a row"), "{failed}");
        // The server is alive and serves other calls.
        assert_eq!(server.caller().call("echo", json!({"text": "hi"})).await["resultType"], "complete");
    };
    tokio::time::timeout(WITHOUT_A_LEASE, test).await.expect("a restarted server waited for a lease");
}

fn done_of(task: &Value) -> f64 {
    let message = task["statusMessage"].as_str().unwrap_or_default();
    message.split(['/', ' ']).next().and_then(|done| done.parse().ok()).unwrap_or(0.0)
}
