//! Servers in Python and TypeScript that offer tasks themselves, each in one revision.

use std::net::TcpStream;
use std::process::Command;

use serde_json::json;

use super::super::process::{Setup, Somewhere, ended, tool, until, words};

/// A gateway in front of a server behind this port, once that listens.
async fn in_front_of_port(setup: Setup, port: &str) -> Setup {
    until("the server's port", || TcpStream::connect(format!("127.0.0.1:{port}")).is_ok()).await;
    setup
}

#[tokio::test]
async fn a_task_of_a_fastmcp_server_goes_on_after_a_kill_of_the_gateway() {
    let port = harness::free_port().to_string();
    let setup = Setup::config(|_| json!({"mcpServers": {"s": {"url": format!("http://127.0.0.1:{port}/mcp")}}}));
    std::fs::write(setup.path("hold"), "").unwrap();
    let python = harness::root().join(".cache/tools/upstreams-python/bin/python");
    assert!(python.exists(), "run scripts/setup-tools.sh upstreams");
    let script = harness::root().join("tests/gateway/fastmcp_fixture.py").canonicalize().unwrap();
    let mut command = Command::new(python);
    command.args([script.to_str().unwrap(), &setup.path(""), &port]);
    let (_server, _url) = Somewhere::start(&mut command);
    let setup = in_front_of_port(setup, &port).await;
    let gateway = setup.start();
    let id = gateway.caller().call_task("slow", json!({})).await;
    until("the server's task", || setup.has_recorded_a_step("task")).await;
    gateway.kill();
    std::fs::remove_file(setup.path("hold")).unwrap();
    let again = setup.start();
    assert_eq!(words(&ended(&again.caller(), &id).await), "done");
    assert_eq!(setup.calls(), ["slow"]);
}

#[tokio::test]
async fn a_task_in_a_session_of_a_typescript_server_goes_on_after_a_kill_of_the_gateway() {
    let port = harness::free_port().to_string();
    let setup = Setup::config(|_| json!({"mcpServers": {"s": {"url": format!("http://127.0.0.1:{port}/mcp")}}}));
    let mut command = Command::new(tool("server-everything"));
    let _server = Somewhere::silent(command.arg("streamableHttp").env("PORT", &port));
    let setup = in_front_of_port(setup, &port).await;
    let gateway = setup.start();
    let id = gateway.caller().call_task("simulate-research-query", json!({"topic": "rust"})).await;
    until("the server's task", || setup.has_recorded_a_step("task")).await;
    gateway.kill();
    let again = setup.start();
    assert!(words(&ended(&again.caller(), &id).await).starts_with("# Research Report: rust"));
}

#[tokio::test]
async fn a_tool_of_a_process_that_does_nothing_without_a_task_gets_one() {
    let setup = Setup::config(|_| json!({"mcpServers": {"s": {"command": tool("server-everything")}}}));
    let task = setup.start().ended("simulate-research-query", json!({"topic": "rust"})).await;
    assert!(words(&task).starts_with("# Research Report: rust"), "{task}");
}
