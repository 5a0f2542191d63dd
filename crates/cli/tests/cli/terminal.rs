//! The command at a terminal: bars, forms, Ctrl-C.

use std::process::Command;

use rexpect::process::WaitStatus;
use rexpect::session::{PtySession, spawn_command};

use crate::command::Setup;

/// How long something may take to be shown, in milliseconds.
const PATIENCE_MS: u64 = 60_000;

/// The command in a terminal of a usual size.
pub(crate) fn at_terminal(setup: &Setup, command: &str) -> PtySession {
    let mut shell = Command::new("sh");
    setup.prepare(&mut shell);
    let script = format!("stty rows 40 cols 120; exec {} {command}", env!("CARGO_BIN_EXE_longhaul"));
    shell.args(["-c", &script]).env("TERM", "xterm-256color");
    spawn_command(shell, Some(PATIENCE_MS)).unwrap()
}

fn code(session: &PtySession) -> i32 {
    match session.process().wait().unwrap() {
        WaitStatus::Exited(_, code) => code,
        other => panic!("{other:?}"),
    }
}

/// A call that was left with Ctrl-C, and the id of its task.
fn left_by_ctrl_c(setup: &Setup) -> (PtySession, String) {
    let mut session = at_terminal(setup, "call countdown seconds=600 steps=600");
    session.exp_string("/600").unwrap();
    session.send_control('c').unwrap();
    let said = session.exp_string("Press Ctrl-C again to cancel").unwrap();
    let id = said.split("longhaul watch ").nth(1).unwrap().split_whitespace().next().unwrap();
    (session, id.to_owned())
}

#[test]
fn a_bar_moves_and_goes_when_the_result_comes() {
    let (setup, _server) = Setup::local();
    let mut session = at_terminal(&setup, "call countdown seconds=4 steps=8");
    session.exp_regex(r"\[=*> +\] [0-9.]+/s, [0-9]+s left [1-4]/8").unwrap();
    session.exp_regex(r"\[=+> *\] [0-9.]+/s, [0-9]+s left [5-8]/8").unwrap();
    session.exp_string(r#""steps":8"#).unwrap();
    session.exp_eof().unwrap();
    assert_eq!(code(&session), 0);
}

/// Work that was done before the first poll does not count for the pace.
#[test]
fn the_first_pace_after_coming_back_is_the_right_one() {
    let (setup, _server) = Setup::local();
    let id = setup.detach(&["countdown", "seconds=60", "steps=120"]);
    let begun = std::time::Instant::now();
    let done = |text: &str| text.split('/').next()?.parse::<u32>().ok();
    while setup.run(&["show", &id, "--json"]).json()["statusMessage"].as_str().and_then(done).unwrap_or(0) < 20 {
        assert!(begun.elapsed() < crate::servers::PATIENCE, "it does not get on");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let mut session = at_terminal(&setup, &format!("watch {id}"));
    let (_, shown) = session.exp_regex(r"[0-9.]+/s, [0-9]+[sm] left").unwrap();
    let rate: f64 = shown.split('/').next().unwrap().parse().unwrap();
    assert!((1.0..=4.0).contains(&rate), "{shown}");
    assert_eq!(setup.run(&["cancel", &id]).code, 0);
    session.exp_eof().unwrap();
}

/// It has changed nothing since the command looks.
#[test]
fn a_task_that_sleeps_shows_neither_rate_nor_time() {
    let (setup, _server) = Setup::local();
    let mut session = at_terminal(&setup, "call countdown seconds=600 steps=2 --wait 4s");
    let shown = session.exp_eof().unwrap();
    assert!(!shown.contains("/s,") && !shown.contains(" left"), "{shown}");
    assert_eq!(code(&session), 7);
}

#[test]
fn a_question_is_asked_in_a_form() {
    let (setup, _server) = Setup::local();
    let mut session = at_terminal(&setup, r#"call ask 'questions:=["Which month?"]'"#);
    session.exp_string("Which month?").unwrap();
    session.exp_string("Esc to decline or to answer later").unwrap();
    session.send("May\r").unwrap();
    session.flush().unwrap();
    session.exp_string(r#""answer":"May""#).unwrap();
    session.exp_eof().unwrap();
    assert_eq!(code(&session), 0);
}

#[test]
fn esc_in_a_form_leads_to_declining() {
    let (setup, _server) = Setup::local();
    let mut session = at_terminal(&setup, r#"call ask 'questions:=["Which month?"]'"#);
    session.exp_string("Esc to decline or to answer later").unwrap();
    session.send("\u{1b}").unwrap();
    session.flush().unwrap();
    session.exp_string("What do you want to do?").unwrap();
    session.send("decline\r").unwrap();
    session.flush().unwrap();
    session.exp_string(r#""action":"decline""#).unwrap();
    session.exp_eof().unwrap();
    assert_eq!(code(&session), 0);
}

#[test]
fn ctrl_c_detaches_and_says_how_to_come_back() {
    let (setup, _server) = Setup::local();
    let (mut session, id) = left_by_ctrl_c(&setup);
    session.exp_eof().unwrap();
    assert_eq!(code(&session), 130);
    assert_eq!(setup.run(&["show", &id, "--json"]).json()["status"], "working");
}

#[test]
fn a_second_ctrl_c_cancels() {
    let (setup, _server) = Setup::local();
    let (mut session, id) = left_by_ctrl_c(&setup);
    session.send_control('c').unwrap();
    session.exp_string("the server was asked to cancel").unwrap();
    session.exp_eof().unwrap();
    assert_eq!(code(&session), 130);
    assert_eq!(setup.run(&["watch", &id]).code, 8);
}

#[test]
fn what_a_result_would_do_to_the_terminal_is_written_out() {
    let (setup, _server) = Setup::local();
    let mut session = at_terminal(&setup, r#"call echo 'text:="a\u001b[2Jb"'"#);
    session.exp_string(r"a\u{1b}[2Jb").unwrap();
    session.exp_eof().unwrap();
    assert_eq!(code(&session), 0);
}

#[test]
fn a_result_of_more_than_a_mebibyte_goes_to_a_file_and_not_to_a_terminal() {
    let (setup, _server) = Setup::local();
    for (letters, is_written) in [(1_000_000, true), (1_100_000, false)] {
        let arguments = serde_json::json!({"text": "x".repeat(letters)});
        std::fs::write(setup.folder().join("large.json"), arguments.to_string()).unwrap();
        let mut session = at_terminal(&setup, "call echo @large.json");
        if is_written {
            session.exp_string(&"x".repeat(100)).unwrap();
        } else {
            let said = session.exp_string("too many for a terminal").unwrap();
            assert!(said.contains("1100000 bytes") && !said.contains("xxx"), "{said}");
            session.exp_regex("longhaul result [0-9a-f-]+ -o FILE|> FILE").unwrap();
        }
        session.exp_eof().unwrap();
        assert_eq!(code(&session), if is_written { 0 } else { 2 });
    }
    assert_eq!(setup.run(&["call", "echo", "@large.json"]).out().len(), 1_100_000);
}
