//! `longhaul gateway lock`, and gateways that start with the file that it wrote.

use std::process::{Command, Output};

use serde_json::{Value, json};

use super::process::{Setup, words};

/// The exit code of `longhaul gateway lock`, and all that it says.
fn lock(setup: &Setup, more: &[&str]) -> (i32, String) {
    let mut command = Command::new(harness::program("longhaul"));
    command.args(["gateway", "lock", "--config", &setup.path("mcp.json")]).args(more);
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code().unwrap(), String::from_utf8([stdout, stderr].concat()).unwrap())
}

fn edit(setup: &Setup, name: &str, change: impl FnOnce(&mut Value)) {
    let text = std::fs::read_to_string(setup.path(name)).unwrap();
    let mut value = serde_json::from_str(&text).unwrap();
    change(&mut value);
    std::fs::write(setup.path(name), value.to_string()).unwrap();
}

#[tokio::test]
async fn a_gateway_with_a_lock_starts_without_its_servers() {
    let setup = Setup::fixture(&[]);
    let (code, said) = lock(&setup, &[]);
    assert!(code == 0 && said.ends_with("mcp.lock.json has 23 tools\n"), "{code}, {said}");
    setup.until_all_have_ended().await;
    let before = setup.processes();
    let locked = setup.with(&["--lock", &setup.path("mcp.lock.json")]);
    let gateway = locked.start();
    let caller = gateway.caller();
    let tools = caller.result("tools/list", json!({})).await;
    assert_eq!(tools["tools"][0]["title"], "Counts");
    assert_eq!(caller.result("prompts/list", json!({})).await["prompts"][0]["name"], "greet");
    assert_eq!(locked.processes(), before, "a list has started a server");
    assert_eq!(words(&gateway.ended("count", json!({})).await), "done: 1");
    // The protocol version is in the lock: the first message is the right one.
    assert_eq!(locked.first_messages().last().map(String::as_str), Some("initialize"));
    locked.until_all_have_ended().await;
}

#[test]
fn what_has_changed_is_shown_and_fails_the_check() {
    let setup = Setup::fixture(&[]);
    assert_eq!(lock(&setup, &[]).0, 0);
    let (code, said) = lock(&setup, &["--check"]);
    assert!(code == 0 && said.ends_with("mcp.lock.json matches the servers\n"), "{code}, {said}");

    edit(&setup, "mcp.lock.json", |lock| {
        let tools = lock["servers"]["only"]["tools"].as_array_mut().unwrap();
        tools[0]["description"] = json!("Counts, and nothing else.");
        tools.remove(1);
    });
    let (code, said) = lock(&setup, &["--check"]);
    assert_eq!(code, 1);
    for line in [
        "  only: tool `count` /description\n-     Counts, and nothing else.\n",
        "+ only: tool `count_read_only` is new\n",
        "mcp.lock.json does not match the servers; if it should, run `longhaul gateway lock`",
    ] {
        assert!(said.contains(line), "{line} is not in:\n{said}");
    }
    // Writing it shows the same, and then nothing has changed any more.
    assert!(lock(&setup, &[]).1.contains("+ only: tool `count_read_only` is new\n"));
    assert_eq!(lock(&setup, &["--check"]).0, 0);
}

#[test]
fn a_lock_that_cannot_be_used_says_what_to_do() {
    let setup = Setup::fixture(&[]);
    let (code, said) = lock(&setup, &["--check"]);
    assert!(code == 2 && said.contains("mcp.lock.json cannot be read"), "{code}, {said}");
    assert_eq!(lock(&setup, &[]).0, 0);
    let refusal = |setup: &Setup| setup.with(&["--lock", &setup.path("mcp.lock.json")]).refusal();

    edit(&setup, "mcp.lock.json", |lock| lock["servers"] = json!({}));
    let said = refusal(&setup);
    assert!(
        said.contains("the server `only` is not in the lock file: write it again with `longhaul gateway lock`"),
        "{said}"
    );
    edit(&setup, "mcp.lock.json", |lock| lock["version"] = json!(2));
    let said = refusal(&setup);
    assert!(
        said.contains("mcp.lock.json cannot be used: it is of version 2, and this program reads version 1"),
        "{said}"
    );
    std::fs::write(setup.path("mcp.lock.json"), "{").unwrap();
    assert!(refusal(&setup).contains("it is not a lock file; `longhaul gateway lock` writes a new one"));
}
