//! What a program says that was started in a wrong way, or cannot start: one line, never a backtrace.
//!
//! The program is this file too: a test starts it under another name.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};
use longhaul::rmcp::{self, ServerHandler, tool, tool_handler, tool_router};
use longhaul::serve::CommandLine;
use longhaul::{Server, TaskPolicy};

/// The names under which this file is the program: as it should be, and inside a runtime of its own.
const PROGRAM: &str = "shop";
const NESTED: &str = "nested";

#[derive(Clone)]
struct Shop;

#[tool_router]
impl Shop {
    #[tool]
    async fn order(&self) -> String {
        String::new()
    }

    #[tool]
    async fn prices(&self) -> String {
        String::new()
    }
}

#[tool_handler]
impl ServerHandler for Shop {}

fn shop() -> ExitCode {
    CommandLine::new(PROGRAM).main(|_env| Server::new(|| Shop).task("order", TaskPolicy::optional()))
}

fn main() -> ExitCode {
    match std::env::args_os().next() {
        Some(name) if name == PROGRAM => return shop(),
        Some(name) if name == NESTED => {
            return tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async { shop() });
        }
        _ => {}
    }
    let test = |name: &str, run: fn()| {
        Trial::test(name, move || {
            run();
            Ok::<(), Failed>(())
        })
    };
    let tests = vec![
        test("a_taken_address_is_named_with_what_to_do", a_taken_address_is_named_with_what_to_do),
        test("a_database_in_use_is_named", a_database_in_use_is_named),
        test(
            "a_database_in_a_missing_folder_is_refused_with_the_folder",
            a_database_in_a_missing_folder_is_refused_with_the_folder,
        ),
        test("a_missing_token_file_is_named", a_missing_token_file_is_named),
        test("a_token_file_that_others_may_read_is_refused", a_token_file_that_others_may_read_is_refused),
        test("an_unknown_flag_is_refused_with_the_nearest_one", an_unknown_flag_is_refused_with_the_nearest_one),
        test("a_program_with_a_runtime_is_told_what_to_call", a_program_with_a_runtime_is_told_what_to_call),
        test("a_value_that_cannot_be_used_is_wrong_usage", a_value_that_cannot_be_used_is_wrong_usage),
        test(
            "settings_that_contradict_each_other_are_wrong_usage",
            settings_that_contradict_each_other_are_wrong_usage,
        ),
        test("a_secret_that_is_not_there_is_named", a_secret_that_is_not_there_is_named),
        test("a_server_that_is_ready_says_what_its_user_needs", a_server_that_is_ready_says_what_its_user_needs),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

fn program(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg0(PROGRAM).args(args).env("RUST_BACKTRACE", "1").env("LONGHAUL_LOG", "off").stdin(Stdio::null());
    command
}

/// The exit code and the words of a program that does not start.
#[track_caller]
fn refused(args: &[&str]) -> (i32, String) {
    let ended = program(args).output().unwrap();
    assert!(ended.stdout.is_empty(), "{}", String::from_utf8_lossy(&ended.stdout));
    let said = String::from_utf8(ended.stderr).unwrap();
    for noise in ["Error:", "Caused by", "backtrace", "panicked", "Os {"] {
        assert!(!said.contains(noise), "{noise}: {said}");
    }
    (ended.status.code().unwrap(), said)
}

/// The same for a mistake that has nothing to do with flags: it is one line.
#[track_caller]
fn cannot_start(args: &[&str]) -> String {
    let (code, said) = refused(args);
    assert_eq!((code, said.lines().count()), (1, 1), "{said}");
    assert!(said.starts_with("error: "), "{said}");
    said
}

#[track_caller]
fn is_wrong_usage(args: &[&str]) -> String {
    let (code, said) = refused(args);
    assert_eq!(code, 2, "{said}");
    said
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn a_taken_address_is_named_with_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = cannot_start(&["--listen", &address, "--db", ":memory:"]);
    assert!(said.contains(&address) && said.contains("choose another address with --listen"), "{said}");
}

fn a_database_in_use_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.db");
    let first = Ready::start(&["--db", text(&file)]);
    let said = cannot_start(&["--listen", "127.0.0.1:0", "--db", text(&file)]);
    assert!(said.contains("another server uses the database") && said.contains("choose another file"), "{said}");
    drop(first);
}

fn a_database_in_a_missing_folder_is_refused_with_the_folder() {
    let said = cannot_start(&["--listen", "127.0.0.1:0", "--db", "/nowhere/at/all.db"]);
    assert!(said.contains("/nowhere/at does not exist: create it"), "{said}");
}

fn a_missing_token_file_is_named() {
    let said = cannot_start(&[
        "--listen",
        "127.0.0.1:0",
        "--db",
        ":memory:",
        "--auth",
        "bearer",
        "--token-file",
        "/no/tokens",
    ]);
    assert!(said.contains("/no/tokens") && said.contains("check its path and its permissions"), "{said}");
}

fn a_token_file_that_others_may_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    std::fs::write(&file, "alice 0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let said =
        cannot_start(&["--listen", "127.0.0.1:0", "--db", ":memory:", "--auth", "bearer", "--token-file", text(&file)]);
    assert!(said.contains("chmod 600"), "{said}");
}

fn an_unknown_flag_is_refused_with_the_nearest_one() {
    let said = is_wrong_usage(&["--lissen", "127.0.0.1:0"]);
    assert!(said.contains("unexpected argument '--lissen'") && said.contains("'--listen'"), "{said}");
    assert!(said.contains("knows Longhaul's flags only") && said.contains("longhaul::serve::Args"), "{said}");
}

fn a_program_with_a_runtime_is_told_what_to_call() {
    let ended = program(&["--db", ":memory:"]).arg0(NESTED).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!((ended.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("call `longhaul::serve(server, options).await` instead"), "{said}");
}

fn a_value_that_cannot_be_used_is_wrong_usage() {
    let said = is_wrong_usage(&["--lease-ms", "soon"]);
    assert!(said.contains("--lease-ms is `soon`"), "{said}");
    let said = is_wrong_usage(&["--listen", "127.0.0.1:0", "--db", ":memory:", "--allow-origin", "app.example.com"]);
    assert!(said.contains("--allow-origin is `app.example.com`; `app.example.com` is not an origin"), "{said}");
}

/// These are read together, after the flags were understood.
fn settings_that_contradict_each_other_are_wrong_usage() {
    let said = is_wrong_usage(&["--listen", "0.0.0.0:0", "--db", ":memory:"]);
    assert!(said.contains("--auth anonymous"), "{said}");
}

fn a_secret_that_is_not_there_is_named() {
    let said = cannot_start(&["--listen", "127.0.0.1:0", "--db", ":memory:", "--secret", "KEY=file:/no/key"]);
    assert!(said.contains("the secret `KEY` cannot be read from /no/key"), "{said}");
}

fn a_server_that_is_ready_says_what_its_user_needs() {
    let said = Ready::start(&["--db", ":memory:"]).said.clone();
    let url = said.split_whitespace().find(|word| word.ends_with("/mcp")).unwrap();
    assert!(said.starts_with("shop serves MCP on http://127.0.0.1:"), "{said}");
    assert!(said.contains("2 (1 durable)") && said.contains("in memory only"), "{said}");
    assert!(said.contains(&url.replace("/mcp", "/console")), "{said}");
    let client = format!(r#"{{"mcpServers":{{"shop":{{"type":"http","url":"{url}"}}}}}}"#);
    assert!(said.contains(&client), "{said}");
}

/// A program that serves. Killed when dropped.
struct Ready {
    child: std::process::Child,
    said: String,
}

impl Ready {
    fn start(args: &[&str]) -> Self {
        let mut child = program(args).args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        let mut said = String::new();
        while !said.contains("mcpServers") {
            said += &lines.next().expect("it serves").unwrap();
            said.push('\n');
        }
        Self { child, said }
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
