//! No modules of a crate import each other, neither directly nor through others: the libraries and the programs of all
//! crates are read.
//!
//! A parent and its own child are two modules like any others: if each imports something of the other, that is
//! a circle. A parent that only declares its child, or re-exports what is in it, does not import it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::modules::{Imports, cycles, imports};
use crate::{metadata, root, short};

/// The crate and the root file of every library and program in the workspace.
pub(crate) fn roots() -> Vec<(String, PathBuf)> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("there are packages");
    let mut roots = Vec::new();
    for package in packages {
        let name = short(package["name"].as_str().expect("a package has a name"));
        for target in package["targets"].as_array().expect("a package has targets") {
            let kind = target["kind"][0].as_str().expect("a target has a kind");
            if ["lib", "bin"].contains(&kind) {
                let file = target["src_path"].as_str().expect("a target has a root");
                roots.push((name.clone(), PathBuf::from(file)));
            }
        }
    }
    roots
}

#[test]
fn no_modules_of_any_crate_import_each_other() {
    for (name, file) in roots() {
        let circles = cycles(&imports(&file));
        assert!(circles.is_empty(), "modules of {name} that import each other: {circles:#?}");
    }
}

#[test]
fn all_crates_are_read() {
    let read: BTreeSet<String> = roots().into_iter().map(|(name, _)| name).collect();
    let folders = std::fs::read_dir(root().join("crates")).expect("the folder can be read");
    let folders = folders.map(|entry| entry.expect("the folder can be read").path());
    let with_sources = folders.filter(|path| path.join("src").is_dir());
    let missing: Vec<PathBuf> =
        with_sources.filter(|path| !read.contains(&*path.file_name().unwrap_or_default().to_string_lossy())).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn a_circle_is_noticed() {
    let edges = |edges: &[(&str, &str)]| -> Imports {
        edges.iter().map(|(from, to)| ((*from).to_owned(), BTreeSet::from([(*to).to_owned()]))).collect()
    };
    assert_eq!(cycles(&edges(&[("a", "b"), ("b", "c"), ("c", "d")])), Vec::<BTreeSet<String>>::new());
    let circle = BTreeSet::from(["b", "c", "d"].map(str::to_owned));
    assert_eq!(cycles(&edges(&[("a", "b"), ("b", "c"), ("c", "d"), ("d", "b")])), [circle]);
}
