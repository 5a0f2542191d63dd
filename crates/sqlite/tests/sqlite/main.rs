//! The task store and the work queue in a SQLite file: the contracts of their ports, and what a file adds to them.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

mod backlog;
#[cfg(unix)]
mod backup;
mod contract;
mod crash;
mod damage;
mod erase;
mod fairness;
#[cfg(unix)]
mod ground;
mod keeping;
mod opening;
mod outbox;
#[cfg(unix)]
mod permissions;
mod permits;
mod stored;
mod taking_up;

/// A folder, and where a database may be made in it.
fn new_file() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("longhaul.db");
    (folder, path)
}
