//! The server in its own process, which a test may kill and start again on the same file and port.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::caller::Caller;

/// Where a server keeps its tasks, and where it listens.
pub(crate) struct Setup {
    folder: tempfile::TempDir,
    address: SocketAddr,
}

/// A running server. Killed when dropped.
pub(crate) struct Running {
    child: Child,
}

impl Setup {
    pub(crate) fn new() -> Self {
        // Nobody else is given the port in the moment before the server has it.
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        Self { folder: tempfile::tempdir().unwrap(), address: free }
    }

    /// Starts the server, and waits until it listens.
    pub(crate) fn start(&self) -> Running {
        let log = File::options().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_conformance-server"));
        command.args(["--listen", &self.address.to_string(), "--scheduled"]).arg(self.folder.path().join("tasks.db"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut child = command.spawn().unwrap();
        while TcpStream::connect(self.address).is_err() {
            assert!(child.try_wait().unwrap().is_none(), "the server ended: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        Running { child }
    }

    /// A client, of whichever process listens.
    pub(crate) fn caller(&self) -> Caller {
        Caller::new(&format!("http://{}/mcp", self.address))
    }

    /// Where a callback is sent.
    pub(crate) fn callback(&self, token: &str) -> String {
        format!("http://{}/callbacks/{token}", self.address)
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.folder.path().join("log")).unwrap()).into_owned()
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        // Shown if the test fails.
        eprintln!("{}", self.log());
    }
}

impl Running {
    /// SIGKILL, as a crash or the out-of-memory killer would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Waits until this moment, in milliseconds since 1970.
pub(crate) async fn until(moment_ms: u64) {
    tokio::time::sleep(Duration::from_millis(moment_ms.saturating_sub(now_ms()))).await;
}
