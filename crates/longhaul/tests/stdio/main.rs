//! A server on standard input and output, with the client of `rmcp`: its hooks, kills, and a second window.
//!
//! The program is this file too: a test starts it under another name.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test panics")]
#![expect(clippy::disallowed_methods, reason = "the tests wait for another process")]
#![expect(deprecated, reason = "hooks of older revisions are called too")]

mod machine;
mod programs;
mod tools;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use longhaul::Server;
use longhaul::rmcp::model::{
    CallToolRequestParams, CancelledNotificationParam, CustomNotification, LoggingLevel, NumberOrString,
    ProgressNotificationParam, ProgressToken, ProtocolVersion, SetLevelRequestParams,
};
use longhaul::rmcp::service::ClientLifecycleMode;
use longhaul::serve::{CommandLine, Options};
use machine::Machine;
use programs::How;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tools::server;

/// The names under which this file is the program: with a `main` of Longhaul, and with its own.
const NEW: &str = "new";
const EXISTING: &str = "existing";
const BY_HAND: &str = "by-hand";

/// The variable that names the file in which the server notes what happens to it.
const NOTES: &str = "NOTES";

/// In real time, and generous: nothing is measured here.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    match std::env::args().next().as_deref() {
        Some(NEW) => return CommandLine::new(NEW).main(|_env| server()),
        Some(EXISTING) => return existing(server()),
        Some(BY_HAND) => return existing(programs::server_by_hand()),
        _ => {}
    }
    let test = |name: &str, run: fn()| {
        Trial::test(name, move || {
            run();
            Ok::<(), Failed>(())
        })
    };
    let kinds =
        [EXISTING, BY_HAND].into_iter().flat_map(|kind| [How::Kill, How::Stop, How::Cancel].map(|how| (kind, how)));
    let interrupted = kinds.map(|(kind, how)| {
        Trial::test(format!("{kind}_a_call_that_runs_a_program_survives_{how:?}"), move || {
            programs::a_call_that_runs_a_program_is_interrupted(kind, how);
            Ok(())
        })
    });
    let tests = vec![
        test("a_real_client_triggers_each_hook", a_real_client_triggers_each_hook),
        test("the_same_program_serves_http_too", the_same_program_serves_http_too),
        test("a_killed_call_is_resumed_by_the_next_start", a_killed_call_is_resumed_by_the_next_start),
        test("a_program_ends_with_its_killed_server", a_program_ends_with_its_killed_server),
        test("a_client_that_leaves_cancels_nothing", a_client_that_leaves_cancels_nothing),
        test("a_second_window_is_served_by_the_first", a_second_window_is_served_by_the_first),
        test("a_second_window_takes_over_from_one_that_was_killed", || takes_over(true)),
        test("a_second_window_takes_over_from_one_that_was_closed", || takes_over(false)),
        test("a_window_next_to_a_server_of_http_is_told_who_has_the_database", is_told_who_has_the_database),
        test("a_client_of_the_newest_revision_is_served", a_client_of_the_newest_revision_is_served),
        test("what_is_no_message_is_refused_and_the_next_one_answered", what_is_no_message_is_refused),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests.into_iter().chain(interrupted).collect()).exit_code()
}

/// A program of its author's, with `main`, a runtime and a choice of the transport.
#[tokio::main]
async fn existing(server: Server) -> ExitCode {
    match longhaul::serve_stdio(server, Options::from_env().unwrap()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(test);
}

fn a_real_client_triggers_each_hook() {
    run(async {
        let machine = Machine::new();
        let window = machine.older().await;
        let info = window.client.peer_info().unwrap().server_info.clone().unwrap();
        assert_eq!((info.name.as_str(), info.version.as_str()), ("tools", "7.1.0"));
        machine.until_noted("on_initialized").await;
        let peer = window.client.peer();
        peer.notify_roots_list_changed().await.unwrap();
        let token = ProgressToken(NumberOrString::String("of nothing".into()));
        peer.notify_progress(ProgressNotificationParam::new(token, 0.5)).await.unwrap();
        peer.send_notification(CustomNotification::new("notifications/mine", None).into()).await.unwrap();
        peer.set_level(SetLevelRequestParams::new(LoggingLevel::Warning)).await.unwrap();
        let cancelled = json!({"requestId": 99, "reason": "bored"});
        let cancelled: CancelledNotificationParam = serde_json::from_value(cancelled).unwrap();
        peer.notify_cancelled(cancelled).await.unwrap();
        let hooks = [
            "initialize",
            r#"on_initialized Ok("file:///project")"#,
            "on_roots_list_changed",
            "on_progress 0.5",
            "on_custom_notification notifications/mine",
            "set_level Warning",
            r#"on_cancelled Some("bored")"#,
        ];
        for hook in hooks {
            machine.until_noted(hook).await;
        }
        assert_eq!(window.close().await, Some(0));
    });
}

fn the_same_program_serves_http_too() {
    run(async {
        let machine = Machine::new();
        let window = machine.window(NEW, &["--stdio"], ClientLifecycleMode::Initialize).await;
        assert_eq!(window.client.list_all_tools().await.unwrap().len(), 6, "the tools, and those for jobs");
        assert_eq!(window.close().await, Some(0));
        let mut http = machine.program(NEW, &["--listen", "127.0.0.1:0", "--db", ":memory:"]);
        let mut said = BufReader::new(http.stdout.take().unwrap()).lines();
        assert!(said.next_line().await.unwrap().unwrap().starts_with("tools serves MCP on http://"));
    });
}

fn a_killed_call_is_resumed_by_the_next_start() {
    run(async {
        let machine = Machine::new();
        let mut window = machine.older().await;
        window.begin(3_600_000);
        machine.until_noted("second begins").await;
        window.server.kill().await.unwrap();
        // It may take the process that comes next to see that the file is free.
        let window = machine.older().await;
        machine.until_noted("done").await;
        let noted = machine.noted();
        assert_eq!(noted.iter().filter(|noted| *noted == "first").count(), 1, "a recorded step: {noted:?}");
        assert_eq!(noted.iter().filter(|noted| *noted == "second begins").count(), 2, "{noted:?}");
        assert_eq!(window.close().await, Some(0));
        assert!(
            std::fs::read_dir(machine.project()).unwrap().next().is_none(),
            "the project has no file of the server's"
        );
    });
}

fn a_program_ends_with_its_killed_server() {
    run(async {
        let machine = Machine::new();
        let mut window = machine.older().await;
        let peer = window.client.peer().clone();
        tokio::spawn(async move { drop(peer.call_tool(CallToolRequestParams::new("runs")).await) });
        let pids = || machine.noted().iter().filter_map(|noted| Some(noted.strip_prefix("pid ")?.to_owned())).collect();
        let mut pids_seen: Vec<String> = Vec::new();
        while pids_seen.len() < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            pids_seen = pids();
        }
        window.server.kill().await.unwrap();
        let ended = async {
            while pids_seen.iter().any(|pid| runs(pid)) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.unwrap();
    });
}

fn runs(pid: &str) -> bool {
    // A process that has ended and is not waited for yet is none.
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}

fn a_client_that_leaves_cancels_nothing() {
    run(async {
        let machine = Machine::new();
        let window = machine.older().await;
        window.begin(3_600_000);
        machine.until_noted("second begins").await;
        assert_eq!(window.close().await, Some(0));
        let window = machine.older().await;
        machine.until_noted("done").await;
        assert_eq!(window.close().await, Some(0));
    });
}

fn a_second_window_is_served_by_the_first() {
    run(async {
        let machine = Machine::new();
        let first = machine.older().await;
        let second = machine.older().await;
        machine.until_count("on_initialized Ok", 2).await;
        assert_eq!(second.call("work", json!({"ms": 1})).await.unwrap(), "done");
        let pids = [first.call("pid", json!({})).await.unwrap(), second.call("pid", json!({})).await.unwrap()];
        assert_eq!(pids[0], pids[1], "one process runs the tools");
        // The second one leaves alone.
        second.begin(3_600_000);
        machine.until_count("second begins", 2).await;
        assert_eq!(second.close().await, Some(0));
        assert_eq!(first.call("work", json!({"ms": 1})).await.unwrap(), "done");
        assert_eq!(first.close().await, Some(0));
    });
}

/// The second window waits for the result of a call that runs in the process of the first one.
fn takes_over(is_killed: bool) {
    run(async {
        let machine = Machine::new();
        let mut first = machine.older().await;
        let second = machine.older().await;
        let waiting = second.begin(3_600_000);
        let plain = second.begin_call("runs", json!({}));
        machine.until_noted("second begins").await;
        machine.until_count("pid", 2).await;
        if is_killed {
            first.server.kill().await.unwrap();
        } else {
            assert_eq!(first.close().await, Some(0));
        }
        let answered = waiting.await.unwrap().unwrap();
        // A process that stops says under which id the call goes on.
        assert!(answered == "done" || (!is_killed && answered.contains("job_id")), "{answered}");
        machine.until_noted("done").await;
        let refused = plain.await.unwrap().unwrap_err().to_string();
        assert!(refused.contains("ended before the answer"), "{refused}");
        let noted = machine.noted();
        assert_eq!(noted.iter().filter(|noted| noted.starts_with("pid")).count(), 2, "it ran once: {noted:?}");
        let count = |what: &str| noted.iter().filter(|noted| *noted == what).count();
        assert_eq!((count("first"), count("second begins"), count("done")), (1, 2, 1), "{noted:?}");
        // Others find the new one.
        let third = machine.older().await;
        assert_eq!(third.call("pid", json!({})).await.unwrap(), second.call("pid", json!({})).await.unwrap());
        assert_eq!(third.close().await, Some(0));
        assert_eq!(second.close().await, Some(0));
    });
}

fn is_told_who_has_the_database() {
    run(async {
        let machine = Machine::new();
        let file = machine.project().join("tasks.db").display().to_string();
        let mut http = machine.program(NEW, &["--listen", "127.0.0.1:0", "--db", &file]);
        let mut said = BufReader::new(http.stdout.take().unwrap()).lines();
        assert!(said.next_line().await.unwrap().unwrap().starts_with("tools serves MCP on http://"));
        let mut second = machine.program(NEW, &["--stdio", "--db", &file]);
        let (mut lines, mut input) =
            (BufReader::new(second.stdout.take().unwrap()).lines(), second.stdin.take().unwrap());
        input.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"initialize\",\"params\":{}}\n").await.unwrap();
        let answer: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
        assert_eq!(answer["id"], 5);
        let said = answer["error"]["message"].as_str().unwrap();
        assert!(said.contains("another server uses the database"), "{said}");
        assert_eq!(second.wait().await.unwrap().code(), Some(1));
    });
}

fn a_client_of_the_newest_revision_is_served() {
    run(async {
        let machine = Machine::new();
        let modern = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
        let window = machine.window(EXISTING, &[], modern).await;
        let params = CallToolRequestParams::new("work").with_arguments(json!({"ms": 1}).as_object().unwrap().clone());
        let result = window.client.call_tool(params).await.unwrap();
        assert_eq!(result.content[0].as_text().unwrap().text, "done");
        assert_eq!(window.close().await, Some(0));
    });
}

fn what_is_no_message_is_refused() {
    run(async {
        let machine = Machine::new();
        let mut server = machine.program(EXISTING, &["ignored"]);
        let (mut lines, mut input) =
            (BufReader::new(server.stdout.take().unwrap()).lines(), server.stdin.take().unwrap());
        let ping = br#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#;
        input.write_all(&[b"no json\n\n", &ping[..], b"\n"].concat()).await.unwrap();
        let mut answers = Vec::new();
        for _ in 0..2 {
            answers.push(serde_json::from_str::<Value>(&lines.next_line().await.unwrap().unwrap()).unwrap());
        }
        answers.sort_by_key(|answer| answer.get("error").is_none());
        assert_eq!((&answers[0]["error"]["code"], &answers[0]["id"]), (&json!(-32_700), &Value::Null));
        assert_eq!((&answers[1]["id"], &answers[1]["result"]), (&json!("a"), &json!({})));
        drop(input);
        assert_eq!(server.wait().await.unwrap().code(), Some(0));
        assert!(Path::new(&machine.notes()).exists());
    });
}
