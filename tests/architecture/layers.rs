//! Checks the imports of modules against layers: those of `mcp` in `ARCHITECTURE.md`, those of all other crates in
//! `layers.txt`. No layer imports a higher one. That no files import each other is checked in `circles.rs`.

use std::collections::{BTreeMap, BTreeSet};

use crate::circles::roots;
use crate::modules::{Imports, cycles, imports};
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
    let protocol_version = |module: &str| {
        let below = module.strip_prefix("protocol_versions::")?;
        below.strip_prefix("drafts::").unwrap_or(below).split("::").next().map(str::to_owned)
    };
    for (module, imports) in imports_in("mcp") {
        let Some(own) = protocol_version(&module) else { continue };
        let others: Vec<&String> =
            imports.iter().filter(|import| protocol_version(import).is_some_and(|other| other != own)).collect();
        assert!(others.is_empty(), "`{module}` imports {others:?}");
    }
}

/// The modules of a crate with all that is below each.
fn stack(imports: Imports) -> Imports {
    let top = |module: &str| module.split("::").next().unwrap_or_default().to_owned();
    let mut stack = Imports::new();
    for (module, imports) in imports {
        let (module, imports) = (top(&module), imports.iter().map(|import| top(import)));
        let others: Vec<String> = imports.filter(|import| *import != module).collect();
        stack.entry(module).or_default().extend(others);
    }
    stack
}

/// The layers of modules, from the lowest to the highest: none imports another one of its own layer.
fn layers(stack: &Imports) -> Vec<BTreeSet<String>> {
    let mut layers: Vec<BTreeSet<String>> = Vec::new();
    loop {
        let below: BTreeSet<&String> = layers.iter().flatten().collect();
        let rests_on_below =
            |module: &&String| stack.get(*module).into_iter().flatten().all(|import| below.contains(import));
        let left = stack.keys().filter(|module| !below.contains(module));
        let next: BTreeSet<String> = left.filter(rests_on_below).cloned().collect();
        if next.is_empty() {
            return layers;
        }
        layers.push(next);
    }
}

#[test]
fn the_layers_of_every_crate_import_what_is_below_them_and_nothing_else() {
    let mut text =
        "# The modules of each crate in layers, from the lowest to the highest: a module imports only modules of \
                    lines above\n# its own. UPDATE_GOLDEN=1 writes this file.\n"
            .to_owned();
    for (name, file) in roots().into_iter().filter(|(name, _)| name != "mcp") {
        let stack = stack(imports(&file));
        if stack.len() < 3 {
            continue;
        }
        let circles = cycles(&stack);
        assert!(circles.is_empty(), "modules of {name} import each other: {circles:?}");
        let program = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        text += &format!("\n{name}, {program}.rs\n");
        for layer in layers(&stack) {
            text += &format!("  {}\n", layer.into_iter().collect::<Vec<_>>().join(" "));
        }
    }
    let file = root().join("tests/architecture/layers.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, &text).expect("the file can be written");
    }
    let listed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(listed == text, "tests/architecture/layers.txt differs; if the change is meant: UPDATE_GOLDEN=1\n{text}");
}
