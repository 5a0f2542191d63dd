//! Holds `docs/security.md` to the tests that it names, and the checks of dependencies to where they are made.

use std::collections::BTreeSet;

use crate::root;

fn file(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The tests that a page names, as a path and the name of a function.
fn named(page: &str) -> BTreeSet<(&str, &str)> {
    page.split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|code| code.split_once("::"))
        .filter(|(path, _)| path.contains('/'))
        .collect()
}

/// Why the test does not exist, if it does not.
fn missing((path, name): (&str, &str)) -> Option<String> {
    let Ok(source) = std::fs::read_to_string(root().join(path)) else { return Some(format!("{path} does not exist")) };
    let declared = ["fn ", "def ", "test(\"", "test('"].iter().any(|before| {
        source
            .split(&format!("{before}{name}"))
            .skip(1)
            .any(|after| !after.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
    });
    // A macro makes a test of each name in its list.
    let listed = source.contains(&format!(" {name},"));
    (!declared && !listed).then(|| format!("{path} has no test {name}"))
}

#[test]
fn the_tests_that_the_security_page_names_exist() {
    let page = file("docs/security.md");
    let tests = named(&page);
    assert!(tests.len() > 50, "the page names its tests as `path::name`");
    let gone: Vec<_> = tests.into_iter().filter_map(missing).collect();
    assert!(gone.is_empty(), "{gone:#?}");
}

#[test]
fn every_threat_has_a_test_or_is_said_to_be_open() {
    let page = file("docs/security.md");
    let threats =
        page.split("\n## Threats").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("there are threats");
    let rows = threats
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| threat") && !line.starts_with("| ---"));
    let bare: Vec<_> = rows.filter(|row| named(row).is_empty() && !row.contains("**open**")).collect();
    assert!(bare.is_empty(), "{bare:#?}");
}

#[test]
fn a_test_that_does_not_exist_is_noticed() {
    assert_eq!(missing(("tests/architecture/security.rs", "a_test_that_does_not_exist_is_noticed")), None);
    for (path, name) in [("tests/architecture/security.rs", "a_test_that"), ("tests/architecture/gone.rs", "x")] {
        assert!(missing((path, name)).is_some(), "{path}::{name}");
    }
}

/// `make check` has to work without a network, and the database of advisories is on one.
#[test]
fn advisories_are_checked_where_there_is_a_network() {
    let (make, workflow) = (file("Makefile"), file(".github/workflows/ci.yml"));
    assert!(make.contains("cargo-deny --locked check bans licenses sources\n"), "make lint checks the rest");
    assert!(make.contains("cargo-deny --locked check advisories\n"), "make advisories");
    assert!(workflow.contains("- run: make advisories\n"), "the workflow runs it");
}
