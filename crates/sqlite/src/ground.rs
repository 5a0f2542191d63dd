//! The files of a database while it is open: they have to stay where they were opened.
//!
//! A process continues writing to a file that was removed, moved or replaced, and SQLite does not notice. All that is
//! written then is lost with the process. So the writer compares the files at their paths with those that it opened. It
//! does so a second after the last time, and after each commit before it is answered.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::limits::FILES_CHECKED_EVERY;
use crate::lock::{Lock, Mark};
use crate::log::Log;
use crate::mark;
use crate::permissions::beside;

/// The files of an open database. The writer has them.
pub(crate) struct Ground {
    lock: Lock,
    files: Vec<Place>,
    is_lost: Arc<AtomicBool>,
    log: Log,
    due_at: Instant,
}

impl Ground {
    /// The files of the database at `path`, which `connection` has open. All of them exist by now.
    pub(crate) fn of(path: &Path, lock: Lock, connection: &Connection) -> rusqlite::Result<Self> {
        // Also if another folder gets this name.
        let named = std::path::absolute(path).unwrap_or_else(|_unknown| path.to_owned());
        let (log, index) = (beside(path, "-wal"), beside(path, "-shm"));
        let files = [named, log.clone(), index.clone()].into_iter().map(Place::of).collect();
        let log = Log::of(log, index, connection)?;
        Ok(Self { lock, files, is_lost: Arc::default(), log, due_at: now() + FILES_CHECKED_EVERY })
    }

    /// Whether the files are lost, for other threads.
    pub(crate) fn is_lost(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_lost)
    }

    /// How long until [`Ground::keep`] has something to do.
    pub(crate) fn due_in(&self) -> Duration {
        self.due_at.saturating_duration_since(now())
    }

    /// Checks the files and the length of the log, if that is due. Not while a transaction is open.
    pub(crate) fn keep(&mut self, connection: &Connection) {
        if !self.due_in().is_zero() {
            return;
        }
        self.due_at = now() + FILES_CHECKED_EVERY;
        if self.is_in_place() {
            self.log.keep(connection);
        }
    }

    /// Whether nothing may be written, because the files were not in place before, and are not yet.
    pub(crate) fn stays_lost(&self) -> bool {
        self.is_lost.load(Relaxed) && !self.is_in_place()
    }

    /// Whether all files are where they were opened. The log says when that changes.
    pub(crate) fn is_in_place(&self) -> bool {
        let missing = self.files.iter().find(|file| !file.is_in_place());
        match (missing, self.is_lost.swap(missing.is_some(), Relaxed)) {
            (Some(file), false) => tracing::error!(
                path = %file.path.display(),
                "the database was removed, moved or replaced under the running server: no calls are accepted. Put the \
                 same files back, or stop the server, put the right files there, and start it again"
            ),
            (None, true) => tracing::warn!("the database is where it was opened again: calls are accepted"),
            (Some(_), true) | (None, false) => {}
        }
        missing.is_none()
    }

    /// Closes the connection, and unmarks the file.
    pub(crate) fn close(self, connection: Connection) {
        let is_unmarked = if self.is_in_place() {
            mark::close(&connection, &self.lock).unwrap_or_else(|error| {
                tracing::warn!(error = &error as &dyn std::error::Error, "the database stays marked as open");
                false
            })
        } else {
            // SQLite would delete the log that is at the path now, which is not the one that it has open.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).is_err()
        };
        close(connection);
        // If this fails, the lock knows both marks.
        drop(is_unmarked.then(|| self.lock.note_soon(&[Mark::CLOSED])));
    }
}

/// Closes a connection.
pub(crate) fn close(connection: Connection) {
    if let Err((_connection, error)) = connection.close() {
        tracing::warn!(%error, "the database was not closed cleanly; no data is lost");
    }
}

#[expect(clippy::disallowed_methods, reason = "how often the files are checked decides nothing about any task")]
fn now() -> Instant {
    Instant::now()
}

/// A file, and where it was opened.
struct Place {
    path: PathBuf,
    id: Option<system::FileId>,
}

impl Place {
    fn of(path: PathBuf) -> Self {
        let id = system::id(&path);
        Self { path, id }
    }

    fn is_in_place(&self) -> bool {
        system::id(&self.path) == self.id
    }
}

#[cfg(unix)]
mod system {
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    /// Device and inode.
    pub(super) type FileId = (u64, u64);

    /// The file at this path, if there is one that can be seen.
    pub(super) fn id(path: &Path) -> Option<FileId> {
        path.metadata().ok().map(|file| (file.dev(), file.ino()))
    }
}

/// Other systems do not let files be removed or moved that are open.
#[cfg(not(unix))]
mod system {
    use std::path::Path;

    pub(super) type FileId = ();

    pub(super) fn id(path: &Path) -> Option<FileId> {
        path.exists().then_some(())
    }
}
