//! A server in its own process.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::connection::Connection;
use crate::{proc, wire};

/// How long a server may take to answer.
const READY_WAIT: Duration = Duration::from_secs(60);

/// How long to wait between two attempts to reach a starting server.
const READY_PAUSE: Duration = Duration::from_micros(500);

/// How long a server may take to stop.
const STOP_WAIT: Duration = Duration::from_secs(20);

/// A running server. Killed when dropped.
pub(crate) struct Spawned {
    child: Child,
    address: SocketAddr,
    ready: Duration,
}

impl Spawned {
    /// Starts the command that `command` makes for an address, and returns once `GET /readyz` says that it can do its
    /// work.
    pub(crate) async fn start(command: impl FnOnce(SocketAddr) -> Command) -> anyhow::Result<Self> {
        Self::start_until(command, is_ready).await
    }

    /// The same for a server that does not know this request: returns once it accepts connections.
    pub(crate) async fn listening(command: impl FnOnce(SocketAddr) -> Command) -> anyhow::Result<Self> {
        Self::start_until(command, async |address| Connection::open(address).await.is_ok()).await
    }

    async fn start_until(
        command: impl FnOnce(SocketAddr) -> Command,
        is_ready: impl AsyncFn(SocketAddr) -> bool,
    ) -> anyhow::Result<Self> {
        let address = free_address()?;
        let mut command = command(address);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let begun = Instant::now();
        let child = command.spawn().with_context(|| format!("{command:?} does not start"))?;
        let mut spawned = Self { child, address, ready: Duration::ZERO };
        while !is_ready(address).await {
            if let Some(status) = spawned.child.try_wait()? {
                bail!("{command:?} ended with {status}");
            }
            if begun.elapsed() > READY_WAIT {
                bail!("{command:?} does not answer");
            }
            std::thread::sleep(READY_PAUSE);
        }
        spawned.ready = begun.elapsed();
        Ok(spawned)
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// From its start to its first answer.
    pub(crate) const fn ready(&self) -> Duration {
        self.ready
    }

    /// Its peak memory, in MiB.
    pub(crate) fn memory_peak_mib(&self) -> anyhow::Result<f64> {
        proc::memory_peak_mib(self.child.id())
    }

    /// The processor time that it has used so far.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        proc::processor_time(self.child.id())
    }

    /// Asks it to stop, and returns once it has.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        let status = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        anyhow::ensure!(status.success(), "the server could not be asked to stop");
        let begun = Instant::now();
        while self.child.try_wait()?.is_none() {
            if begun.elapsed() > STOP_WAIT {
                bail!("the server does not stop");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        // It may already have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The command that runs `program` on `address` with the database `db`.
pub(crate) fn demo(program: &Path, address: SocketAddr, db: &Path, data_dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("demo").arg("--listen").arg(address.to_string()).arg("--db").arg(db).arg("--data-dir").arg(data_dir);
    command
}

async fn is_ready(address: SocketAddr) -> bool {
    let answered = async { Connection::open(address).await?.send(wire::ready()?).await };
    answered.await.is_ok()
}

/// An address on which nothing listens now.
pub(crate) fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
