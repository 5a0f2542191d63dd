//! Real clients of older revisions: the Python SDKs of three of them, the TypeScript SDK with the tasks of 2025-11-25, and
//! the Inspector's command line.

use std::process::Command;

use serde_json::Value;

use crate::clients::root;
use crate::process::{Local, Setup, output_of};

/// Runs a program of `.cache/tools/bin`, and gives what it printed.
fn run(program: &str, arguments: &[&str]) -> String {
    let path = root().join(".cache/tools/bin").join(program);
    assert!(path.exists(), "{} is not installed: run scripts/setup-tools.sh", path.display());
    output_of(Command::new(path).current_dir(root().join("tests/clients")).args(arguments))
}

/// Runs a driver, and gives what its last line says that it saw.
fn drive(program: &str, script: &str, server: &Local, what: &str) -> Value {
    let out = run(program, &[script, "--url", server.url(), what]);
    let last = out.lines().last().unwrap_or_else(|| panic!("{what} printed nothing"));
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{what}: {error}: {out}"))
}

#[test]
fn the_python_client_of_2025_11_25_runs_tasks() {
    let setup = Setup::new();
    let server = setup.start();
    for flow in ["handshake", "plain", "task", "cancel", "fail", "ask", "plain_ask", "list"] {
        drive("python-1.30.0", "python-legacy/core_tasks.py", &server, flow);
    }
}

#[test]
fn the_typescript_client_of_2025_11_25_runs_tasks() {
    let setup = Setup::new();
    let server = setup.start();
    for flow in ["handshake", "task", "cancel", "fail", "ask", "plain_ask", "list"] {
        drive("node", "ts-legacy/core_tasks.mjs", &server, flow);
    }
}

#[test]
fn clients_of_revisions_without_tasks_call_tools_and_are_asked() {
    let setup = Setup::new();
    let server = setup.start();
    let seen = drive("python-1.13.1", "python-legacy/no_tasks.py", &server, "2025-06-18");
    assert!(seen["asked"].as_str().is_some_and(|text| text.contains("my answer to one")), "{seen}");
    drive("python-1.9.4", "python-legacy/no_tasks.py", &server, "2025-03-26");
}

#[test]
fn the_inspector_lists_and_calls_tools() {
    let setup = Setup::new();
    let server = setup.start();
    let inspect = |arguments: &[&str]| {
        let out = run("inspector", &[&["--cli", server.url(), "--transport", "http"], arguments].concat());
        serde_json::from_str::<Value>(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    };
    let listed = inspect(&["--method", "tools/list"]);
    let tools = listed["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    assert!(tools.iter().any(|tool| tool["name"] == "countdown"), "{listed}");
    let called = inspect(&["--method", "tools/call", "--tool-name", "countdown", "--tool-arg", "seconds=0.5"]);
    assert_eq!((&called["isError"], &called["structuredContent"]["steps"]), (&false.into(), &10.into()), "{called}");
}
