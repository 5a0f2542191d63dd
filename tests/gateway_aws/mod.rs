//! The gateway as Lambda functions, on the Runtime API host, with table and queue in the emulator. Its API function
//! starts no server, and its worker starts one for each call. Between two events each sandbox is frozen.

use std::time::Duration;

use harness::caller::Caller;
use harness::runtime_host::Idle;
use harness::runtime_host::mapping::{Mapping, Worker};
use serde_json::{Value, json};

use crate::aws_e2e::programs::GATEWAY;
use setup::{Setup, why, words};

mod outside;
mod packages;
mod setup;

#[tokio::test(flavor = "multi_thread")]
async fn the_api_function_starts_no_server_and_the_worker_one_for_each_call() {
    let setup = Setup::of(&[], json!({})).await;
    let before = setup.processes().len();
    let (frontend, worker) = setup.functions(&[]).await;
    let caller = Caller::new(frontend.url());
    let tools = caller.result("tools/list", json!({})).await;
    assert!(tools["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "count"), "{tools}");
    assert_eq!(setup.processes().len(), before, "a list has started a server");
    for number in 1..=2 {
        assert_eq!(words(&setup.ended(&caller, "count").await), format!("done: {number}"));
        assert_eq!(setup.processes().len(), before + number);
    }
    setup.until_all_have_ended_with(worker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_does_not_see_the_credentials_of_the_function() {
    let env = json!({"TOKEN": "${TOKEN}"});
    let setup = Setup::of(&[], env).await;
    let (frontend, _worker) = setup.functions(&[("LONGHAUL_TOOL_ENV", "TOKEN=of-the-operator")]).await;
    let seen = setup.ended(&Caller::new(frontend.url()), "environment").await;
    let seen: Value = serde_json::from_str(&words(&seen)).unwrap();
    assert_eq!((&seen["TOKEN"], &seen["HOME"]), (&json!("of-the-operator"), &json!("/tmp")));
    let foreign =
        ["AWS_", "LONGHAUL_"].map(|prefix| seen.as_object().unwrap().keys().any(|key| key.starts_with(prefix)));
    assert_eq!(foreign, [false, false], "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_variable_is_not_set_is_listed_and_its_calls_say_so() {
    let setup = Setup::of(&[], json!({"TOKEN": "${TOKEN}"})).await;
    let (frontend, _worker) = setup.functions(&[]).await;
    let why = why(&setup.ended(&Caller::new(frontend.url()), "count").await);
    assert!(why.contains("`TOKEN` is not set here"), "{why}");
    assert!(setup.calls().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_outlives_its_call_in_a_frozen_sandbox_is_ended_in_the_next() {
    let setup = Setup::of(&["--stubborn"], json!({})).await;
    let (frontend, worker) = setup.functions(&[]).await;
    let caller = Caller::new(frontend.url());
    let first = setup.processes().len();
    assert_eq!(words(&setup.ended(&caller, "count").await), "done: 1");
    // The sandbox is frozen with its child, which ignores that its call has ended.
    worker.sandbox().await.polled(2).await;
    let child = setup.processes()[first].clone();
    setup::stop(&child);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(setup::is_alive(&child));
    setup::resume(&child);
    // These take longer than the grace that a server has.
    for number in 2..=4 {
        assert_eq!(words(&setup.ended(&caller, "slow").await), format!("done: {number}"));
    }
    assert!(!setup::is_alive(&child), "the child of the first call is still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_outlasts_its_attempt_fails_with_what_to_do_and_is_not_made_again() {
    let setup = Setup::of(&[], json!({})).await;
    let (frontend, worker) = setup.functions_with(Duration::from_secs(6), &[]).await;
    // It may be repeated, which would not help.
    let why = why(&setup.ended(&Caller::new(frontend.url()), "never").await);
    assert!(why.contains("after which this worker has to end") && why.contains("is not repeated"), "{why}");
    assert_eq!(setup.calls(), ["never"]);
    setup.until_all_have_ended_with(worker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_dies_in_a_call_carries_nothing_out_twice() {
    let setup = Setup::of(&[], json!({})).await;
    let (frontend, worker) = setup.functions(&[]).await;
    let caller = Caller::new(frontend.url());
    for (tool, calls) in [("slow", 1), ("slow_read_only", 3)] {
        let id = caller.call_task(tool, json!({})).await;
        setup.until_called(if tool == "slow" { 1 } else { 2 }).await;
        worker.sandbox().await.kill().await;
        let task = setup::ended(&caller, &id).await;
        match tool {
            "slow" => assert!(why(&task).starts_with("the call may have been carried out; it was not repeated")),
            _ => assert_eq!(words(&task), "done: 3"),
        }
        assert_eq!(setup.calls().len(), calls);
    }
    setup.until_all_have_ended_with(worker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_worker_runs_as_the_wrapper_of_a_managed_runtime() {
    let setup = Setup::of(&[], json!({})).await;
    let wrapper = setup.wrapper("/var/lang/bin/node /var/runtime/index.mjs");
    let frontend = setup.frontend(&[]).await;
    let mapping = setup.mapping(&[]);
    let _worker = Worker::start(Mapping { program: wrapper, ..mapping }, Idle::Frozen);
    assert_eq!(words(&setup.ended(&Caller::new(frontend.url()), "count").await), "done: 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_that_cannot_start_say_what_to_do() {
    let setup = Setup::of(&[], json!({})).await;
    let npx = r#"{"mcpServers": {"git": {"command": "npx", "args": ["-y", "server"]}}}"#;
    let other = r#"{"mcpServers": {"git": {"command": "python3"}}}"#;
    for (settings, expected) in [
        ([("LONGHAUL_LOCK", "no/such/file.json")], "write it with `longhaul gateway lock`, and put it into the bundle"),
        ([("LONGHAUL_CONFIG", "no/such/file.json")], "put it into the bundle, or name `config-json`"),
        ([("LONGHAUL_CONFIG_JSON", "{}")], "LONGHAUL_CONFIG_JSON cannot be used: the configuration: names no server"),
        ([("LONGHAUL_CONFIG_JSON", npx)], "/mcpServers/git/command: `npx` downloads what it starts"),
        ([("LONGHAUL_CONFIG_JSON", other)], "the server `git` is not in the lock file"),
    ] {
        for program in [GATEWAY.api(), GATEWAY.worker()] {
            let said = setup.refusal(program, &settings);
            assert!(said.contains(expected), "{}: {said}", program.display());
        }
    }
}
