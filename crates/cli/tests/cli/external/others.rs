//! Servers of others, unchanged.

use std::process::Command;

use harness::root;

use crate::command::Setup;
use crate::servers::Server;

#[test]
fn a_typescript_server_of_2025_11_25_answers_at_once_or_by_a_task() {
    let mut setup = Setup::new();
    let program = root().join(".cache/tools/bin/server-everything");
    assert!(program.exists(), "run scripts/setup-tools.sh upstreams");
    let mut command = Command::new(program);
    let server = Server::start(command.arg("streamableHttp").env("PORT", setup.port.to_string()), setup.port);
    setup.url.clone_from(&server.url);
    assert_eq!(setup.run(&["call", "echo", "message=hi"]).out(), "Echo: hi");
    let report = setup.run(&["call", "simulate-research-query", "topic=rust"]).out();
    assert!(report.starts_with("# Research Report: rust"), "{report}");
    // The task is shown to the session that began it, which a later command knows.
    let id = setup.detach(&["simulate-research-query", "topic=sessions"]);
    assert!(setup.run(&["watch", &id]).out().starts_with("# Research Report: sessions"));
    let plain = setup.run(&["call", "trigger-long-running-operation", "duration=1", "steps=2"]).out();
    assert!(plain.starts_with("Long running operation completed"), "{plain}");
    let long = ["call", "trigger-long-running-operation", "duration=30", "steps=3", "--wait", "500ms"];
    let given_up = setup.run(&long);
    assert!(given_up.code == 7 && given_up.err.contains("the server makes no task of it"), "{given_up:?}");
    let refused = setup.run(&["call", "echo", "message=x", "more=y"]);
    assert!([0, 2].contains(&refused.code), "{refused:?}");
}

#[test]
fn a_fastmcp_server_with_the_tasks_extension_is_watched_and_listed() {
    let mut setup = Setup::new();
    let python = root().join(".cache/tools/upstreams-python/bin/python");
    assert!(python.exists(), "run scripts/setup-tools.sh upstreams");
    let mut command = Command::new(python);
    command.arg(root().join("tests/gateway/fastmcp_fixture.py")).arg(setup.folder()).arg(setup.port.to_string());
    let server = Server::start(&mut command, setup.port);
    setup.url.clone_from(&server.url);
    std::fs::write(setup.folder().join("hold"), "").unwrap();
    let id = setup.detach(&["slow"]);
    // The server has no list: this machine knows what it began.
    assert!(setup.run(&["tasks"]).out().contains("slow"));
    std::fs::remove_file(setup.folder().join("hold")).unwrap();
    assert_eq!(setup.run(&["watch", &id]).out(), "done");
}
