//! No modules of a crate import each other, neither directly nor through others: the libraries and the programs of all
//! crates are read.
//!
//! A parent and its own child are two modules like any others: if each imports something of the other, that is
//! a circle. A parent that only declares its child, or re-exports what is in it, does not import it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::modules::{Imports, cycles, imports};
use crate::{metadata, root, short};

/// The circles that are left: the crate, and the modules. This list only shrinks. A circle that is removed, or that has
/// lost a module, is removed from the list or shortened in it by the same change.
const KNOWN: &[(&str, &[&str])] = &[
    ("gateway", &["call", "call::conversation"]),
    (
        "gateway",
        &[
            "config",
            "config::choice",
            "config::credentials",
            "config::fold",
            "config::outside",
            "config::outside::http",
            "config::read",
            "config::reader",
            "config::terms",
            "upstream",
            "upstream::client",
            "upstream::http",
            "upstream::pool",
            "upstream::remote_tasks",
            "upstream::tasks",
            "upstream::updates",
        ],
    ),
    ("gateway", &["gateway", "lock", "lock::diff"]),
];

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

type Circle = (String, BTreeSet<String>);

fn circles() -> BTreeSet<Circle> {
    let of =
        |(name, file): (String, PathBuf)| cycles(&imports(&file)).into_iter().map(move |circle| (name.clone(), circle));
    roots().into_iter().flat_map(of).collect()
}

#[test]
fn no_modules_of_any_crate_import_each_other() {
    let known: BTreeSet<Circle> = KNOWN
        .iter()
        .map(|(name, modules)| ((*name).to_owned(), modules.iter().map(|module| (*module).to_owned()).collect()))
        .collect();
    let found = circles();
    let new: Vec<&Circle> = found.difference(&known).collect();
    assert!(new.is_empty(), "modules that import each other: {new:#?}");
    let gone: Vec<&Circle> = known.difference(&found).collect();
    assert!(gone.is_empty(), "these circles are no longer there: remove them from the list: {gone:#?}");
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
