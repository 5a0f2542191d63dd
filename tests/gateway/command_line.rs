//! The command's messages to its user.

use std::process::{Command, Output};

use super::process::Setup;

/// Its exit code, and all that it writes.
fn said(args: &[&str]) -> (i32, String) {
    let Output { status, stdout, stderr } = Command::new(harness::program("longhaul")).args(args).output().unwrap();
    (status.code().unwrap(), String::from_utf8([stdout, stderr].concat()).unwrap())
}

#[test]
fn help_and_version_are_no_errors() {
    for args in [&["--help"][..], &["help"], &["gateway", "--help"]] {
        let (code, text) = said(args);
        assert!(code == 0 && text.contains("gateway"), "{args:?}: {text}");
    }
    assert!(said(&["gateway", "--help"]).1.contains("--config <FILE>"));
    for args in [&["--version"][..], &["gateway", "--version"]] {
        assert!(said(args).1.contains(env!("CARGO_PKG_VERSION")));
    }
}

#[test]
fn what_cannot_be_understood_says_what_to_write() {
    let cases: [(&[&str], &str); 6] = [
        (&[], "Usage: longhaul"),
        (&["gatewy"], "unrecognized subcommand 'gatewy'"),
        (&["gateway"], "name the servers with `--config FILE`"),
        (&["gateway", "--config", "a.json", "--", "x"], "leave out one"),
        (&["gateway", "--config", "no/such/file.json"], "no/such/file.json cannot be read"),
        (&["gateway", "--no-such-flag", "--", "x"], "--no-such-flag"),
    ];
    for (args, expected) in cases {
        let (code, text) = said(args);
        assert!(code == 2 && text.contains(expected), "{args:?}: {code}, {text}");
    }
}

#[test]
fn a_command_that_is_not_there_is_named() {
    let setup = Setup::command(&["no-such-command"]);
    let said = setup.refusal();
    assert!(
        said.contains("the command `no-such-command` was not found: install it, or write its whole path"),
        "{said}"
    );
}

#[test]
fn an_address_that_is_taken_is_reported_before_a_server_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let touch = ["--", "touch", started.to_str().unwrap()];
    let (code, text) = said(&[&["gateway", "--db", ":memory:", "--listen", &address][..], &touch].concat());
    assert!(code == 1 && text.contains(&format!("error: cannot listen on {address}")), "{code}, {text}");
    assert!(!started.exists(), "the server was started");
}
