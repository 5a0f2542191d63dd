//! The actions of people in the console.

use harness::process::Server;

use super::process::{Console, Setup};

const QUESTION: [&str; 2] = ["ask", r#"questions:=["Which month?"]"#];

/// Runs for as long as any test does.
const LONG: [&str; 3] = ["countdown", "seconds=600", "steps=600"];

#[test]
fn a_countdown_moves_in_the_list_and_on_its_page() {
    let (setup, _server) = Setup::started();
    let id = setup.call(&LONG);
    setup.browse(Console::OfServer, "moves", &["--task", &id]);
}

#[test]
fn a_question_is_answered_in_its_form() {
    let (setup, _server) = Setup::started();
    let id = setup.call(&QUESTION);
    setup.browse(Console::OfServer, "answers", &["--task", &id]);
    let shown = setup.shown(&id).to_string();
    assert!(shown.contains(r#"May <i>"#), "{shown}");
}

#[test]
fn a_question_is_declined() {
    let (setup, _server) = Setup::started();
    let id = setup.call(&QUESTION);
    setup.browse(Console::OfServer, "declines", &["--task", &id]);
    let shown = setup.shown(&id).to_string();
    assert!(shown.contains("decline"), "{shown}");
}

#[test]
fn a_tool_is_called_from_its_form() {
    let (setup, _server) = Setup::started();
    setup.browse(Console::OfServer, "calls", &[]);
}

#[test]
fn a_task_is_cancelled_and_called_again() {
    let (setup, _server) = Setup::started();
    let id = setup.call(&LONG);
    let seen = setup.browse(Console::OfServer, "cancels", &["--task", &id]);
    assert_eq!(setup.shown(&id)["status"], "cancelled");
    assert_eq!(setup.shown(seen["again"].as_str().unwrap())["status"], "working");
}

/// Kills the server when the flow asks for it, and starts it again.
fn killing(setup: &Setup, console: Console) {
    let mut server = Some(setup.start());
    let id = setup.call(&["countdown", "seconds=8", "steps=40"]);
    setup.browse_while(console, "outlives", &["--task", &id], &mut |asked| match (asked, server.take()) {
        ("kill the server", Some(running)) => Server::kill(running),
        _ => server = Some(setup.start()),
    });
}

#[test]
fn an_open_page_outlives_its_server() {
    killing(&Setup::new(), Console::OfServer);
}

#[test]
fn an_open_page_of_longhaul_console_outlives_the_server() {
    let setup = Setup::new();
    let _console = setup.start_console();
    killing(&setup, Console::Beside);
}

#[test]
fn nothing_that_a_hostile_server_says_is_obeyed() {
    let setup = Setup::new();
    let _server = setup.start_hostile();
    let _console = setup.start_console();
    setup.browse(Console::Beside, "inert", &[]);
}

#[test]
fn a_page_of_another_origin_cannot_act() {
    let (setup, _server) = Setup::started();
    let id = setup.call(&LONG);
    setup.browse(Console::OfServer, "foreign", &["--task", &id]);
    assert_eq!(setup.shown(&id)["status"], "working");
}

#[test]
fn a_question_is_answered_with_the_keyboard_alone() {
    let (setup, _server) = Setup::started();
    setup.call(&QUESTION);
    setup.browse(Console::OfServer, "keys", &[]);
}

#[test]
fn everything_works_without_script() {
    let (setup, _server) = Setup::started();
    setup.call(&QUESTION);
    let id = setup.call(&LONG);
    setup.browse(Console::OfServer, "scriptless", &["--task", &id]);
}

/// Tasks in several states, of which two are returned.
fn busy(setup: &Setup) -> [String; 2] {
    setup.call(&["echo", "text=done"]);
    setup.call(&["fail", "how=tool_error"]);
    [setup.call(&QUESTION), setup.call(&LONG)]
}

#[test]
fn pages_are_accessible_in_light_and_in_dark() {
    let (setup, _server) = Setup::started();
    let [asking, working] = busy(&setup);
    setup.browse(Console::OfServer, "accessible", &["--task", &asking, "--other", &working]);
}

#[test]
fn pages_fit_on_a_narrow_screen() {
    let (setup, _server) = Setup::started();
    let [asking, working] = busy(&setup);
    setup.browse(Console::OfServer, "narrow", &["--task", &asking, "--other", &working]);
}
