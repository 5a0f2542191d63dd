//! Checks the imports of the modules of `mcp` against the layers in `ARCHITECTURE.md`: no layer imports a higher one.
//! That no modules import each other is checked for all crates in `circles.rs`.

use std::collections::{BTreeMap, BTreeSet};

use crate::modules::{Imports, imports};
use crate::{cells, root, table};

fn imports_in(name: &str) -> Imports {
    imports(&root().join(format!("crates/{name}/src/lib.rs")))
}

/// The layers of `mcp` from the lowest to the highest, and which of the others each imports.
fn documented_layers() -> Vec<(String, BTreeSet<String>)> {
    let rows = table("layers");
    rows.iter()
        .map(|row| {
            let [layer, _what, imports] = cells(row);
            let imports = imports.split(',').map(|layer| layer.trim().to_owned()).filter(|layer| !layer.is_empty());
            (layer.trim_matches('`').to_owned(), imports.collect())
        })
        .collect()
}

/// The layer of a module: the module itself, one that it is below, or `protocol_versions::*` for everything below
/// `protocol_versions`.
fn layer_of<'a>(layers: &'a [(String, BTreeSet<String>)], module: &str) -> Option<&'a str> {
    layers.iter().map(|(layer, _)| layer.as_str()).find(|layer| match layer.strip_suffix("::*") {
        Some(parent) => module.strip_prefix(parent).is_some_and(|below| below.starts_with("::")),
        None => module.strip_prefix(*layer).is_some_and(|below| below.is_empty() || below.starts_with("::")),
    })
}

#[test]
fn the_layers_of_mcp_import_what_is_below_them_and_nothing_else() {
    let documented = documented_layers();
    for (index, (layer, imports)) in documented.iter().enumerate() {
        let below: BTreeSet<&str> = documented.iter().take(index).map(|(layer, _)| layer.as_str()).collect();
        let up: Vec<&String> = imports.iter().filter(|import| !below.contains(import.as_str())).collect();
        assert!(up.is_empty(), "ARCHITECTURE.md: `{layer}` imports what is not below it: {up:?}");
    }
    let mut real: BTreeMap<String, BTreeSet<String>> =
        documented.iter().map(|(layer, _)| (layer.clone(), BTreeSet::new())).collect();
    for (module, imports) in imports_in("mcp") {
        let Some(layer) = layer_of(&documented, &module) else {
            assert!(imports.is_empty(), "ARCHITECTURE.md has no layer for `{module}`, which imports {imports:?}");
            continue;
        };
        for import in imports {
            let target = layer_of(&documented, &import).unwrap_or(&import);
            if target != layer {
                real.entry(layer.to_owned()).or_default().insert(target.to_owned());
            }
        }
    }
    assert_eq!(real, documented.into_iter().collect(), "left: the modules of mcp, right: ARCHITECTURE.md");
}

#[test]
fn no_protocol_version_imports_another() {
    let protocol_version =
        |module: &str| module.strip_prefix("protocol_versions::")?.split("::").next().map(str::to_owned);
    for (module, imports) in imports_in("mcp") {
        let Some(own) = protocol_version(&module) else { continue };
        let others: Vec<&String> =
            imports.iter().filter(|import| protocol_version(import).is_some_and(|other| other != own)).collect();
        assert!(others.is_empty(), "`{module}` imports {others:?}");
    }
}
