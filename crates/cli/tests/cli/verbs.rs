//! Each verb, and each exit code.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::command::Setup;
use crate::servers::{Server, answering, answering_with, without_discovery};

#[test]
fn every_way_to_end_has_its_exit_code_and_says_why() {
    let (setup, _server) = Setup::local();
    let cancelled = setup.detach(&["countdown", "seconds=600"]);
    setup.run(&["cancel", &cancelled]).out();
    let asking = setup.detach(&["ask", "questions:=[\"Why?\"]"]);
    setup.until(&asking, "input_required");
    let refusing = answering("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n");
    let odd = answering("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nhi");
    let nobody = "http://127.0.0.1:1/mcp";
    let nothing = "01a1fde7-1b32-78d1-93e4-b5ba23776d60";
    let cases: [(i32, &[&str], &str); 27] = [
        (0, &["call", "echo", "text=hi"], ""),
        (0, &["--version"], ""),
        (2, &[], "Usage: longhaul"),
        (2, &["cal"], "unrecognized subcommand"),
        (2, &["call"], "<TOOL>"),
        (2, &["call", "ecko"], "there is no tool `ecko`; did you mean `echo`?"),
        (2, &["call", "echo"], "`text` is missing"),
        (2, &["call", "echo", "txt=a"], "there is no argument `txt`; did you mean `text`?"),
        (2, &["call", "countdown", "seconds=soon"], "`seconds` must be a number"),
        (5, &["call", "countdown", "seconds=-1"], "`seconds` must be at least 0"),
        (2, &["call", "echo", "text:=x"], "`text` is not JSON"),
        (2, &["call", "fail", "how=softly"], "`how`: it must be one of"),
        (2, &["call", "echo", "@no-such-file"], "`no-such-file` cannot be read"),
        (2, &["tools", "nothing"], "there is no tool `nothing`; there are:"),
        (2, &["tools", "--server", "nobody"], "there is no server `nobody`"),
        (2, &["tools", "--server", "ftp://a/mcp"], "is not an http or https URL"),
        (2, &["tools", "-H", "wrong"], "a header is written as"),
        (2, &["show", nothing], "is not known: task not found"),
        (2, &["again", nothing], "is not known: task not found"),
        (2, &["answer", &cancelled], "the task asks nothing: it is cancelled"),
        (3, &["tools", "--server", &refusing], "the server refuses this caller: status 401"),
        (4, &["tools", "--server", nobody], "127.0.0.1:1: the server cannot be reached"),
        (1, &["tools", "--server", &odd], "does not answer as an MCP server would"),
        (5, &["call", "fail", "how=tool_error"], ""),
        (5, &["call", "fail", "how=protocol_error"], ""),
        (6, &["answer", &asking], "it asks: Why?"),
        (8, &["result", &cancelled], "the task was cancelled"),
    ];
    for (code, args, expected) in cases {
        let said = setup.run(args);
        assert!(said.code == code && said.err.contains(expected), "{args:?}: {said:?}");
        assert_eq!(said.out.is_empty(), code != 0, "only a result is on the standard output: {args:?}: {said:?}");
    }
}

#[test]
fn tools_are_shown_with_their_signature_and_schema() {
    let (setup, _server) = Setup::local();
    assert!(setup.run(&["tools"]).out().contains("countdown(seconds: number, steps?: integer)\n    Runs for"));
    let one = setup.run(&["tools", "echo"]).out();
    assert!(one.starts_with("echo(text: string)") && one.contains("\"required\": ["), "{one}");
    assert_eq!(setup.run(&["tools", "echo", "--json"]).json()["name"], "echo");
    assert!(setup.run(&["tools", "--json"]).json()["tools"].as_array().unwrap().len() > 5);
    // Where its type is behind a reference, too.
    let fail = setup.run(&["tools", "fail"]).out();
    assert!(fail.lines().next().unwrap().contains("how: string") && fail.contains("$ref"), "{fail}");
    assert!(setup.run(&["tools", "ask"]).out().starts_with("ask(questions: string[]"));
}

#[test]
fn a_call_starts_later_and_is_shown_and_cancelled_before() {
    let (setup, _server) = Setup::local();
    let said = setup.run(&["call", "countdown", "seconds=0", "--in", "2h", "--detach"]);
    assert!(said.code == 0 && said.err.starts_with("starts at 2"), "{said:?}");
    let id = said.out.trim();
    let listed = setup.run(&["tasks", "--status", "working"]).out();
    assert!(listed.contains(id) && listed.contains("starts at 2"), "{listed}");
    assert!(setup.run(&["show", id]).out().contains("starts at 2"));
    let waited = setup.run(&["watch", id, "--wait", "300ms"]);
    assert_eq!(waited.code, 7, "{waited:?}");
    setup.run(&["cancel", id]).out();
    setup.until(id, "cancelled");
    // A time in the past is now.
    let now = setup.run(&["call", "countdown", "seconds=0", "--at", "2001-01-01T00:00Z", "--json"]).json();
    assert_eq!(now["structuredContent"]["attempts"], 1);
    for (code, args, expected) in [
        (2, ["--in", "1h", "--at", "2030-01-01T00:00Z"].as_slice(), "cannot be used with"),
        (2, ["--at", "tomorrow"].as_slice(), "write a time such as"),
        (2, ["--in", "91d"].as_slice(), "at most 90 days ahead"),
    ] {
        let said = setup.run(&[["call", "countdown", "seconds=0"].as_slice(), args].concat());
        assert!(said.code == code && said.err.contains(expected), "{args:?}: {said:?}");
    }
    let plain = setup.run(&["call", "echo", "text=hi", "--in", "1h"]);
    assert!(plain.code == 2 && plain.err.contains("do not become tasks"), "{plain:?}");
}

/// Another server does not know what that means, and would start the call at once.
#[test]
fn a_call_for_later_is_not_sent_to_a_server_that_does_not_say_that_it_heeds_it() {
    let (mut setup, _server) = Setup::local();
    setup.url = without_discovery(setup.port);
    let said = setup.run(&["call", "countdown", "seconds=0", "--in", "1h"]);
    assert!(said.code == 2 && said.err.contains("might start this one at once"), "{said:?}");
}

#[test]
fn the_result_alone_is_on_the_standard_output() {
    let (setup, _server) = Setup::local();
    assert_eq!(setup.run(&["call", "echo", "text=a=b"]).out(), "a=b");
    let said = setup.run(&["call", "countdown", "seconds=0.2"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    let result: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(result, json!({"attempts": 1, "seconds": 0.2, "steps": 10}));
    let whole = setup.run(&["call", "countdown", "seconds=0", "--json"]).json();
    assert_eq!(whole["structuredContent"]["steps"], 10);
}

#[test]
fn arguments_are_read_from_files_and_from_the_standard_input() {
    let (setup, _server) = Setup::local();
    std::fs::write(setup.folder().join("a.json"), r#"{"text": "from a file"}"#).unwrap();
    assert_eq!(setup.run(&["call", "echo", "@a.json"]).out(), "from a file");
    assert_eq!(setup.run(&["call", "echo", "@a.json", "text=later"]).out(), "later");
    let mut child = setup.command(&["call", "echo", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(br#"{"text": "piped"}"#).unwrap();
    assert_eq!(Setup::end(child).out(), "piped");
}

#[test]
fn a_task_is_begun_shown_watched_and_made_again() {
    let (setup, _server) = Setup::local();
    let id = setup.detach(&["countdown", "seconds=0.3", "steps=3"]);
    let result = setup.run(&["watch", &id]).out();
    assert_eq!(result, setup.run(&["result", &id]).out());
    let shown = setup.run(&["show", &id]).out();
    assert!(shown.contains("status    completed") && shown.contains("tool      countdown"), "{shown}");
    let file = setup.folder().join("result");
    assert_eq!(setup.run(&["result", &id, "-o", file.to_str().unwrap()]).out(), "");
    assert_eq!(std::fs::read_to_string(file).unwrap(), result);
    let again = setup.run(&["again", &id, "--json"]).json();
    assert_eq!(again["structuredContent"]["steps"], 3);
    assert_eq!(setup.remembered().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let several = setup.run(&["watch", &id, &setup.detach(&["countdown", "seconds=0"])]).out();
    assert_eq!(several.lines().filter(|line| line.ends_with(" completed")).count(), 2, "{several}");
}

#[test]
fn another_machine_sees_what_is_on_record_and_makes_the_call_again() {
    let (setup, _server) = Setup::local();
    let id = setup.detach(&["countdown", "seconds=0.3", "steps=3"]);
    setup.run(&["watch", &id]).out();
    std::fs::remove_file(setup.remembered()).unwrap();
    let shown = setup.run(&["show", &id, "--journal"]).out();
    assert!(shown.contains("tool      countdown") && shown.contains("ended the task"), "{shown}");
    assert_eq!(shown.lines().filter(|line| line.contains("  step ")).count(), 3, "{shown}");
    let shown = setup.run(&["show", &id, "--journal", "--json"]).json();
    assert_eq!(shown["arguments"]["value"], json!({"seconds": 0.3, "steps": 3}));
    let again = setup.run(&["again", &id, "--json"]).json();
    assert_eq!(again["structuredContent"]["steps"], 3);
}

#[test]
fn the_same_key_is_the_same_task() {
    let (setup, _server) = Setup::local();
    let call = ["countdown", "seconds=600", "--key", "k"];
    assert_eq!(setup.detach(&call), setup.detach(&call));
    assert_ne!(setup.detach(&call[..2]), setup.detach(&call[..2]));
}

#[test]
fn a_wait_that_is_over_says_how_to_come_back_and_the_task_goes_on() {
    let (setup, _server) = Setup::local();
    let said = setup.run(&["call", "countdown", "seconds=600", "--wait", "300ms"]);
    assert!(said.code == 7 && said.err.contains("The task continues. To come back: longhaul watch "), "{said:?}");
    let id = said.err.split("longhaul watch ").nth(1).unwrap().split_whitespace().next().unwrap();
    assert_eq!(setup.run(&["show", id, "--json"]).json()["status"], "working");
    let said = setup.run(&["result", id]);
    assert!(said.code == 7 && said.err.contains("the task is working"), "{said:?}");
}

#[test]
fn tasks_are_listed_by_status_and_tool() {
    let (setup, _server) = Setup::local();
    let running = setup.detach(&["countdown", "seconds=600"]);
    let asking = setup.detach(&["ask", "questions:=[\"Why?\"]"]);
    setup.until(&asking, "input_required");
    let ids = |flags: &[&str]| -> Vec<String> {
        let listed = setup.run(&[&["tasks", "--json"], flags].concat()).json();
        let ids = listed["tasks"].as_array().unwrap().iter();
        ids.map(|task| task["taskId"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&[]).len(), 2);
    assert_eq!(ids(&["--status", "input_required"]), [asking.as_str()]);
    assert_eq!(ids(&["--tool", "countdown"]), [running.as_str()]);
    assert!(ids(&["--tool", "echo"]).is_empty());
    assert_eq!(ids(&["--status", "working,input_required"]).len(), 2);
    assert!(ids(&["--status", "working", "--tool", "ask"]).is_empty());
    // The server says which tools they are of, including tasks that another machine began.
    std::fs::remove_file(setup.remembered()).unwrap();
    assert_eq!(ids(&["--tool", "countdown"]), [running.as_str()]);
    assert_eq!(ids(&["--status", "input_required", "--tool", "ask"]), [asking.as_str()]);
    // The newest, and a note that there are more.
    let newest = setup.run(&["tasks", "--json", "--limit", "1"]);
    assert!(newest.err.contains("more than these 1 tasks exist"), "{newest:?}");
    assert_eq!(newest.json()["tasks"].as_array().unwrap().len(), 1);
    assert!(!setup.run(&["tasks", "--limit", "2"]).err.contains("more"));
    assert_eq!(setup.run(&["tasks", "--limit", "0"]).code, 2);
    let table = setup.run(&["tasks"]).out();
    assert!(table.starts_with("TASK") && table.contains("countdown") && table.contains("input_required"), "{table}");
    assert_eq!(setup.run(&["tasks", "--status", "odd"]).code, 2);
}

/// The answer of an older version of Longhaul: it has a plain list only.
fn older(body: &str) -> String {
    let request: Value = serde_json::from_str(body).unwrap();
    let keys = json!({"dev.longhaul/idempotencyKeys": {}});
    let row = |id: &str, status: &str| json!({"taskId": id, "status": status, "createdAt": "2026-01-01T00:00:00Z"});
    let result = match request["method"].as_str().unwrap() {
        "server/discover" => json!({"supportedVersions": ["2026-07-28"], "capabilities": {"extensions": keys}}),
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tasks": {"list": {}}}}),
        "tasks/list" if request["params"]["cursor"] == "c" => {
            json!({"tasks": [row("b", "failed"), row("d", "failed")]})
        }
        "tasks/list" => json!({"tasks": [row("a", "failed"), row("c", "working")], "nextCursor": "c"}),
        _ => Value::Null,
    };
    let answer = match result {
        Value::Null => json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "no"}}),
        result => json!({"jsonrpc": "2.0", "id": request["id"], "result": result}),
    };
    let answer = answer.to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
    format!("{head} {}\r\n\r\n{answer}", answer.len())
}

#[test]
fn of_a_server_that_cannot_filter_all_tasks_are_asked_for_and_filtered_here() {
    let mut setup = Setup::new();
    setup.url = answering_with(older);
    let ids = |flags: &[&str]| {
        let listed = setup.run(&[&["tasks", "--json"], flags].concat()).json();
        let ids = listed["tasks"].as_array().unwrap().iter();
        ids.map(|task| task["taskId"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&[]), ["a", "c", "b", "d"]);
    assert_eq!(ids(&["--status", "failed"]), ["a", "b", "d"]);
    assert_eq!(ids(&["--status", "cancelled"]), [""; 0]);
    assert_eq!(ids(&["--tool", "x"]), [""; 0], "nothing says which tools they are of");
}

#[test]
fn a_list_is_shown_again_and_again_until_ctrl_c() {
    let (setup, _server) = Setup::local();
    let id = setup.detach(&["countdown", "seconds=600"]);
    let mut child = setup.command(&["tasks", "--watch", "--json"]).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..2 {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert!(line.contains(&id), "{line}");
    }
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    assert_eq!(Setup::end(child).code, 130);
}

/// Over the newest wire, and over that of `2025-11-25`.
#[test]
fn a_question_is_answered_by_arguments_and_declined() {
    let (mut setup, _server) = Setup::local();
    answers_questions(&setup);
    setup.url = without_discovery(setup.port);
    answers_questions(&setup);
}

fn answers_questions(setup: &Setup) {
    let said = setup.run(&["call", "ask", "questions:=[\"Which month?\", \"Why?\"]"]);
    assert!(said.code == 6 && said.err.contains("it asks: Which month?"), "{said:?}");
    let id = said.err.split("the task ").nth(1).unwrap().split_whitespace().next().unwrap();
    assert!(setup.run(&["tasks", "--status", "input_required"]).out().contains(id));
    let wrong = setup.run(&["answer", id, "month=May"]);
    assert!(wrong.code == 2 && wrong.err.contains("`answer` is missing"), "{wrong:?}");
    let wrong = setup.run(&["answer", id, "answer:=5"]);
    assert!(wrong.code == 2 && wrong.err.contains("`answer`: it must be of the type string"), "{wrong:?}");
    let wrong = setup.run(&["answer", id, "--question", "other", "answer=May"]);
    assert!(wrong.code == 2 && wrong.err.contains("the task does not ask `other`"), "{wrong:?}");
    setup.run(&["answer", id, "answer=May"]).out();
    let second = setup.run(&["watch", id]);
    assert!(second.code == 6 && second.err.contains("it asks: Why?"), "{second:?}");
    setup.run(&["answer", id, "--decline"]).out();
    let result: Value = serde_json::from_str(&setup.run(&["watch", id]).out()).unwrap();
    assert_eq!((&result["answers"][0]["answer"], &result["answers"][1]["action"]), (&json!("May"), &json!("decline")));
}

#[test]
fn a_task_that_its_server_does_not_have_any_more_has_expired() {
    let (setup, server) = Setup::local();
    let id = setup.detach(&["countdown", "seconds=0.1"]);
    setup.run(&["watch", &id]).out();
    server.kill();
    for file in ["tasks.db", "tasks.db-wal", "tasks.db-shm"] {
        drop(std::fs::remove_file(setup.folder().join(file)));
    }
    let _server = Server::local(setup.folder(), setup.port);
    for verb in ["show", "result", "watch"] {
        let said = setup.run(&[verb, &id]);
        assert!(said.code == 8 && said.err.contains("has expired"), "{verb}: {said:?}");
    }
    assert!(!setup.run(&["tasks"]).out().contains(&id));
    let again: Value = serde_json::from_str(&setup.run(&["again", &id]).out()).unwrap();
    assert_eq!(again["steps"], 10, "its call is remembered here");
}

#[test]
fn a_server_is_found_by_its_name() {
    let (setup, server) = Setup::local();
    let config = json!({"mcpServers": {"ours": {"type": "http", "url": server.url}, "process": {"command": "x"}}});
    std::fs::write(setup.folder().join(".mcp.json"), config.to_string()).unwrap();
    assert_eq!(setup.run(&["call", "echo", "text=hi", "--server", "ours"]).out(), "hi");
    let said = setup.run(&["tools", "--server", "process"]);
    assert!(said.code == 2 && said.err.contains("put it behind `longhaul gateway`"), "{said:?}");
    let said = setup.run(&["tools", "--server", "our"]);
    assert!(said.code == 2 && said.err.contains("did you mean `ours`?"), "{said:?}");
}

#[test]
fn a_server_is_found_by_its_name_in_the_users_own_file() {
    let (setup, server) = Setup::local();
    let named =
        |name: &str, url: &str| format!(r#"{{"mcpServers": {{"{name}": {{"type": "http", "url": "{url}"}}}}}}"#);
    let run = |name: &str| setup.run(&["call", "echo", "text=hi", "--server", name]);
    let own = setup.folder().join(".config/longhaul");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("servers.json"), named("ours", &server.url)).unwrap();
    assert_eq!(run("ours").out(), "hi");
    let unknown = run("our");
    assert!(unknown.code == 2 && unknown.err.contains("did you mean `ours`?"), "{unknown:?}");
    // The file of the folder comes first.
    std::fs::write(setup.folder().join(".mcp.json"), named("other", &server.url)).unwrap();
    assert_eq!((run("ours").out(), run("other").out()), ("hi".to_owned(), "hi".to_owned()));
    std::fs::write(setup.folder().join(".mcp.json"), named("ours", "http://127.0.0.1:1/mcp")).unwrap();
    assert_eq!(run("ours").code, 4);
}

#[test]
fn callers_whom_nobody_identifies_are_served_without_keys() {
    let setup = Setup::new();
    let _server = Server::local_with(setup.folder(), setup.port, &["--auth", "anonymous"]);
    let id = setup.detach(&["countdown", "seconds=0.1"]);
    assert!(setup.run(&["watch", &id]).out().contains("\"steps\":10"));
    // There is no list for them, so that this machine says which tasks it began.
    assert!(setup.run(&["tasks"]).out().contains(&id));
}

#[test]
fn completions_are_written_for_shells() {
    let setup = Setup::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = setup.run(&["completions", shell]).out();
        assert!(script.contains("countdown") || script.contains("detach"), "{shell}");
    }
}

/// The words that bash completes in this line, with the written completions.
fn completed(setup: &Setup, words: &[&str]) -> Vec<String> {
    let script = setup.run(&["completions", "bash"]).out();
    std::fs::write(setup.folder().join("longhaul.bash"), script).unwrap();
    let line = r#"source longhaul.bash || exit 1; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        "$(complete -p longhaul | sed 's/.* -F \([^ ]*\) .*/\1/')" longhaul "${!#}" "${COMP_WORDS[$(($# - 2))]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = std::process::Command::new("bash");
    setup.prepare(&mut bash);
    let output = bash.args(["--norc", "-c", line, "bash"]).args(words).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}

#[test]
fn bash_completes_verbs_flags_and_statuses() {
    let setup = Setup::new();
    assert_eq!(completed(&setup, &["longhaul", "ca"]), ["call", "cancel"]);
    assert_eq!(completed(&setup, &["longhaul", "tasks", "--st"]), ["--status"]);
    let statuses = completed(&setup, &["longhaul", "tasks", "--status", ""]);
    assert_eq!(statuses, ["working", "input_required", "completed", "failed", "cancelled"]);
    assert_eq!(completed(&setup, &["longhaul", "nonsense-"]), [""; 0]);
}
