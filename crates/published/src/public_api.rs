//! Everything that users of the crate `longhaul` can name, with all of its features, as rustdoc sees it.
//!
//! What the facade re-exports from the crates behind it is listed under the facade's name. The rest of those crates is
//! not part of the promise. An implementation of a trait is one line: its functions are those of the trait.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const FACADE: &str = "longhaul";

/// The features with which all tests are built, and those that the facade has besides. With others, Cargo would check
/// all dependencies once more.
const FEATURES: &str = "longhaul-app/lambda,longhaul-conformance/lambda,longhaul-gateway/lambda,longhaul/testing";

/// The root of the checkout.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a command that has to succeed, and returns its standard output.
fn output_of(command: &mut Command) -> String {
    let out = command.current_dir(root()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// The oldest Rust that is supported: its rustdoc writes the version of the format that is read here.
fn oldest_rust() -> String {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap();
    let version = version.trim_matches('"').to_owned();
    let installed = output_of(Command::new("rustc").arg("--version"));
    if installed.starts_with(&format!("rustc {version}.")) { String::new() } else { version }
}

/// Has rustdoc describe the workspace's libraries as JSON in a folder below `temporary`. Returns that folder.
fn described(temporary: &Path) -> PathBuf {
    let folder = temporary.join("public-api");
    std::fs::create_dir_all(&folder).unwrap();
    // The format is not stable yet. Only rustdoc may know that it is wanted: build scripts would act on it too.
    let rustdoc = folder.join("rustdoc");
    std::fs::write(&rustdoc, "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n").unwrap();
    std::fs::set_permissions(&rustdoc, PermissionsExt::from_mode(0o755)).unwrap();
    // What Cargo has checked for other commands is beside the folder for temporary files.
    let target = temporary.join("..");
    let rust = oldest_rust();
    let mut cargo = Command::new("cargo");
    if !rust.is_empty() {
        cargo.arg(format!("+{rust}")).env_remove("RUSTUP_TOOLCHAIN");
    }
    cargo.args(["doc", "--quiet", "--locked", "--workspace", "--no-deps", "--lib", "--features", FEATURES]);
    cargo.env("RUSTDOC", rustdoc).env("RUSTDOCFLAGS", "-Z unstable-options --output-format json");
    output_of(cargo.env("CARGO_BUILD_BUILD_DIR", target).env("CARGO_TARGET_DIR", &folder));
    folder.join("doc")
}

/// A library: the lines of its public items, and what it re-exports.
struct Library {
    items: Vec<String>,
    reexports: Vec<String>,
    /// The code in the documentation of its items.
    examples: String,
}

impl Library {
    fn read(folder: &Path, name: &str) -> Self {
        let file = folder.join(format!("{name}.json"));
        let api = public_api::Builder::from_rustdoc_json(&file)
            .omit_blanket_impls(true)
            .omit_auto_trait_impls(true)
            .omit_auto_derived_impls(true)
            .build()
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let json: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let index = json["index"].as_object().unwrap();
        let of_traits = functions_of_traits(index);
        let sources = index.values().filter_map(|item| item["inner"]["use"]["source"].as_str());
        let docs = index.values().filter_map(|item| item["docs"].as_str());
        Self {
            items: api.items().map(ToString::to_string).filter(|line| !is_implied(line, &of_traits)).collect(),
            reexports: sources.map(str::to_owned).collect(),
            examples: docs.map(code_of).collect(),
        }
    }

    /// The lines about the item with this path, and about what is in it.
    fn about(&self, path: &str) -> impl Iterator<Item = &String> {
        self.items.iter().filter(move |line| {
            line.match_indices(path).any(|(at, _)| is_whole(line, at, path.len()) && is_subject(line, at))
        })
    }
}

/// The names of types and of their functions that are those of a trait, and not also functions of their own.
fn functions_of_traits(index: &serde_json::Map<String, Value>) -> BTreeSet<(String, String)> {
    let (mut of_traits, mut own) = (BTreeSet::new(), BTreeSet::new());
    for implementation in index.values().map(|item| &item["inner"]["impl"]) {
        let of = &implementation["for"];
        let path = of["resolved_path"]["path"].as_str().or(of["generic"].as_str()).unwrap_or_default();
        let of = path.rsplit("::").next().unwrap().to_owned();
        let items = implementation["items"].as_array().into_iter().flatten().map(|id| &index[&id.to_string()]);
        let functions = items.filter(|item| !item["inner"]["function"].is_null()).map(|item| &item["name"]);
        let provided = implementation["provided_trait_methods"].as_array().into_iter().flatten();
        let names = if implementation["trait"].is_null() { &mut own } else { &mut of_traits };
        let functions = functions.chain(provided).filter_map(Value::as_str);
        names.extend(functions.map(|function| (of.clone(), function.to_owned())));
    }
    &of_traits - &own
}

/// Whether a line is the beginning of an implementation without a trait, or a function of one with a trait.
fn is_implied(line: &str, of_traits: &BTreeSet<(String, String)>) -> bool {
    match declared(line).as_deref() {
        Some([.., of, function]) => of_traits.contains(&((*of).to_owned(), (*function).to_owned())),
        Some(_) => false,
        None => line.starts_with("impl") && !line.contains(" for "),
    }
}

/// The blocks of code in a text in Markdown.
fn code_of(text: &str) -> String {
    text.split("```").skip(1).step_by(2).flat_map(|block| [block, "\n"]).collect()
}

/// Whether a name that is found at `at` begins and ends there.
fn is_whole(line: &str, at: usize, length: usize) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let before = line[..at].chars().next_back();
    let after = line[at + length..].chars().next();
    !before.is_some_and(|c| is_name(c) || c == ':') && !after.is_some_and(is_name)
}

/// Whether the line is about the item with the path at `at`, and does not only mention it.
fn is_subject(line: &str, at: usize) -> bool {
    let before = &line[..at];
    if line.starts_with("impl") {
        return ["impl ", "> ", " for "].iter().any(|end| before.ends_with(end));
    }
    !before.contains(['(', ':', '<', '&'])
}

/// All libraries that the facade re-exports from, directly or through another one.
struct Libraries {
    folder: PathBuf,
    read: BTreeMap<String, Library>,
}

impl Libraries {
    fn library(&mut self, name: &str) -> &Library {
        let folder = &self.folder;
        self.read.entry(name.to_owned()).or_insert_with(|| Library::read(folder, name))
    }

    /// The lines about `path` under the name `shown`, wherever it is defined. Only our own crates are followed.
    fn lines(&mut self, path: &str, shown: &str) -> BTreeSet<String> {
        let name = path.split("::").next().unwrap();
        if !name.starts_with("longhaul_") {
            return BTreeSet::new();
        }
        let suffix = format!("::{}", path.rsplit("::").next().unwrap());
        let library = self.library(name);
        let mut lines: BTreeSet<_> = library.about(path).map(|line| line.replace(path, shown)).collect();
        let further: Vec<_> = library.reexports.iter().filter(|source| source.ends_with(&suffix)).cloned().collect();
        for source in further {
            lines.extend(self.lines(&source, shown));
        }
        lines
    }
}

/// The public API of the facade.
pub struct PublicApi {
    /// The lines about all public items, sorted.
    pub lines: Vec<String>,
    /// The functions and macros that no example uses.
    pub without_example: Vec<String>,
}

/// Reads the API. `temporary` is the folder that Cargo has for integration tests.
///
/// # Panics
/// If rustdoc cannot be run, or writes a version of its format that is not the expected one.
#[must_use]
pub fn read(temporary: &Path) -> PublicApi {
    let mut libraries = Libraries { folder: described(temporary), read: BTreeMap::new() };
    let facade = libraries.library(FACADE);
    let (items, reexports) = (facade.items.clone(), facade.reexports.clone());
    let mut lines = BTreeSet::new();
    for line in items {
        let Some(shown) = line.strip_prefix("pub use ") else {
            lines.insert(line);
            continue;
        };
        let suffix = format!("::{}", shown.rsplit("::").next().unwrap());
        let sources = reexports.iter().filter(|source| source.ends_with(&suffix));
        let found: BTreeSet<_> = sources.flat_map(|source| libraries.lines(source, shown)).collect();
        // Of another crate, such as `rmcp`.
        lines.extend(if found.is_empty() { BTreeSet::from([line.clone()]) } else { found });
    }
    let lines = Vec::from_iter(lines);
    let examples: String =
        libraries.read.values().map(|library| library.examples.as_str()).chain([&*files()]).collect();
    let without_example = lines.iter().filter(|line| lacks_example(line, &examples)).cloned().collect();
    PublicApi { lines, without_example }
}

/// The examples of the facade, and the code on the pages that are compiled as its documentation.
fn files() -> String {
    let pages = ["docs/writing-tools.md", "docs/recipes.md", "docs/testing-tools.md"];
    let pages = pages.map(|page| code_of(&std::fs::read_to_string(root().join(page)).unwrap())).concat();
    let examples = std::fs::read_dir(root().join("crates/longhaul/examples")).unwrap();
    let examples = examples.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    pages + &examples.collect::<String>()
}

/// Whether the line is about a function or a macro whose name is in no example.
fn lacks_example(line: &str, examples: &str) -> bool {
    let Some(name) = declared(line).and_then(|names| names.last().copied()) else { return false };
    !examples.match_indices(name).any(|(at, _)| {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let after = examples[at + name.len()..].chars().next();
        !examples[..at].chars().next_back().is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

/// The names in the path of a function or macro. `None` for other lines. For `pub fn longhaul::Step<'_>::retry(self)`,
/// these are `longhaul`, `Step` and `retry`.
fn declared(line: &str) -> Option<Vec<&str>> {
    let (before, path) = line.split_once("fn ").or_else(|| line.split_once("macro "))?;
    if before.contains(['(', ':', '<']) {
        return None;
    }
    let (mut depth, mut names, mut begin) = (0_usize, Vec::new(), 0);
    for (at, c) in path.char_indices() {
        match c {
            ':' | '<' | '(' | '!' if depth == 0 => {
                names.extend((at > begin).then(|| &path[begin..at]));
                begin = at + 1;
            }
            _ => {}
        }
        match c {
            '<' => depth += 1,
            '>' => (depth, begin) = (depth.saturating_sub(1), at + 1),
            '(' | '!' if depth == 0 => break,
            _ => {}
        }
    }
    Some(names)
}
