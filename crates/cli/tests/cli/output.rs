//! The output of the command, to readers and disks that go away.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::bridge::Bridge;
use crate::command::Setup;
use crate::servers::PATIENCE;

/// Everything that the command writes, of a server with a task that has ended, and another one.
fn all_that_is_written<'a>(ended: &'a str, other: &'a str) -> Vec<Vec<&'a str>> {
    let verbs: [&[&str]; 17] = [
        &["--help"],
        &["--version"],
        &["gateway", "--help"],
        &["gateway", "lock", "--help"],
        &["completions", "bash"],
        &["tools"],
        &["tools", "--json"],
        &["tools", "echo"],
        &["call", "echo", "text=a"],
        &["call", "echo", "text=a", "--json"],
        &["call", "countdown", "seconds=0", "--detach"],
        &["tasks"],
        &["show", ended, "--journal"],
        &["watch", ended],
        &["watch", ended, "--json"],
        &["watch", ended, other],
        &["result", ended, "--json"],
    ];
    verbs.map(<[&str]>::to_vec).to_vec()
}

fn with_ended_tasks() -> (Setup, crate::servers::Server, [String; 2]) {
    let (setup, server) = Setup::local();
    let ids = [(); 2].map(|()| setup.detach(&["countdown", "seconds=0"]));
    ids.iter().for_each(|id| setup.until(id, "completed"));
    (setup, server, ids)
}

#[test]
fn what_cannot_be_written_is_an_error_for_every_verb() {
    let (setup, _server, [ended, other]) = with_ended_tasks();
    for args in all_that_is_written(&ended, &other) {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let said = Setup::end(setup.command(&args).stdout(full).spawn().unwrap());
        assert!(said.code == 1 && said.err.contains("the standard output cannot be written"), "{args:?}: {said:?}");
    }
}

#[test]
fn a_reader_that_has_gone_ends_every_verb_quietly() {
    let (setup, _server, [ended, other]) = with_ended_tasks();
    for args in all_that_is_written(&ended, &other) {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let said = Setup::end(setup.command(&args).stdout(writer).spawn().unwrap());
        assert!(said.code == 0 && said.err.is_empty(), "{args:?}: {said:?}");
    }
    // The end of the call is reported all the same.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let failing = ["call", "fail", "how=tool_error", "--json"];
    assert_eq!(Setup::end(setup.command(&failing).stdout(writer).spawn().unwrap()).code, 5);
}

/// Nothing changes, so that nothing is written that would show it.
#[test]
fn changes_are_not_waited_for_when_nobody_reads_them_any_more() {
    let (setup, _server) = Setup::local();
    let id = setup.detach(&["countdown", "seconds=600", "steps=1"]);
    for args in [&["watch", &id, "--json"][..], &["tasks", "--watch", "--json"]] {
        let mut child = setup.command(args).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut String::new()).unwrap();
        drop(out);
        let said = Setup::end(child);
        assert!(said.code == 0 && said.err.is_empty(), "{args:?}: {said:?}");
    }
}

#[test]
fn every_change_of_a_watched_task_is_a_line_of_json() {
    let (setup, _server) = Setup::local();
    let id = setup.detach(&["countdown", "seconds=4", "steps=8"]);
    let said = setup.run(&["watch", &id, "--json"]);
    let states: Vec<Value> = said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let statuses: Vec<&str> = states.iter().map(|state| state["status"].as_str().unwrap()).collect();
    let (last, before) = statuses.split_last().unwrap();
    assert_eq!((said.code, *last), (0, "completed"));
    assert!(before.len() >= 2 && before.iter().all(|status| *status == "working"), "{statuses:?}");
    assert!(states.iter().all(|state| state["taskId"] == id.as_str()), "{states:?}");
    assert!(states.windows(2).all(|pair| pair[0] != pair[1]), "what has not changed is not written: {states:?}");
    let progress: Vec<u32> =
        states.iter().filter_map(|state| state["statusMessage"].as_str()?.split('/').next()?.parse().ok()).collect();
    assert!(progress.len() >= 2 && progress.is_sorted() && progress[0] < 8, "{progress:?}");
}

#[test]
fn with_json_an_error_is_one_object_on_the_standard_error() {
    let (setup, _server) = Setup::local();
    let id = setup.detach(&["countdown", "seconds=600"]);
    let cases: [(i32, &str, &[&str]); 5] = [
        (2, "usage", &["call", "ecko"]),
        (2, "usage", &["show", "01a1fde7-1b32-78d1-93e4-b5ba23776d60"]),
        (4, "not_reachable", &["tools", "--server", "http://127.0.0.1:1/mcp"]),
        (5, "failed", &["call", "fail", "how=protocol_error"]),
        (7, "wait_elapsed", &["result", &id]),
    ];
    for (code, reason, args) in cases {
        let said = setup.run(&[args, &["--json"]].concat());
        let error: Value = serde_json::from_str(&said.err).unwrap();
        assert_eq!((said.code, said.out.as_str()), (code, ""), "{args:?}");
        assert_eq!(
            (&error["error"]["exitCode"], &error["error"]["reason"]),
            (&code.into(), &reason.into()),
            "{args:?}"
        );
        assert!(!error["error"]["message"].as_str().unwrap().is_empty(), "{args:?}");
    }
}

/// At a terminal these characters are written as escapes of JSON.
#[test]
fn json_is_json_whatever_a_server_says() {
    let (setup, _server) = Setup::local();
    let text = "a\u{202e}b\u{7f}\u{e0041}c";
    let arguments = json!({"text": text}).to_string();
    std::fs::write(setup.folder().join("a.json"), &arguments).unwrap();
    let said = setup.run(&["call", "echo", "@a.json", "--json"]).json();
    assert_eq!(said["content"][0]["text"], text);
    let mut session = crate::terminal::at_terminal(&setup, "call echo @a.json --json");
    let shown = session.exp_eof().unwrap();
    let line = &shown[shown.find('{').unwrap()..=shown.rfind('}').unwrap()];
    let shown: Value = serde_json::from_str(line).unwrap();
    assert_eq!(shown["content"][0]["text"], text);
    assert!(line.contains(r"a\u202eb\u007f\udb40\udc41c"), "{line}");
}

#[test]
fn a_bridge_that_cannot_write_says_so() {
    let (setup, _server) = Setup::local();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut child = setup.command(&["bridge"]).stdin(Stdio::piped()).stdout(full).spawn().unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"}\n")
        .unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    let code = child.wait().unwrap().code();
    assert!(code == Some(1) && err.contains("the standard output cannot be written"), "{code:?} {err}");
}

/// Nothing listens, so that the first message waits for two minutes.
#[test]
fn a_bridge_whose_client_has_gone_ends_while_its_server_is_away() {
    let setup = Setup::new();
    let mut bridge = Bridge::to(&setup, &setup.url);
    bridge.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}));
    bridge.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    assert_eq!(bridge.close_within(PATIENCE), Some(0));
}

#[test]
fn the_first_message_of_a_client_may_begin_with_a_byte_order_mark() {
    let (setup, _server) = Setup::local();
    let mut bridge = Bridge::to(&setup, &setup.url);
    bridge.write("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}");
    assert!(bridge.answer(1)["result"].is_object());
}

#[test]
fn files_may_begin_with_a_byte_order_mark_and_utf_16_is_named() {
    let (mut setup, server) = Setup::local();
    let bom = |text: &str| format!("\u{feff}{text}");
    let config = json!({"mcpServers": {"ours": {"type": "http", "url": server.url}}}).to_string();
    std::fs::write(setup.folder().join(".mcp.json"), bom(&config)).unwrap();
    std::fs::write(setup.folder().join("a.json"), bom(r#"{"text": "x"}"#)).unwrap();
    setup.url = "ours".to_owned();
    assert_eq!(setup.run(&["call", "echo", "@a.json"]).out(), "x");
    let mut child = setup.command(&["call", "echo", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), bom(r#"{"text": "piped"}"#).as_bytes()).unwrap();
    assert_eq!(Setup::end(child).out(), "piped");
    let utf_16: Vec<u8> = r#"{"text": "x"}"#.encode_utf16().flat_map(u16::to_le_bytes).collect();
    std::fs::write(setup.folder().join("b.json"), [&[0xff, 0xfe], utf_16.as_slice()].concat()).unwrap();
    std::fs::write(setup.folder().join("c.json"), utf_16).unwrap();
    for file in ["@b.json", "@c.json"] {
        let said = setup.run(&["call", "echo", file]);
        assert!(said.code == 2 && said.err.contains("it is in UTF-16: save it in UTF-8"), "{said:?}");
    }
    let policy = setup.folder().join("mcp.json");
    std::fs::write(&policy, bom(r#"{"mcpServers": {}, "jobs": {}}"#)).unwrap();
    let said = setup.run(&["gateway", "iam-policy", "--config", policy.to_str().unwrap()]);
    assert!(!said.err.contains("expected value"), "{said:?}");
}

#[test]
fn commands_that_begin_tasks_at_once_are_all_remembered() {
    let (setup, _server) = Setup::local();
    let all: Vec<_> =
        (0..6).map(|_| setup.command(&["call", "countdown", "seconds=0", "--detach"]).spawn().unwrap()).collect();
    let ids: Vec<String> = all.into_iter().map(|child| Setup::end(child).out()).collect();
    let remembered = std::fs::read_to_string(setup.remembered()).unwrap();
    assert!(ids.iter().all(|id| remembered.contains(id.as_str())), "{remembered}");
}
