//! Callers of one server whose tokens differ see nothing of each other: not in an answer, not in its status or headers.
//! `crates/mcp/tests/endpoint/isolation.rs` compares the cost of their calls.

use std::os::unix::fs::PermissionsExt;

use harness::protocol_versions::Naming;
use harness::seen::{Client, assert_is_denied, assert_sees_its_own, assert_sees_nothing};
use serde_json::Value;

use super::process::Setup;

const ANN: &str = "annannannannannannannannannannannann";
const BOB: &str = "bobbobbobbobbobbobbobbobbobbobbobbob";
const NOBODY: &str = "evaevaevaevaevaevaevaevaevaevaevaeva";

/// Nothing is left out.
pub(super) const fn all(_: &Naming) -> bool {
    true
}

fn guarded() -> Setup {
    let mut setup = Setup::with(&["--diagnostics", "--auth", "bearer", "--log-format", "json", "--log", "warn"]);
    let file = setup.folder().join("tokens");
    std::fs::write(&file, format!("ann {ANN}\nbob {BOB}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    setup.add(&["--token-file", file.to_str().unwrap()]);
    setup
}

#[tokio::test]
async fn what_belongs_to_others_is_like_what_does_not_exist_in_every_protocol_version() {
    let setup = guarded();
    let server = setup.start();
    let ann = Client::new(server.url(), Some(ANN), all);
    let (task, sessions) = (ann.begin().await, ann.sessions().await);
    assert_sees_nothing("bob", &Client::new(server.url(), Some(BOB), all), &task, &sessions).await;
    let shown = server.caller().with_token(ANN).get(&task).await;
    assert_eq!(shown["status"], "working", "nobody changed anything");
    assert_sees_its_own(&ann, &task).await;
}

/// The answer to a caller who was not let in shows nothing about the request, and the audit log has each such caller.
#[tokio::test]
async fn a_caller_who_is_not_let_in_gets_the_same_answer_to_everything() {
    let setup = guarded();
    let server = setup.start();
    let ann = Client::new(server.url(), Some(ANN), all);
    let (task, sessions) = (ann.begin().await, ann.sessions().await);
    for token in [None, Some(NOBODY)] {
        assert_is_denied("eve", &Client::new(server.url(), token, all), &task, &sessions).await;
    }
    let log = server.log();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let denied: Vec<&Value> = lines.iter().filter(|line| line["event"] == "login").collect();
    assert!(denied.iter().all(|line| line["outcome"] == "denied" && line["address"] == "127.0.0.1"), "{log}");
    // Two floods of a few hundred requests, of which the last ones are counted and not written yet.
    assert!((2..40).contains(&denied.len()), "{}", denied.len());
    for secret in [ANN, BOB, NOBODY] {
        assert!(!log.contains(secret), "{log}");
    }
}
