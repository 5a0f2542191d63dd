//! The lock of a database: one process has it at a time, for as long as it lives.
//!
//! It is a lock of the operating system on a file of its own, so that the kernel releases it however the process ends.
//! SQLite's own locks on the database are released when any of the process's connections closes, and last for one
//! transaction.
//!
//! The file also holds the [marks](crate::mark) that the database's own file may have.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::num::ParseIntError;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use crate::error::is_full;
use crate::limits::{LOCK_PAUSE_MS, LOCK_WAIT_MS_MAX};
use crate::permissions::{self, beside};
use crate::{OpenError, Settings};

/// How many marks the file holds. All are written each time, so that the file keeps its length.
const MARKS: usize = 4;

/// A mark takes eight digits and a separator.
const MARK_BYTES: usize = 9;

/// The number of a run. 0 says that no server has the file open, or only one of an older version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(pub(crate) u32);

impl Mark {
    pub(crate) const CLOSED: Self = Self(0);
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl FromStr for Mark {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        u32::from_str_radix(text, 16).map(Self)
    }
}

#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    /// Locks the database in the file at `path`, which exists.
    pub(crate) fn take(path: &Path, settings: Settings) -> Result<Self, OpenError> {
        let companion = companion(path);
        let failed = |cause: io::Error| {
            if is_full(&cause) {
                OpenError::DiskFull(cause.into())
            } else {
                OpenError::NotLockable { path: companion.clone(), cause }
            }
        };
        permissions::create(&companion).map_err(failed)?;
        // The file is never deleted: a process that holds a deleted one would not keep out the next, which makes
        // another.
        let file = OpenOptions::new().read(true).write(true).open(&companion).map_err(failed)?;
        for _pause in 0..settings.busy_ms_max.min(LOCK_WAIT_MS_MAX) / LOCK_PAUSE_MS {
            match file.try_lock() {
                Ok(()) => return Ok(Self { file }),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(LOCK_PAUSE_MS)),
                Err(TryLockError::Error(cause)) => return Err(failed(cause)),
            }
        }
        match file.try_lock() {
            Ok(()) => Ok(Self { file }),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse(path.to_owned())),
            Err(TryLockError::Error(cause)) => Err(failed(cause)),
        }
    }

    /// Whether a server has the database in the file at `path`.
    pub(crate) fn is_taken(path: &Path) -> bool {
        let file = OpenOptions::new().read(true).open(companion(path));
        file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// The marks that the last server with the database at `path` noted; `None` if none did.
    pub(crate) fn marks_beside(path: &Path) -> Option<Vec<Mark>> {
        marks_in(&File::open(companion(path)).ok()?)
    }

    /// The marks that the database's file may have.
    pub(crate) fn marks(&self) -> Option<Vec<Mark>> {
        marks_in(&self.file)
    }

    /// Notes all marks that the database's file may have from now on, and returns once the disk has them.
    pub(crate) fn note(&self, marks: &[Mark]) -> io::Result<()> {
        self.note_soon(marks)?;
        self.file.sync_all()
    }

    /// Notes the marks, where it does no harm if the disk keeps those before.
    pub(crate) fn note_soon(&self, marks: &[Mark]) -> io::Result<()> {
        let text: String = marks.iter().cycle().take(MARKS).map(|mark| format!("{mark}\n")).collect();
        let mut file = &self.file;
        file.rewind()?;
        file.write_all(text.as_bytes())
    }
}

/// The marks in the file; `None` if an older version made it, which noted none.
fn marks_in(mut file: &File) -> Option<Vec<Mark>> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take((MARKS * MARK_BYTES) as u64).read_to_string(&mut text).ok()?;
    let marks = text.lines().map(|line| line.parse().ok()).collect::<Option<Vec<Mark>>>()?;
    (!marks.is_empty()).then_some(marks)
}

/// Next to the file itself, whichever of its names `path` is.
fn companion(path: &Path) -> PathBuf {
    beside(path, "-lock")
}
