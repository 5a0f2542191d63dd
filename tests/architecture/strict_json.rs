//! `longhaul_core::strict_json` reads all JSON that others wrote, and `serde_json` alone never does. The latter reads
//! structures from lists too: `[1]` was once read as a message of Longhaul, and deleted.

use std::path::Path;

use crate::includes::rust_files;
use crate::root;

/// The folders of sources that are not product code, and of crates that read no structures from outside.
const NOT_READ: &[(&str, &str)] = &[
    ("bench", "never deployed"),
    ("chaos", "never deployed"),
    ("client", "reads values, member by member: it derives no readers"),
    ("conformance", "never deployed"),
    ("console", "reads values, member by member: it derives no readers"),
    ("fixtures", "never deployed"),
    ("fuzz", "never deployed"),
    ("harness", "never deployed"),
    ("published", "never deployed"),
    ("sim", "never deployed"),
    ("sqlite", "reads what it has written"),
    ("testkit", "for tests"),
];

/// Files that still do, and why.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("crates/app/src/tools/diagnostics.rs", "an answer that was checked against its question"),
    ("crates/app/src/tools/profile_dataset/chunk.rs", "rows as maps and texts, of which none is a structure"),
    ("crates/cli/src/verbose.rs", "shows any JSON, member by member"),
    ("crates/core/src/settings/bundles.rs", "reads an object member by member, and finds doubled names"),
    ("crates/core/src/strict_json.rs", "where it is done"),
    ("crates/gateway/src/jobs/aws.rs", "reads any JSON, member by member"),
    ("crates/gateway/src/jobs/http_job.rs", "reads any JSON, member by member"),
    ("crates/gateway/src/jobs/step_functions.rs", "reads any JSON, member by member"),
    ("crates/mcp/src/tool_calls/asking.rs", "answers, which the router has found to be objects"),
];

/// Whether the product code of a source file reads JSON by `serde_json`. Its tests come last.
fn reads_loosely(source: &str) -> bool {
    let product = source.split("\n#[cfg(test)]").next().unwrap_or_default();
    let lines = product.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut words = lines.flat_map(|line| line.split(|next: char| !(next.is_alphanumeric() || "_:".contains(next))));
    words.any(|word| {
        let of_serde_json = word.strip_prefix("serde_json::").unwrap_or_default();
        of_serde_json.starts_with("from_") || of_serde_json.contains("Deserializer")
    })
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

#[test]
fn structures_are_read_from_objects_only() {
    let crates = root().join("crates");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&crates).expect("the folder can be read") {
        let folder = entry.expect("the folder can be read").path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if folder.join("src").is_dir() && NOT_READ.iter().all(|(other, _why)| *other != name) {
            rust_files(&folder.join("src"), &mut files);
        }
    }
    assert!(files.len() > 300, "{} files were found", files.len());
    let mut found: Vec<String> = files
        .into_iter()
        .filter(|file| reads_loosely(&std::fs::read_to_string(file).expect("a source file is text")))
        .map(|file| file.strip_prefix(root()).expect("it is below the root").to_string_lossy().into_owned())
        .filter(|file| !is_test(file))
        .collect();
    found.sort();
    let expected: Vec<_> = EXCEPTIONS.iter().map(|(file, _why)| (*file).to_owned()).collect();
    assert_eq!(found, expected, "left: the files that read by serde_json alone, right: the exceptions of this test");
}

/// Crates that are left out because they derive no readers still derive none.
#[test]
fn crates_that_are_left_out_derive_no_readers() {
    for (name, _why) in NOT_READ.iter().filter(|(_, why)| why.contains("derives no readers")) {
        let mut files = Vec::new();
        rust_files(&root().join("crates").join(name).join("src"), &mut files);
        for file in files.iter().filter(|file| !is_test(&file.to_string_lossy())) {
            let source = std::fs::read_to_string(Path::new(file)).expect("a source file is text");
            assert!(!source.contains("Deserialize"), "{}", file.display());
        }
    }
}

#[test]
fn a_loose_reader_is_noticed() {
    for source in
        ["let a: A = serde_json::from_str(text)?;", "serde_json::from_slice::<A>(b)", "use serde_json::from_str;"]
    {
        assert!(reads_loosely(source), "{source}");
    }
    assert!(!reads_loosely(
        "strict_json::from_str(text);\n// serde_json::from_str\n#[cfg(test)]\nserde_json::from_str(t)"
    ));
}
