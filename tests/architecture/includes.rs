//! No file includes another one by `#[path]`: it would be compiled once for each of them. `crates/harness` has the code
//! that tests of several crates need.

use std::path::{Path, PathBuf};

use crate::root;

/// The files that still do, how often, and why.
const EXCEPTIONS: &[(&str, usize, &str)] = &[
    (
        "crates/fuzz/src/world.rs",
        2,
        "the backend of an example in the tests of `longhaul`, which shows one file for each port",
    ),
    (
        "crates/lambda/tests/instructions/main.rs",
        2,
        "counts in a program of its own; it needs internals of the crate's tests",
    ),
    ("tests/aws_e2e/mod.rs", 4, "the tests of `tests/e2e`, compiled for a deployed server"),
    ("tests/aws_e2e/on_host.rs", 3, "the tests of `tests/e2e`, compiled for functions on the Runtime API host"),
];

/// All Rust files below a folder, without what was built or installed.
pub(crate) fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && !name.starts_with('.') && !["target", "node_modules"].contains(&&*name) {
            rust_files(&path, found);
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

/// How many modules a file takes from a path that it names.
fn includes(text: &str) -> usize {
    text.lines().filter(|line| line.trim_start().starts_with("#[path")).count()
}

#[test]
fn no_file_includes_another_one_by_its_path() {
    let mut files = Vec::new();
    rust_files(&root(), &mut files);
    assert!(files.len() > 500, "{} files were found", files.len());
    let mut found = Vec::new();
    for file in files {
        let count = includes(&std::fs::read_to_string(&file).expect("a source file is text"));
        let name = file.strip_prefix(root()).expect("it is below the root").to_string_lossy().into_owned();
        found.extend((count > 0).then_some((name, count)));
    }
    found.sort();
    let expected: Vec<_> = EXCEPTIONS.iter().map(|(file, count, _why)| ((*file).to_owned(), *count)).collect();
    assert_eq!(found, expected, "left: the files, right: the exceptions of this test");
}

#[test]
fn an_include_is_noticed() {
    assert_eq!(includes("mod a;\n    #[path = \"../b.rs\"]\nmod b;\n// Not #[path]: this.\n"), 1);
}
