//! `longhaul token` on the file of a server: what it shows, to whom, and what the server then accepts.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Instant;

use crate::command::{Said, Setup};
use crate::servers::{PATIENCE, Server};
use crate::terminal::at_terminal;

fn mode(file: &Path) -> u32 {
    std::fs::metadata(file).unwrap().permissions().mode() & 0o777
}

fn text(setup: &Setup, file: &str) -> String {
    std::fs::read_to_string(setup.folder().join(file)).unwrap().trim().to_owned()
}

/// Adds a token to `tokens`, and writes it to `NAME.token`.
fn add(setup: &Setup, name: &str, more: &[&str]) -> Said {
    let out = format!("{name}.token");
    setup.run(&[&["token", "add", name, "--file", "tokens", "--out", &out], more].concat())
}

/// Waits until the server accepts the token or no longer does.
fn until(setup: &Setup, token: &str, code: i32) {
    let (begun, header) = (Instant::now(), format!("Authorization: Bearer {token}"));
    while setup.run(&["tools", "-H", &header]).code != code {
        assert!(begun.elapsed() < PATIENCE, "the server does not take over the change");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

#[test]
fn a_token_is_added_used_listed_and_revoked() {
    let setup = Setup::new();
    let added = add(&setup, "ann", &[]).out();
    let token = text(&setup, "ann.token");
    assert!(token.starts_with("longhaul_") && token.len() > 70, "{token}");
    assert_eq!((mode(&setup.folder().join("tokens")), mode(&setup.folder().join("ann.token"))), (0o600, 0o600));
    assert!(!added.contains(&token) && !text(&setup, "tokens").contains(&token), "{added}");
    assert!(added.contains(&setup.url) && added.contains("claude mcp add"), "{added}");

    let flags = ["--auth", "bearer", "--token-file", "tokens"];
    let file = setup.folder().join("tokens");
    let flags = [&flags[..3], &[file.to_str().unwrap()]].concat();
    let _server = Server::local_with(setup.folder(), setup.port, &flags);
    until(&setup, &token, 0);
    add(&setup, "laptop", &["--owner", "ann", "--scope", "call,read", "--expires", "90d"]).out();
    until(&setup, &text(&setup, "laptop.token"), 0);
    let listed = setup.run(&["token", "list", "--file", "tokens"]).out();
    let rows: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "OWNER", "EXPIRES", "SCOPES"], "{listed}");
    assert_eq!(rows[1], ["ann", "ann", "never", "all"], "{listed}");
    assert_eq!((&rows[2][..2], &rows[2][3..]), (&["laptop", "ann"][..], &["call", "read"][..]), "{listed}");

    assert_eq!(setup.run(&["token", "revoke", "ann", "laptop", "--file", "tokens"]).out(), "revoked: ann, laptop");
    until(&setup, &token, 3);
    assert!(text(&setup, "tokens").starts_with('#'), "a list without tokens is not an empty one");
}

#[test]
fn a_token_is_shown_on_a_terminal_once_and_nowhere_else() {
    let setup = Setup::new();
    let refused = setup.run(&["token", "add", "ann", "--file", "tokens"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("--out FILE") && refused.out.is_empty(), "{refused:?}");
    assert!(!setup.folder().join("tokens").exists(), "nothing is added");
    let mut session = at_terminal(&setup, "token add ann --file tokens");
    let shown = session.exp_eof().unwrap();
    assert!(shown.contains("longhaul_") && shown.contains("shown this once"), "{shown}");
    let listed = setup.run(&["token", "list", "--file", "tokens", "--json"]).json();
    assert_eq!((&listed["name"], listed.to_string().contains("longhaul_")), (&"ann".into(), false), "{listed}");
}

#[test]
fn what_cannot_be_done_is_one_sentence_and_changes_nothing() {
    let setup = Setup::new();
    add(&setup, "ann", &[]).out();
    let before = text(&setup, "tokens");
    let refuses = |said: Said, why: &str| {
        assert_eq!((said.code, said.err.trim().lines().count()), (2, 1), "{said:?}");
        assert!(said.err.contains(why), "{said:?}");
        assert_eq!(text(&setup, "tokens"), before);
    };
    let again = setup.run(&["token", "add", "ann", "--file", "tokens", "--out", "other"]);
    refuses(again, "there is a token with the name `ann` already");
    assert!(!setup.folder().join("other").exists(), "a token that is not added is not left behind");
    refuses(setup.run(&["token", "add", "bob", "--file", "tokens", "--out", "ann.token"]), "exists already");
    refuses(add(&setup, "b/b", &[]), "the name must have 1 to 64");
    refuses(add(&setup, "bob", &["--owner", "b/b"]), "`owner=` must be");
    refuses(add(&setup, "bob", &["--scope", "a\"b"]), "a scope must have");
    refuses(setup.run(&["token", "revoke", "bob", "--file", "tokens"]), "there is no token `bob`");
    let past = add(&setup, "bob", &["--expires", "2020-01-01"]);
    assert!(past.code == 2 && past.err.contains("in the past"), "{past:?}");
    std::fs::write(setup.folder().join("tokens"), "ann short\n").unwrap();
    let unreadable = setup.run(&["token", "list", "--file", "tokens"]);
    assert!(unreadable.code == 2 && unreadable.err.contains("line 1: a token must have 32"), "{unreadable:?}");
    std::fs::set_permissions(setup.folder().join("tokens"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let open = setup.run(&["token", "list", "--file", "tokens"]);
    assert!(open.code == 2 && open.err.contains("chmod 600"), "{open:?}");
}

#[test]
fn changes_at_the_same_time_lose_nothing() {
    let setup = Setup::new();
    let names: Vec<String> = (0..8).map(|number| format!("n{number}")).collect();
    let out = |name: &str| format!("{name}.token");
    let all: Vec<_> = names
        .iter()
        .map(|name| setup.command(&["token", "add", name, "--file", "tokens", "--out", &out(name)]).spawn().unwrap())
        .collect();
    all.into_iter().for_each(|child| drop(Setup::end(child).out()));
    let listed = setup.run(&["token", "list", "--file", "tokens", "--json"]).out();
    assert_eq!(listed.lines().count(), names.len(), "{listed}");
}
