//! How the measurements are run: where the programs and files are, how often, and how long.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::connection::Connection;
use crate::spawned::Spawned;
use crate::{filled, load};

/// How to run the measurements.
pub(crate) struct Plan {
    /// Rounds of each measurement.
    pub(crate) rounds: u32,
    /// Length of one measurement.
    pub(crate) time: Duration,
    /// Where files are stored; emptied afterwards.
    pub(crate) folder: PathBuf,
    /// The program `longhaul`.
    pub(crate) longhaul: PathBuf,
    /// Where the functions' programs are.
    pub(crate) functions: PathBuf,
    /// This program, for the servers that it contains.
    pub(crate) own: PathBuf,
    /// Sizes of the files that are profiled, in bytes.
    pub(crate) profiled_bytes: Vec<u64>,
}

impl Plan {
    /// The path of a file of this name.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Starts the server whose tools do nothing, on the database `db`.
    pub(crate) async fn noop(&self, db: &Path) -> anyhow::Result<Spawned> {
        Spawned::start(|address| {
            let mut command = Command::new(&self.own);
            command.args(["serve-noop", &address.to_string()]).arg(db);
            command
        })
        .await
    }

    /// Lets the server itself create one finished task in `db`, and copies it. Returns the ids of the copies.
    pub(crate) async fn fill(&self, db: &Path, count: usize) -> anyhow::Result<Vec<String>> {
        let server = self.noop(db).await?;
        let mut connection = Connection::open(server.address()).await?;
        load::live(&mut connection, "noop", "{}").await?;
        drop(connection);
        server.stop()?;
        filled::fill(db, count).await
    }
}
