//! Everything that users of the crate `longhaul` can name, with all of its features, as rustdoc sees it.
//!
//! What the facade re-exports from the crates behind it is listed where it is defined. The rest of those crates is not
//! part of the promise.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const FACADE: &str = "longhaul";

/// The features with which all tests are built, and those that the facade has besides. With others, Cargo would check
/// all dependencies once more.
const FEATURES: &str =
    "longhaul-app/lambda,longhaul-conformance/lambda,longhaul-gateway/lambda,longhaul/contract,longhaul/testing";

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
        let items = json["index"].as_object().unwrap().values();
        let sources = items.filter_map(|item| item["inner"]["use"]["source"].as_str());
        Self { items: api.items().map(ToString::to_string).collect(), reexports: sources.map(str::to_owned).collect() }
    }

    /// The lines about the item with this path, and about what is in it.
    fn about(&self, path: &str) -> BTreeSet<String> {
        let is_about = |line: &&String| line.match_indices(path).any(|(at, _)| is_whole(line, at, path.len()));
        self.items.iter().filter(is_about).cloned().collect()
    }
}

/// Whether a name that is found at `at` begins and ends there.
fn is_whole(line: &str, at: usize, length: usize) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let before = line[..at].chars().next_back();
    let after = line[at + length..].chars().next();
    !before.is_some_and(|c| is_name(c) || c == ':') && !after.is_some_and(is_name)
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

    /// The lines about `path`, wherever it is defined. Only our own crates are followed.
    fn lines(&mut self, path: &str, seen: &mut BTreeSet<String>) -> BTreeSet<String> {
        let name = path.split("::").next().unwrap();
        if !name.starts_with("longhaul_") || !seen.insert(path.to_owned()) {
            return BTreeSet::new();
        }
        let item = path.rsplit("::").next().unwrap();
        let library = self.library(name);
        let mut lines = library.about(path);
        let suffix = format!("::{item}");
        let further: Vec<_> = library.reexports.iter().filter(|source| source.ends_with(&suffix)).cloned().collect();
        for source in further {
            lines.extend(self.lines(&source, seen));
        }
        lines
    }
}

/// The lines about all public items, sorted. `temporary` is the folder that Cargo has for integration tests.
///
/// # Panics
/// If rustdoc cannot be run, or writes a version of its format that is not the expected one.
#[must_use]
pub fn lines(temporary: &Path) -> Vec<String> {
    let mut libraries = Libraries { folder: described(temporary), read: BTreeMap::new() };
    let facade = libraries.library(FACADE);
    let (mut lines, reexports) = (BTreeSet::from_iter(facade.items.iter().cloned()), facade.reexports.clone());
    let mut seen = BTreeSet::new();
    for source in reexports {
        lines.extend(libraries.lines(&source, &mut seen));
    }
    Vec::from_iter(lines)
}
