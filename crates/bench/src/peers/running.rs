//! A system that runs: its processes, what they use, and how they end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use http::Request;
use http::header::{CONTENT_TYPE, HOST};
use http_body_util::Full;

use super::Ground;
use super::system::{Places, Stage, System};
use crate::connection::Connection;
use crate::proc;
use crate::servers::life::Life;

/// How long a system may take to answer its first life.
const READY_WAIT: Duration = Duration::from_secs(60);

/// How long to wait between two attempts to reach a starting system.
const READY_PAUSE: Duration = Duration::from_millis(2);

/// How long a process may take to stop.
const STOP_WAIT: Duration = Duration::from_secs(20);

/// How the names of the files begin into which processes print.
const LOG: &str = "process-";

/// A running system. Killed when dropped.
pub(crate) struct Running {
    system: System,
    places: Places,
    folder: PathBuf,
    children: Vec<Child>,
    first_result: Duration,
}

impl Running {
    /// Starts a system on the data in `folder`, and returns once it has answered its first life.
    pub(crate) async fn start(system: System, ground: &Ground, folder: &Path) -> anyhow::Result<Self> {
        Self::start_at(system, ground, folder, Places::free()?).await
    }

    /// The same where it was before: Restate's server remembers where the service is.
    pub(crate) async fn start_at(
        system: System,
        ground: &Ground,
        folder: &Path,
        places: Places,
    ) -> anyhow::Result<Self> {
        if system.stage() == Stage::Aws {
            ground.aws()?.prepare(system, folder).await?;
        }
        let commands = system.commands(ground, folder, &places);
        let mut running =
            Self { system, places, folder: folder.to_owned(), children: Vec::new(), first_result: Duration::ZERO };
        let begun = Instant::now();
        for mut command in commands {
            let log = fs::File::create(folder.join(format!("{LOG}{}.log", running.children.len())))?;
            command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
            running.children.push(command.spawn().with_context(|| format!("{command:?} does not start"))?);
        }
        let mut is_registered = system != System::Restate;
        loop {
            is_registered = is_registered || running.register().await.is_ok();
            match running.first_life().await {
                Ok(()) if is_registered => break,
                Err(error) if begun.elapsed() > READY_WAIT => {
                    return Err(error.context(format!("{} does not answer: {}", system.name(), running.said())));
                }
                Ok(()) | Err(_) => tokio::time::sleep(READY_PAUSE).await,
            }
            running.check_alive()?;
        }
        running.first_result = begun.elapsed();
        Ok(running)
    }

    async fn first_life(&self) -> anyhow::Result<()> {
        let mut connection = self.connect().await?;
        self.system.protocol().live(&mut connection, &Life::of(0)).await
    }

    /// Tells Restate's server where the service is.
    async fn register(&self) -> anyhow::Result<()> {
        let body = format!(r#"{{"uri":"http://{}"}}"#, self.places.third);
        let request = Request::post("/deployments").header(HOST, "localhost").header(CONTENT_TYPE, "application/json");
        let request = request.body(Full::from(Bytes::from(body)))?;
        Connection::open(self.places.second).await?.send(request).await.map(drop)
    }

    fn check_alive(&mut self) -> anyhow::Result<()> {
        for child in &mut self.children {
            if let Some(status) = child.try_wait()? {
                bail!("a process of {} ended with {status}: {}", self.system.name(), self.said());
            }
        }
        Ok(())
    }

    /// The end of what its processes wrote.
    fn said(&self) -> String {
        let logs = (0..self.children.len()).map(|number| self.folder.join(format!("{LOG}{number}.log")));
        let texts = logs.map(|log| fs::read_to_string(log).unwrap_or_default());
        texts.map(|text| text.lines().rev().take(5).collect::<Vec<_>>().join(" | ")).collect::<Vec<_>>().join(" || ")
    }

    /// A connection to it.
    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        Connection::open(self.places.front).await
    }

    /// Many of them.
    pub(crate) async fn connect_many(&self, count: usize) -> anyhow::Result<Vec<Connection>> {
        Connection::open_many(self.places.front, count).await
    }

    /// Where it listens.
    pub(crate) const fn places(&self) -> Places {
        self.places
    }

    /// From the start of its processes to its first result.
    pub(crate) const fn first_result(&self) -> Duration {
        self.first_result
    }

    /// Its processes' ids.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.children.iter().map(Child::id).collect()
    }

    /// The processor time that its processes have used so far.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        self.pids().into_iter().map(proc::processor_time).sum()
    }

    /// The bytes that its processes have handed to the disk so far.
    pub(crate) fn written_bytes(&self) -> anyhow::Result<u64> {
        self.pids().into_iter().map(proc::written_bytes).sum()
    }

    /// The peak memory of its processes, in MiB.
    pub(crate) fn memory_peak_mib(&self) -> anyhow::Result<f64> {
        self.pids().into_iter().map(proc::memory_peak_mib).sum()
    }

    /// Asks its processes to stop, the first one last, and returns once they have.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        while let Some(child) = self.children.pop() {
            stop(child).with_context(|| format!("a process of {} does not stop", self.system.name()))?;
        }
        Ok(())
    }

    /// Ends all of its processes with SIGKILL.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

/// Asks a process to stop, and waits until it has; one that does not is killed.
fn stop(mut child: Child) -> anyhow::Result<()> {
    let status = Command::new("kill").args(["-TERM", &child.id().to_string()]).status()?;
    anyhow::ensure!(status.success(), "it could not be asked to");
    let begun = Instant::now();
    while child.try_wait()?.is_none() {
        if begun.elapsed() > STOP_WAIT {
            child.kill()?;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may already have ended.
            drop(child.kill());
        }
        for child in &mut self.children {
            drop(child.wait());
        }
    }
}

/// What a folder holds on the disk, in bytes, without what processes have printed.
pub(crate) fn kept_bytes(folder: &Path) -> anyhow::Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // What processes print is not what they keep.
        if entry.file_name().to_string_lossy().starts_with(LOG) {
            continue;
        }
        let metadata = entry.metadata()?;
        // Blocks of 512 bytes, so that what is only reserved in a file without being written does not count.
        bytes += if metadata.is_dir() { kept_bytes(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(bytes)
}
