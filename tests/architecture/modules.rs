//! Which module of a crate imports which, read from its source files.
//!
//! A node is a file; a module inside a file belongs to it. A module imports another one if a path in its code names
//! something in it: in a `use`, in an expression or a type, or inside a macro. Paths are followed through re-exports,
//! so `crate::Body` is an import of the module that defines `Body`. Three things are not imports: the declaration of a
//! child module, a re-export from a module below, and code of tests (`#[cfg(test)]`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprLit, Item, ItemMod, ItemUse, Lit, Meta, MetaNameValue as Named, UseTree, Visibility};

/// Which module imports which. Modules are named like `protocol_versions::core_tasks::wire`, and the root is `crate`.
pub(crate) type Imports = BTreeMap<String, BTreeSet<String>>;

type Segments = Vec<String>;

/// The modules of a crate, by their paths from its root.
struct Crate {
    files: BTreeMap<Segments, syn::File>,
    /// The re-exports of each module: the name, and its target.
    exports: BTreeMap<(Segments, String), Segments>,
}

/// The imports among the modules of the crate whose root is this file.
pub(crate) fn imports(root: &Path) -> Imports {
    let mut read = Crate { files: BTreeMap::new(), exports: BTreeMap::new() };
    read.add(Vec::new(), root, root.parent().expect("a file is in a directory"));
    let paths: Vec<Segments> = read.files.keys().cloned().collect();
    for path in &paths {
        for (name, target) in read.exports_of(path) {
            read.exports.insert((path.clone(), name), target);
        }
    }
    paths.iter().map(|path| (name(path), read.imports_of(path))).collect()
}

fn name(path: &[String]) -> String {
    if path.is_empty() { "crate".to_owned() } else { path.join("::") }
}

impl Crate {
    /// Reads a module and all below it; `children` is where their files are.
    fn add(&mut self, path: Segments, file: &Path, children: &Path) {
        let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        for item in &parsed.items {
            let Item::Mod(module) = item else { continue };
            if module.content.is_some() || is_test(&module.attrs) {
                continue;
            }
            let child = module.ident.to_string();
            let (file, below) = source(module, file, children);
            self.add([path.clone(), vec![child]].concat(), &file, &below);
        }
        self.files.insert(path, parsed);
    }

    fn exports_of(&self, path: &[String]) -> Vec<(String, Segments)> {
        let items = self.files[path].items.iter();
        let uses = items.filter_map(|item| if let Item::Use(item) = item { Some(item) } else { None });
        let public = uses.filter(|item| !matches!(item.vis, Visibility::Inherited) && !is_test(&item.attrs));
        public
            .flat_map(|item| leaves(&item.tree))
            .filter_map(|leaf| Some((leaf.name, self.absolute(path, &leaf.path)?)))
            .collect()
    }

    /// A path as it is written in the module `from`, from the root of the crate; `None` for other crates.
    fn absolute(&self, from: &[String], written: &[String]) -> Option<Segments> {
        let (first, rest) = written.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([from, rest].concat()),
            "super" => {
                let (_, above) = from.split_last()?;
                match rest.first() {
                    Some(next) if next == "super" => self.absolute(above, rest),
                    _ => Some([above, rest].concat()),
                }
            }
            child => {
                let below = [from, &[child.to_owned()]].concat();
                self.files.contains_key(&below).then(|| [&below, rest].concat())
            }
        }
    }

    /// The module that defines what an absolute path names.
    fn module_of(&self, path: &[String]) -> Segments {
        let mut module = Segments::new();
        for (index, segment) in path.iter().enumerate() {
            let below = [&module[..], std::slice::from_ref(segment)].concat();
            if self.files.contains_key(&below) {
                module = below;
            } else if let Some(target) = self.exports.get(&(module.clone(), segment.clone())) {
                let rest = path.get(index + 1..).unwrap_or_default();
                return self.module_of(&[target, rest].concat());
            } else {
                break;
            }
        }
        module
    }

    fn imports_of(&self, path: &[String]) -> BTreeSet<String> {
        let file = &self.files[path];
        let mut uses = Uses::default();
        uses.visit_file(file);
        let mut targets = BTreeSet::new();
        let mut names: BTreeMap<String, Segments> = BTreeMap::new();
        for (inside, leaf, is_public) in &uses.leaves {
            let Some(absolute) = self.absolute(&[path, inside].concat(), &leaf.path) else { continue };
            let module = self.module_of(&absolute);
            if !*is_public || !module.starts_with(path) {
                targets.insert(module);
            }
            names.insert(leaf.name.clone(), absolute);
        }
        let mut inline = Inline::default();
        inline.visit_file(file);
        for (inside, written) in &inline.paths {
            let aliased = written.first().and_then(|first| names.get(first));
            let absolute = match aliased {
                Some(target) => Some([target, written.get(1..).unwrap_or_default()].concat()),
                // A name alone is a variable, or of the prelude: a module is neither a value nor a type.
                None if written.len() == 1 => None,
                None => self.absolute(&[path, inside].concat(), written),
            };
            targets.extend(absolute.map(|absolute| self.module_of(&absolute)));
        }
        targets.iter().filter(|target| *target != path).map(|target| name(target)).collect()
    }
}

/// One name that a `use` brings in.
struct Leaf {
    name: String,
    path: Segments,
}

fn leaves(tree: &UseTree) -> Vec<Leaf> {
    fn add(tree: &UseTree, before: &[String], leaves: &mut Vec<Leaf>) {
        let with = |segment: String| [before, &[segment]].concat();
        match tree {
            UseTree::Path(path) => add(&path.tree, &with(path.ident.to_string()), leaves),
            UseTree::Group(group) => group.items.iter().for_each(|item| add(item, before, leaves)),
            UseTree::Glob(_) => leaves.push(Leaf { name: "*".to_owned(), path: before.to_vec() }),
            UseTree::Name(leaf) if leaf.ident == "self" => {
                let name = before.last().cloned().unwrap_or_default();
                leaves.push(Leaf { name, path: before.to_vec() });
            }
            UseTree::Name(leaf) => {
                leaves.push(Leaf { name: leaf.ident.to_string(), path: with(leaf.ident.to_string()) })
            }
            UseTree::Rename(leaf) if leaf.ident == "self" => {
                leaves.push(Leaf { name: leaf.rename.to_string(), path: before.to_vec() });
            }
            UseTree::Rename(leaf) => {
                leaves.push(Leaf { name: leaf.rename.to_string(), path: with(leaf.ident.to_string()) });
            }
        }
    }
    let mut found = Vec::new();
    add(tree, &[], &mut found);
    found
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"))
    })
}

/// The file of a module that `parent` declares, and where the files of its children are; `children` is where those of
/// the parent are.
fn source(module: &ItemMod, parent: &Path, children: &Path) -> (PathBuf, PathBuf) {
    if let Some(written) = included(&module.attrs) {
        let file = parent.with_file_name(written);
        let below = file.parent().expect("a file is in a directory").to_path_buf();
        return (file, below);
    }
    let below = children.join(module.ident.to_string());
    let flat = below.with_extension("rs");
    (if flat.exists() { flat } else { below.join("mod.rs") }, below)
}

/// The file of a module, if `#[path]` says where it is.
fn included(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(Named { path, value: Expr::Lit(ExprLit { lit: Lit::Str(file), .. }), .. })
            if path.is_ident("path") =>
        {
            Some(file.value())
        }
        _ => None,
    })
}

/// The `use` items of a file, those inside functions too; whether each is public.
#[derive(Default)]
struct Uses {
    /// The modules inside the file that are being read.
    inside: Segments,
    leaves: Vec<(Segments, Leaf, bool)>,
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !is_test(&item.attrs) {
            let is_public = !matches!(item.vis, Visibility::Inherited);
            self.leaves.extend(leaves(&item.tree).into_iter().map(|leaf| (self.inside.clone(), leaf, is_public)));
        }
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_test(&module.attrs) {
            self.inside.push(module.ident.to_string());
            visit::visit_item_mod(self, module);
            self.inside.pop();
        }
    }
}

/// The paths of a file outside `use` items.
#[derive(Default)]
struct Inline {
    /// The modules inside the file that are being read.
    inside: Segments,
    paths: BTreeSet<(Segments, Segments)>,
}

impl<'ast> Visit<'ast> for Inline {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Use(_) => return,
            _ => return visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_test(&module.attrs) {
            self.inside.push(module.ident.to_string());
            visit::visit_item_mod(self, module);
            self.inside.pop();
        }
    }

    fn visit_visibility(&mut self, _visibility: &'ast Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.found(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        visit::visit_macro(self, called);
        self.tokens(called.tokens.clone());
    }
}

impl Inline {
    fn found(&mut self, path: Segments) {
        self.paths.insert((self.inside.clone(), path));
    }

    /// Takes note of `path`, unless two colons say that it continues.
    fn end_unless_continued(&mut self, path: &mut Segments, colons: usize) {
        if colons != 2 {
            self.found(std::mem::take(path));
        }
    }

    /// Paths among tokens, which only the macro can parse.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path = Segments::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(segment) => {
                    self.end_unless_continued(&mut path, colons);
                    path.push(segment.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => colons += 1,
                TokenTree::Group(group) => {
                    self.found(std::mem::take(&mut path));
                    self.tokens(group.stream());
                    colons = 0;
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {
                    self.found(std::mem::take(&mut path));
                    colons = 0;
                }
            }
        }
        self.found(path);
    }
}

/// The sets of modules that import each other, directly or through others.
pub(crate) fn cycles(imports: &Imports) -> Vec<BTreeSet<String>> {
    let reachable: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|from| (from.as_str(), reachable_from(imports, from))).collect();
    let mut cycles: Vec<BTreeSet<String>> = Vec::new();
    for module in imports.keys() {
        if cycles.iter().any(|cycle| cycle.contains(module)) {
            continue;
        }
        let cycle: BTreeSet<String> = reachable[module.as_str()]
            .iter()
            .filter(|other| reachable.get(**other).is_some_and(|back| back.contains(module.as_str())))
            .map(|other| (*other).to_owned())
            .collect();
        if !cycle.is_empty() {
            cycles.push(cycle);
        }
    }
    cycles
}

fn reachable_from<'a>(imports: &'a Imports, from: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&str> = vec![from];
    while let Some(module) = next.pop() {
        for target in imports.get(module).into_iter().flatten() {
            if found.insert(target.as_str()) {
                next.push(target);
            }
        }
    }
    found
}
