//! Helpers of the tests that start whole programs: clients, servers and proxies around the programs, and a host for
//! Lambda functions. A helper that only one test binary needs is in the folder of that binary.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a part of tests, which may end by a panic, and wait in real time"
)]

use std::fs::File;
use std::io::{Read, Seek};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub mod approval;
pub mod auth_server;
pub mod caller;
pub mod collector;
pub mod emulator;
pub mod gate;
pub mod gathered;
pub mod members;
pub mod process;
pub mod protocol_versions;
pub mod proxy;
pub mod receiver;
pub mod runtime_host;
pub mod seen;
mod serving;
pub mod states;
#[cfg(feature = "template")]
pub mod template;
#[cfg(feature = "tokens")]
pub mod tokens;

/// Builds all programs that [`program`] finds.
const BUILD: &str = "make programs";

/// The root of the checkout.
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the checkout is where it was built")
}

/// The text of a file of the checkout.
pub fn file(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Compares a file of the checkout with its expected content. With the variable `UPDATE_GOLDEN` it writes the file
/// instead.
pub fn is_up_to_date(path: &str, real: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(root().join(path), real).unwrap();
    } else {
        assert_eq!(file(path), real, "{path} is out of date: run with UPDATE_GOLDEN=1 and read the difference");
    }
}

/// A program of the workspace: next to the folder of the running test. Cargo builds programs only for tests of their
/// own package, so this one may be missing.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let folder = test.parent().and_then(Path::parent).expect("a test is in a folder of the target folder");
    let program = folder.join(name);
    assert!(program.exists(), "{} is not built: run `{BUILD}`", program.display());
    program
}

/// `longhaul demo`, without flags.
pub fn demo() -> Command {
    let mut command = Command::new(program("longhaul"));
    command.arg("demo");
    command
}

/// A port of this machine that no program listens on. It is outside of the range from which the system takes ports for
/// connections, and for programs that ask for any port. Until a server has it, no other program gets it by chance, and
/// no connection is made from it to itself.
pub fn free_port() -> u16 {
    let mut random = [0; 2];
    loop {
        File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut random)).expect("there is chance");
        let port = 10_000 + u16::from_be_bytes(random) % 22_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A program that `scripts/setup-tools.sh` has installed.
pub fn tool(name: &str) -> PathBuf {
    let path = root().join(".cache/tools/bin").join(name);
    assert!(path.exists(), "{} is not installed: run scripts/setup-tools.sh", path.display());
    path
}

/// Runs a command to its end and returns its standard output; fails the test if the command fails.
pub fn output_of(command: &mut Command) -> String {
    // Standard error is its own: Node makes what it inherits non-blocking, and what the tests print would be lost.
    // A file, because what a script leaves running has it open for longer.
    let mut said = tempfile::tempfile().unwrap();
    let out = command.stdin(Stdio::null()).stderr(said.try_clone().unwrap()).output();
    let out = out.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut errors = Vec::new();
    said.rewind().and_then(|()| said.read_to_end(&mut errors)).unwrap();
    // Shown if the test fails.
    eprint!("{}", String::from_utf8_lossy(&errors));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{command:?} ended with {}: {text}", out.status);
    text
}
