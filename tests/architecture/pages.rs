//! Holds pages of `docs` to the code that they describe: errors, log messages and the tutorial; and the README to its
//! length.

use std::collections::BTreeSet;
use std::path::Path;

use crate::root;

/// Crates whose errors clients get.
const ANSWERING: [&str; 4] = ["http", "lambda", "longhaul", "mcp"];
const README_LINES_MAX: usize = 120;

fn file(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All sources below a folder, without their unit tests.
fn sources(folder: &Path, all: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("a folder can be read").path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            let text = std::fs::read_to_string(&path).expect("a source can be read");
            let product = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
            // A string of several lines is one string.
            all.extend(
                product.split("\\\n").enumerate().map(|(at, part)| if at == 0 { part } else { part.trim_start() }),
            );
        }
    }
}

fn sources_of(crates: &[&str]) -> String {
    let mut all = String::new();
    for name in crates {
        sources(&root().join("crates").join(name).join("src"), &mut all);
    }
    all
}

/// The first cells of the table in this section of a page.
fn first_cells<'a>(page: &'a str, section: &str) -> BTreeSet<&'a str> {
    let section = page.split(&format!("\n## {section}\n")).nth(1).unwrap_or_else(|| panic!("no section {section}"));
    let table = section.split("\n## ").next().unwrap_or_default();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    rows.skip(1).filter(|cell| !cell.starts_with("---")).map(|cell| cell.trim_matches('`')).collect()
}

#[test]
fn every_json_rpc_code_of_the_server_is_on_the_page_of_errors() {
    let code = sources_of(&ANSWERING).replace("-32_", "-32");
    let used = code.match_indices("-32").map(|(at, _)| code.get(at..at + 6).unwrap_or_default());
    let used: BTreeSet<&str> = used.filter(|code| code.bytes().skip(1).all(|digit| digit.is_ascii_digit())).collect();
    assert_eq!(first_cells(&file("docs/errors.md"), "JSON-RPC codes"), used);
}

#[test]
fn every_http_status_of_the_server_is_on_the_page_of_errors() {
    let code = sources_of(&ANSWERING);
    let used = code.split("StatusCode::").skip(1).map(|rest| {
        rest.split(|next: char| !next.is_ascii_uppercase() && next != '_').next().unwrap_or_default().to_owned()
    });
    let used: BTreeSet<String> = used.filter(|name| name.len() > 1).collect();
    let page = file("docs/errors.md");
    let named = first_cells(&page, "HTTP statuses").into_iter();
    let named = named.filter_map(|cell| Some(cell.split_once(' ')?.1.to_uppercase().replace(' ', "_")));
    assert_eq!(named.collect::<BTreeSet<_>>(), used);
}

#[test]
fn every_kind_of_failure_is_on_the_page_of_errors() {
    let views = file("crates/mcp/src/views/fields.rs");
    let arms = views.split("const fn reason(").nth(1).and_then(|rest| rest.split("\n}").next()).expect("reason");
    let reasons: BTreeSet<&str> = arms.split('"').skip(1).step_by(2).collect();
    assert_eq!(first_cells(&file("docs/errors.md"), "Failures of a task"), reasons);
}

/// The text up to the parenthesis that ends it, and the string literals in it.
fn strings_until_end(text: &str) -> Vec<&str> {
    let (mut open, mut strings, mut rest) = (1, Vec::new(), text);
    while let Some(at) = rest.find(['"', '(', ')']) {
        let after = rest.get(at + 1..).unwrap_or_default();
        match rest.as_bytes().get(at) {
            Some(b'(') => open += 1,
            Some(b')') => open -= 1,
            _ => {
                let string = after.split('"').next().unwrap_or_default();
                strings.push(string);
                rest = after.get(string.len() + 1..).unwrap_or_default();
                continue;
            }
        }
        if open == 0 {
            break;
        }
        rest = after;
    }
    strings
}

/// The messages of all lines of the level `ERROR`: the last string of each `error!(…)` that has no field in it.
fn error_messages(code: &str) -> BTreeSet<&str> {
    let logged = code.split("error!(").skip(1).filter_map(|rest| strings_until_end(rest).pop());
    logged.filter(|message| message.contains(' ') && !message.contains('{')).collect()
}

#[test]
fn the_last_string_of_an_error_is_its_message() {
    let code =
        r#"error!(%error, a = f("x y"), "it failed"); match b { 1 => tracing::error!("lost it"), _ => g("no no") }"#;
    assert_eq!(error_messages(code), BTreeSet::from(["it failed", "lost it"]));
}

#[test]
fn the_log_messages_on_the_page_of_errors_are_those_of_the_code() {
    let code = sources_of(&["aws", "core", "engine", "gateway", "http", "lambda", "longhaul", "mcp", "sqlite"]);
    let page = file("docs/errors.md");
    let section = page.split("\n## Log messages\n").nth(1).expect("a section of log messages");
    let named: BTreeSet<&str> =
        section.lines().filter_map(|line| line.strip_prefix("| `")?.split("` |").next()).collect();
    let gone: Vec<_> = named.iter().filter(|message| !code.contains(**message)).collect();
    assert!(gone.is_empty(), "docs/errors.md has log messages that no code writes: {gone:#?}");
    let missing: Vec<_> = error_messages(&code).into_iter().filter(|message| !named.contains(message)).collect();
    assert!(missing.is_empty(), "docs/errors.md does not say what to do about these log messages: {missing:#?}");
}

#[test]
fn the_code_of_the_tutorial_is_that_of_its_example() {
    // An example is a program, which has nothing public.
    let page = file("docs/tutorial.md").replace("pub fn ", "fn ");
    let example = file("crates/longhaul/examples/tutorial.rs");
    let blocks: Vec<&str> =
        page.split("```rust,ignore\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() > 2, "the tutorial shows its code in blocks of `rust,ignore`");
    for block in blocks {
        assert!(example.contains(block), "crates/longhaul/examples/tutorial.rs does not have:\n{block}");
    }
}

#[test]
fn the_readme_is_short() {
    let lines = file("README.md").lines().count();
    assert!(lines <= README_LINES_MAX, "README.md has {lines} lines: move what is not for everybody to its page");
}
