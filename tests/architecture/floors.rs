//! Holds the modules of our crates to two rules: no circle of imports among the files of a crate, and in `mcp` no import
//! that runs up the floors that `ARCHITECTURE.md` draws.
//!
//! A parent and its own child are two modules like any others: where each imports something of the other, that is a
//! circle. A parent that only declares its child, or re-exports what is in it, does not import it.

use std::collections::{BTreeMap, BTreeSet};

use crate::modules::{Imports, circles, imports};
use crate::{cells, root, table};

fn imports_in(name: &str) -> Imports {
    imports(&root().join(format!("crates/{name}/src/lib.rs")))
}

#[track_caller]
fn has_no_circle(name: &str) {
    let circles = circles(&imports_in(name));
    assert!(circles.is_empty(), "modules of {name} that import each other: {circles:#?}");
}

#[test]
fn no_modules_of_mcp_import_each_other() {
    has_no_circle("mcp");
}

#[test]
fn no_modules_of_the_engine_import_each_other() {
    has_no_circle("engine");
}

#[test]
fn no_modules_of_the_testkit_import_each_other() {
    has_no_circle("testkit");
}

/// The floors of `mcp` from the lowest to the highest, and which of the others each imports.
fn drawn_floors() -> Vec<(String, BTreeSet<String>)> {
    let rows = table("floors");
    rows.iter()
        .map(|row| {
            let [floor, _what, imports] = cells(row);
            let imports = imports.split(',').map(|floor| floor.trim().to_owned()).filter(|floor| !floor.is_empty());
            (floor.trim_matches('`').to_owned(), imports.collect())
        })
        .collect()
}

/// The floor of a module: the module itself, one that it is below, or `dialects::*` for everything below `dialects`.
fn floor_of<'a>(floors: &'a [(String, BTreeSet<String>)], module: &str) -> Option<&'a str> {
    floors.iter().map(|(floor, _)| floor.as_str()).find(|floor| match floor.strip_suffix("::*") {
        Some(parent) => module.strip_prefix(parent).is_some_and(|below| below.starts_with("::")),
        None => module.strip_prefix(*floor).is_some_and(|below| below.is_empty() || below.starts_with("::")),
    })
}

#[test]
fn the_floors_of_mcp_import_what_is_below_them_and_nothing_else() {
    let drawn = drawn_floors();
    for (index, (floor, imports)) in drawn.iter().enumerate() {
        let below: BTreeSet<&str> = drawn.iter().take(index).map(|(floor, _)| floor.as_str()).collect();
        let up: Vec<&String> = imports.iter().filter(|import| !below.contains(import.as_str())).collect();
        assert!(up.is_empty(), "ARCHITECTURE.md: `{floor}` imports what is not below it: {up:?}");
    }
    let mut real: BTreeMap<String, BTreeSet<String>> =
        drawn.iter().map(|(floor, _)| (floor.clone(), BTreeSet::new())).collect();
    for (module, imports) in imports_in("mcp") {
        let Some(floor) = floor_of(&drawn, &module) else {
            assert!(imports.is_empty(), "ARCHITECTURE.md has no floor for `{module}`, which imports {imports:?}");
            continue;
        };
        for import in imports {
            let target = floor_of(&drawn, &import).unwrap_or(&import);
            if target != floor {
                real.entry(floor.to_owned()).or_default().insert(target.to_owned());
            }
        }
    }
    assert_eq!(real, drawn.into_iter().collect(), "left: the modules of mcp, right: ARCHITECTURE.md");
}

#[test]
fn no_dialect_imports_another() {
    let dialect = |module: &str| module.strip_prefix("dialects::")?.split("::").next().map(str::to_owned);
    for (module, imports) in imports_in("mcp") {
        let Some(own) = dialect(&module) else { continue };
        let others: Vec<&String> =
            imports.iter().filter(|import| dialect(import).is_some_and(|other| other != own)).collect();
        assert!(others.is_empty(), "`{module}` imports {others:?}");
    }
}
