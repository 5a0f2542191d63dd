//! Real clients of older revisions: the Python SDKs of three of them, the TypeScript SDK with the tasks of 2025-11-25,
//! and the Inspector's command line.

use std::process::Command;

use harness::{output_of, root, tool};
use serde_json::Value;

use super::process::Setup;

/// Runs a program of `.cache/tools/bin`, and returns what it printed.
fn run(program: &str, arguments: &[&str]) -> String {
    output_of(Command::new(tool(program)).current_dir(root().join("tests/clients")).args(arguments))
}

/// Runs a flow of a driver, and returns what its last line reports.
pub(crate) fn drive(program: &str, driver: &[&str], url: &str, flow: &str) -> Value {
    let out = run(program, &[driver, &["--url", url, flow]].concat());
    let last = out.lines().last().unwrap_or_else(|| panic!("{flow} printed nothing"));
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{flow}: {error}: {out}"))
}

#[test]
fn the_python_client_of_2025_11_25_runs_tasks() {
    let setup = Setup::new();
    let server = setup.start();
    for flow in ["handshake", "plain", "task", "cancel", "fail"].iter().chain(Setup::CORE_TASK_FLOWS) {
        drive("python-1.30.0", &["python-legacy/core_tasks.py"], server.url(), flow);
    }
}

#[test]
fn the_typescript_client_of_2025_11_25_runs_tasks() {
    let setup = Setup::new();
    let server = setup.start();
    for flow in ["handshake", "task", "cancel", "fail"].iter().chain(Setup::CORE_TASK_FLOWS) {
        drive("node", &["ts-legacy/core_tasks.mjs"], server.url(), flow);
    }
}

/// The SDKs without tasks.
pub(crate) const OF_2025_06_18: (&str, [&str; 3]) =
    ("python-1.13.1", ["python-legacy/no_tasks.py", "--revision", "2025-06-18"]);
const OF_2025_03_26: (&str, [&str; 3]) = ("python-1.9.4", ["python-legacy/no_tasks.py", "--revision", "2025-03-26"]);

#[test]
fn clients_of_revisions_without_tasks_call_tools_and_are_asked() {
    let setup = Setup::new();
    let server = setup.start();
    for (program, driver) in [OF_2025_06_18, OF_2025_03_26] {
        drive(program, &driver, server.url(), "plain");
    }
    let (program, driver) = OF_2025_06_18;
    for flow in Setup::PLAIN_CALL_FLOWS {
        drive(program, &driver, server.url(), flow);
    }
}

#[test]
fn clients_of_revisions_without_tasks_poll_and_cancel_jobs() {
    let setup = Setup::waiting_a_second();
    let server = setup.start();
    for (program, driver) in [OF_2025_06_18, OF_2025_03_26] {
        drive(program, &driver, server.url(), "job");
    }
}

/// One run of the Inspector's command line.
fn inspect(url: &str, arguments: &[&str]) -> Value {
    let out = run("inspector", &[&["--cli", url, "--transport", "http"], arguments].concat());
    serde_json::from_str::<Value>(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

/// Calls a tool by the Inspector.
fn inspect_tool(url: &str, tool: &str, arguments: &[&str]) -> Value {
    let arguments = arguments.iter().flat_map(|argument| ["--tool-arg", argument]);
    let call: Vec<_> = ["--method", "tools/call", "--tool-name", tool].into_iter().chain(arguments).collect();
    inspect(url, &call)
}

#[test]
fn the_inspector_lists_and_calls_tools() {
    let setup = Setup::new();
    let server = setup.start();
    let listed = inspect(server.url(), &["--method", "tools/list"]);
    let tools = listed["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    assert!(tools.iter().any(|tool| tool["name"] == "countdown"), "{listed}");
    let called = inspect_tool(server.url(), "countdown", &["seconds=0.5"]);
    assert_eq!((&called["isError"], &called["structuredContent"]["steps"]), (&false.into(), &10.into()), "{called}");
}
