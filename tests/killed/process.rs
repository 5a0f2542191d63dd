//! The server in its own process, which a test may kill and start again on the same file and port.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use harness::caller::Caller;
use harness::process::Server;

/// Where a server keeps its tasks, and where it listens.
pub(crate) struct Setup {
    folder: tempfile::TempDir,
    address: SocketAddr,
}

impl Setup {
    pub(crate) fn new() -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, harness::free_port()));
        Self { folder: tempfile::tempdir().unwrap(), address }
    }

    /// A usual server that listens.
    pub(crate) fn started() -> (Self, Server) {
        let setup = Self::new();
        let server = setup.start();
        (setup, server)
    }

    /// Starts the server, and waits until it listens.
    pub(crate) fn start(&self) -> Server {
        let mut command = Command::new(harness::program("conformance-server"));
        command.args(["--listen", &self.address.to_string(), "--scheduled"]).arg(self.folder.path().join("tasks.db"));
        Server::start_at(self.address.port(), &mut command, Some(&self.folder.path().join("log")))
    }

    /// A client, of whichever process listens.
    pub(crate) fn caller(&self) -> Caller {
        Caller::new(&format!("http://{}/mcp", self.address))
    }

    /// Where a callback is sent.
    pub(crate) fn callback(&self, token: &str) -> String {
        format!("http://{}/callbacks/{token}", self.address)
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Waits until this time, in milliseconds since 1970.
pub(crate) async fn until(moment_ms: u64) {
    tokio::time::sleep(Duration::from_millis(moment_ms.saturating_sub(now_ms()))).await;
}
