//! The table of a handler's methods on the page about existing servers, compared with what passes them on.

use std::collections::BTreeSet;
use std::fs::read_to_string;

/// The methods that the durable handler implements: all of the trait, since a lint refuses it without one of them.
fn implemented(source: &str) -> BTreeSet<String> {
    let (_, own) = source.split_once("ServerHandler for Durable<H> {").expect("the implementation");
    let own = own.lines().take_while(|line| *line != "}");
    let name = |line: &str| {
        let line = line.trim_start();
        let line = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn ")).or_else(|| {
            // A line of the macro that passes methods on.
            (line.ends_with("-> (),") || line.ends_with("Result,") || line.ends_with("),")).then_some(line)
        })?;
        let (name, _) = line.split_once(['(', '<'])?;
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        is_name.then(|| name.to_owned())
    };
    own.filter(|line| {
        line.starts_with("    fn ") || line.starts_with("    async fn ") || line.starts_with("            ")
    })
    .filter(|line| !line.contains(';') && !line.contains("self."))
    .filter_map(name)
    .collect()
}

#[test]
fn the_page_about_existing_servers_says_what_happens_to_each_method_of_a_handler() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let methods = implemented(&read_to_string(format!("{root}/crates/mcp/src/durable.rs")).unwrap());
    assert!(methods.len() > 25 && methods.contains("on_initialized"), "{methods:?}");
    let page = read_to_string(format!("{root}/docs/existing-server.md")).unwrap();
    let table = page.split("<!-- hooks -->").nth(1).and_then(|rest| rest.split("<!-- /hooks -->").next()).unwrap();
    let rows = table.lines().filter_map(|row| row.strip_prefix("| `")?.split(" |").next().map(str::to_owned));
    let listed: BTreeSet<String> =
        rows.flat_map(|row| row.split(", ").map(|name| name.replace('`', "")).collect::<Vec<_>>()).collect();
    assert_eq!(listed, methods);
}
