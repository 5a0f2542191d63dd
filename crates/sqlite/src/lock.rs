//! The lock of a database: one process has it at a time, for as long as it lives.
//!
//! It is a lock of the operating system on a file of its own, so that the kernel releases it however the process ends.
//! SQLite's own locks on the database are released when any of the process's connections closes, and last for one
//! transaction.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{OpenError, Settings, permissions};

/// The longest wait for a process that is ending: one that was killed keeps its lock until its memory is released.
const WAIT_MS_MAX: u64 = 1_000;

/// How long to wait between two tries.
const PAUSE_MS: u64 = 10;

#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Locks the database in the file at `path`, which exists.
    pub(crate) fn take(path: &Path, settings: Settings) -> Result<Self, OpenError> {
        let companion = companion(path);
        let failed = |cause| OpenError::NotLockable { path: companion.clone(), cause };
        permissions::create(&companion).map_err(failed)?;
        // The file is never deleted: a process that holds a deleted one would not keep out the next, which makes
        // another.
        let file = OpenOptions::new().read(true).write(true).open(&companion).map_err(failed)?;
        for _pause in 0..settings.busy_ms_max.min(WAIT_MS_MAX) / PAUSE_MS {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(PAUSE_MS)),
                Err(TryLockError::Error(cause)) => return Err(failed(cause)),
            }
        }
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse(path.to_owned())),
            Err(TryLockError::Error(cause)) => Err(failed(cause)),
        }
    }
}

/// Next to the file itself, whichever of its names `path` is.
fn companion(path: &Path) -> PathBuf {
    let mut name = OsString::from(path.canonicalize().unwrap_or_else(|_unresolved| path.to_owned()));
    name.push("-lock");
    PathBuf::from(name)
}
