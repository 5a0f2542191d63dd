//! SIGKILL of the gateway at any time: no task is lost, and nothing is carried out twice that may not be.

use serde_json::json;

use super::folds::{in_front, scan};
use super::pool::pool_of;
use super::process::{Setup, ended, until, why, words};

/// The events at which a gateway is killed: it has accepted calls, or a file of the server's has another line. In their
/// order, they are that a process was started, that it got a call, carried it out, and is about to answer.
const MOMENTS: [Option<&str>; 5] = [None, Some("processes"), Some("calls"), Some("numbers"), Some("answers")];

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

/// Kills the gateway at each of these events of calls that may not be repeated. The server notes the number of each
/// call. A call that has completed has its number once. A call whose task says that it was not repeated has it at most
/// once.
async fn is_killed_at_each_moment(setup: &Setup, tool: &str, moments: &[Option<&str>]) {
    let mut ids = Vec::new();
    for moment in moments {
        let (gateway, caller) = setup.started();
        let before = moment.map_or(0, |file| setup.lines(file).len());
        for _ in 0..2 {
            ids.push(caller.call_task(tool, json!({"number": ids.len()})).await);
        }
        if let Some(file) = moment {
            until(file, || setup.lines(file).len() > before).await;
        }
        gateway.kill();
    }
    let (_gateway, caller) = setup.started();
    ids.push(caller.call_task(tool, json!({"number": ids.len()})).await);
    for (number, id) in ids.iter().enumerate() {
        let task = ended(&caller, id).await;
        let times = setup.lines("numbers").iter().filter(|noted| **noted == number.to_string()).count();
        match task["status"].as_str().unwrap() {
            "completed" => assert_eq!(times, 1, "call {number}: {task}"),
            _ => assert!(times <= 1 && why(&task).contains("it was not repeated"), "call {number}, {times}: {task}"),
        }
    }
    assert_eq!(caller.get(ids.last().unwrap()).await["status"], "completed", "calls are carried out at all");
}

#[tokio::test]
async fn kills_at_each_moment_carry_no_call_out_twice() {
    // The one process of a pool may have been started for calls before.
    let with_process = MOMENTS.into_iter().filter(|moment| *moment != Some("processes")).collect::<Vec<_>>();
    for (setup, moments) in [(Setup::fixture(&[]), MOMENTS.to_vec()), (pool_of(1, &json!({})), with_process)] {
        is_killed_at_each_moment(&setup, "number", &moments).await;
        setup.until_all_have_ended().await;
    }
}

#[tokio::test]
async fn kills_at_each_moment_start_no_job_twice() {
    is_killed_at_each_moment(&in_front(json!([scan()])), "scan", &MOMENTS).await;
}
