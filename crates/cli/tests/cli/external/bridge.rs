//! `longhaul bridge`: real clients over its standard input and output.

use std::process::{Command, Stdio};

use harness::root;
use serde_json::Value;

use crate::command::Setup;
use crate::servers::Server;

/// Runs one flow of a driver of `tests/clients` through a bridge to this URL.
fn drive(setup: &Setup, (program, script): (&str, &str), flow: &[&str]) -> Value {
    let tool = root().join(".cache/tools/bin").join(program);
    assert!(tool.exists(), "run scripts/setup-tools.sh");
    let bridge = format!("stdio:{} bridge {}", env!("CARGO_BIN_EXE_longhaul"), setup.url);
    let mut command = Command::new(tool);
    setup.prepare(&mut command);
    command.current_dir(root()).arg(root().join("tests/clients").join(script)).args(["--url", &bridge]).args(flow);
    let said = Setup::end(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert_eq!(said.code, 0, "{flow:?}: {said:?}");
    serde_json::from_str(said.out.lines().last().unwrap()).unwrap()
}

const OF_2026_07_28: [(&str, &str); 2] = [("node", "ts/driver.mjs"), ("python", "python/driver.py")];
const OF_2025_11_25: [(&str, &str); 2] =
    [("node", "ts-legacy/core_tasks.mjs"), ("python-1.30.0", "python-legacy/core_tasks.py")];

#[test]
fn clients_of_2026_07_28_do_everything() {
    let (setup, server) = Setup::local();
    for client in OF_2026_07_28 {
        for flow in ["list", "plain", "task", "ask", "fail", "unknown", "large"] {
            drive(&setup, client, &[flow]);
        }
        drive(&setup, client, &["cancel", "--seconds", "120"]);
    }
    let started = drive(&setup, OF_2026_07_28[0], &["start", "--seconds", "1"]);
    server.kill();
    let _server = Server::local(setup.folder(), setup.port);
    drive(&setup, OF_2026_07_28[1], &["resume", "--task-id", started["taskId"].as_str().unwrap()]);
}

#[test]
fn clients_of_2025_11_25_do_everything() {
    let (setup, _server) = Setup::local();
    for client in OF_2025_11_25 {
        for flow in ["handshake", "task", "cancel", "fail", "ask", "list"] {
            drive(&setup, client, &[flow]);
        }
    }
}
