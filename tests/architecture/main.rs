//! Holds the crates' dependencies, and the imports of their modules, to the tables in `ARCHITECTURE.md`.

#![expect(clippy::indexing_slicing, clippy::panic, reason = "a test may end by a panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

mod circles;
mod commands;
mod includes;
mod layers;
mod modules;
mod pages;
mod security;
mod strict_json;

type Edges = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Cargo's metadata of the workspace's packages.
fn metadata() -> serde_json::Value {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo can be run");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("cargo prints JSON")
}

/// The dependencies among the workspace's crates, without those that only tests need.
fn real_edges() -> Edges {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("there are packages");
    let names: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let edges_of = |package: &serde_json::Value| {
        let dependencies = package["dependencies"].as_array().expect("a package has a list of dependencies").iter();
        let ours = dependencies.filter(|dependency| dependency["kind"].is_null());
        ours.filter_map(|dependency| dependency["name"].as_str())
            .filter(|name| names.contains(name))
            .map(short)
            .collect()
    };
    packages
        .iter()
        .map(|package| (short(package["name"].as_str().expect("a package has a name")), edges_of(package)))
        .collect()
}

/// The rows of the table between the two marks of this name.
fn table(mark: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md exists");
    let table = text.split(&format!("<!-- {mark} -->")).nth(1).expect("the table is between its marks");
    let table = table.split(&format!("<!-- /{mark} -->")).next().expect("splitting gives something");
    table.lines().filter(|line| line.starts_with("| `")).map(str::to_owned).collect()
}

/// The cells of a row of three.
fn cells(row: &str) -> [&str; 3] {
    let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
    cells.try_into().unwrap_or_else(|cells| panic!("three cells: {cells:?}"))
}

/// The dependencies in the table.
fn documented_edges() -> Edges {
    table("crates")
        .iter()
        .map(|row| {
            let [name, _what, edges] = cells(row);
            let edges = edges.split(',').map(|edge| edge.trim().to_owned()).filter(|edge| !edge.is_empty()).collect();
            (short(name.trim_matches('`')), edges)
        })
        .collect()
}

fn short(name: &str) -> String {
    name.strip_prefix("longhaul-").unwrap_or(name).to_owned()
}

#[test]
fn the_crates_depend_on_each_other_as_documented() {
    assert_eq!(real_edges(), documented_edges(), "left: Cargo.toml files, right: ARCHITECTURE.md");
}

#[test]
fn the_core_depends_on_neither_mcp_nor_aws_nor_a_runtime() {
    let out = Command::new(env!("CARGO"))
        .args(["tree", "--package", "longhaul-core", "--edges", "normal", "--prefix", "none", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo can be run");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let tree = String::from_utf8_lossy(&out.stdout);
    for dependency in ["rmcp", "aws", "tokio", "hyper", "rusqlite"] {
        assert!(!tree.lines().any(|line| line.starts_with(dependency)), "{dependency} is below longhaul-core:\n{tree}");
    }
}

#[test]
fn the_map_is_short_enough_to_read() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md exists");
    assert!(text.lines().count() <= 400);
    let glossary = text.split("\n## Glossary\n").nth(1).and_then(|rest| rest.split("\n## ").next());
    let rows = glossary.expect("there is a glossary").lines().filter(|line| line.starts_with("| ")).skip(2).count();
    assert!((1..=60).contains(&rows), "{rows} words of our own: use those of MCP, HTTP, AWS, SQL and Rust");
}
