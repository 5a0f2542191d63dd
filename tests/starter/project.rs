//! The new server's folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use harness::root;
use tempfile::TempDir;

/// The starter as it is in the checkout.
pub(crate) fn template() -> PathBuf {
    root().join("templates/server")
}

/// All files of the starter: their paths in it, and their contents.
pub(crate) fn files() -> Vec<(String, String)> {
    let (mut files, mut folders) = (Vec::new(), vec![template()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(template()).unwrap().to_str().unwrap().to_owned();
            files.push((name, std::fs::read_to_string(path).unwrap()));
        }
    }
    files
}

/// A server that was just made from the starter, in a temporary folder that has nothing of the checkout.
pub(crate) struct Project {
    folder: TempDir,
}

impl Project {
    /// Its name, which is that of its stack too.
    pub(crate) const NAME: &str = "new-server";

    /// Renders the starter, with the packages that would be published in reach.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut render = Command::new(root().join(".cache/tools/bin/cargo-lambda"));
        render.args(["lambda", "new", "--no-interactive", Self::NAME, "--template"]).arg(template());
        run(render.current_dir(&folder));
        let mut prepare = Command::new("python3");
        prepare.arg(root().join("tests/starter/workspace.py"));
        prepare.arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages")).arg(folder.path()).arg(Self::NAME);
        run(&mut prepare);
        Self { folder }
    }

    /// The folder in which the user works.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().join(Self::NAME)
    }

    /// A command of its `Makefile`.
    pub(crate) fn make(&self, arguments: &[&str]) -> Command {
        let mut make = Command::new("make");
        make.args(arguments).arg(format!("CARGO={}", self.cargo().display())).current_dir(self.folder());
        make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
        make
    }

    /// Builds its programs, quickly and without optimisation.
    pub(crate) fn build(&self) {
        let mut cargo = Command::new(self.cargo());
        run(cargo.args(["build", "--all-features", "--bins"]).current_dir(self.folder()));
    }

    /// Puts its programs where `make build` leaves them.
    pub(crate) fn pack(&self) {
        let lambda = self.folder().join("target/lambda");
        for name in ["api", "worker"] {
            std::fs::create_dir_all(lambda.join(name)).unwrap();
            std::fs::copy(self.programs().join(name), lambda.join(name).join("bootstrap")).unwrap();
        }
        let mut pack = Command::new("python3");
        run(pack.arg(root().join("scripts/pack_lambda.py")).arg(lambda).args(["api", "worker"]));
    }

    /// Cargo, for all that was put around the new server.
    fn cargo(&self) -> PathBuf {
        self.folder.path().join("cargo")
    }

    /// The folder of its programs.
    pub(crate) fn programs(&self) -> PathBuf {
        self.folder.path().join("target/debug")
    }
}

/// Runs a command that has to succeed, and returns its standard output.
pub(crate) fn run(command: &mut Command) -> String {
    // Cargo tells the tests which package they belong to; the new server is another one.
    let cargos = std::env::vars_os().map(|(name, _)| name).filter(|name| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name.starts_with("NEXTEST")
    });
    for name in cargos {
        command.env_remove(name);
    }
    let out = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{command:?} ended with {}:\n{stdout}\n{stderr}", out.status);
    stdout.into_owned()
}
