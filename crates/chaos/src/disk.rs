//! A disk of its own for the database, which can be full.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::bail;

/// The size of the disk: databases of an hour.
const SIZE_MIB: u32 = 512;

/// How often space that has become free is filled again.
const AGAIN: Duration = Duration::from_millis(50);

/// How much is written at a time: as much as can be at first, and in the end the last page.
const PARTS: [usize; 2] = [1024 * 1024, 4 * 1024];

/// A file system in memory. Unmounted when dropped.
pub(crate) struct Disk(PathBuf);

impl Disk {
    /// Mounts one at this folder, which needs root.
    pub(crate) fn mount(folder: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={SIZE_MIB}m,mode=700"), "chaos"]).arg(folder);
        let output = mount.output()?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(Self(folder.to_owned()))
    }

    /// Fills the disk for a while.
    pub(crate) async fn fill(&self, time: Duration) -> anyhow::Result<()> {
        let (path, begun) = (self.0.join("ballast"), Instant::now());
        let mut ballast = File::create(&path)?;
        while begun.elapsed() < time {
            for part in PARTS {
                add(&mut ballast, &vec![0; part])?;
            }
            tokio::time::sleep(AGAIN).await;
        }
        Ok(fs::remove_file(path)?)
    }
}

/// Adds these bytes to a file until no more fit.
fn add(file: &mut File, bytes: &[u8]) -> std::io::Result<()> {
    loop {
        match file.write_all(bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Even if a server that is about to end still has files there.
        let _stays_until_restart = Command::new("umount").arg("-l").arg(&self.0).stderr(Stdio::null()).status();
    }
}
