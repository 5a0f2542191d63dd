//! Copies of a database, also of one that a server has open.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tempfile::NamedTempFile;

use crate::limits::BACKUP_WAIT;
use crate::lock::Lock;
use crate::mark::{self, Found};
use crate::permissions::beside;
use crate::{OpenError, error};

/// A copy that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backup {
    /// How many tasks it holds.
    pub tasks: u32,
    /// Whether the original was itself a copy without its log, so that the latest tasks may be missing.
    pub may_lack_tasks: bool,
}

/// Why a copy was not made.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is no database.
    #[error("there is no database {}: name it with --db", .0.display())]
    NoDatabase(PathBuf),
    /// The name of the copy is taken.
    #[error("{} exists and was not changed: choose another name for the copy", .0.display())]
    Exists(PathBuf),
    /// The name of the copy cannot be used.
    #[error("a copy {} cannot be made: its name has to be UTF-8, and its directory has to exist", .0.display())]
    Name(PathBuf),
    /// The database cannot be read.
    #[error("the database {} cannot be copied", path.display())]
    Unreadable {
        /// The database.
        path: PathBuf,
        /// Why.
        #[source]
        cause: OpenError,
    },
    /// The copy cannot be written.
    #[error("the copy {} cannot be written", path.display())]
    Unwritable {
        /// The copy.
        path: PathBuf,
        /// Why.
        #[source]
        cause: OpenError,
    },
    /// The copy is not sound.
    #[error("the copy is not sound, and was removed: {0}; the database is damaged, so keep your older backups")]
    Unsound(String),
}

/// Copies the database at `from`, with its log, to the new file `to`. A server may have it open. Returns once the copy
/// was checked and is on the disk. Nothing is left of a copy that fails.
pub fn back_up(from: &Path, to: &Path) -> Result<Backup, BackupError> {
    if !from.is_file() {
        return Err(BackupError::NoDatabase(from.to_owned()));
    }
    if to.symlink_metadata().is_ok() || beside(to, "-wal").exists() {
        return Err(BackupError::Exists(to.to_owned()));
    }
    let unreadable = |cause| BackupError::Unreadable { path: from.to_owned(), cause };
    let unwritable = |cause| BackupError::Unwritable { path: to.to_owned(), cause };
    let (original, found) = original(from).map_err(unreadable)?;
    let absolute = std::path::absolute(to).ok();
    let directory = absolute.as_deref().and_then(Path::parent).filter(|directory| directory.is_dir());
    let directory = directory.ok_or_else(|| BackupError::Name(to.to_owned()))?;
    // Readable by its owner alone, and removed unless it gets its name.
    let copy = NamedTempFile::with_prefix_in(".longhaul-backup-", directory);
    let copy = copy.map_err(|error| unwritable(error::of_file(error)))?;
    let path = copy.path().to_str().ok_or_else(|| BackupError::Name(to.to_owned()))?;
    original.execute("VACUUM INTO ?1", [path]).map_err(|error| unwritable(error.into()))?;
    let tasks = finish(copy.path()).map_err(|error| unwritable(error.into()))?;
    let tasks = tasks.map_err(BackupError::Unsound)?;
    keep(copy, to, directory).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => BackupError::Exists(to.to_owned()),
        _ => unwritable(error::of_file(error)),
    })?;
    Ok(Backup { tasks, may_lack_tasks: found == Found::Copy })
}

/// A connection to the database at `path`, which changes none of its files. A copy without its log may be copied again,
/// so that there is a way to serve what it holds.
fn original(path: &Path) -> Result<(Connection, Found), OpenError> {
    // A server has checked its files itself.
    let found = if Lock::is_taken(path) {
        Found::Whole
    } else {
        mark::find(path, Lock::marks_beside(path).as_deref()).map_err(error::of_file)?
    };
    if found != Found::Copy {
        mark::refuse(path, found)?;
    }
    let has_log = beside(path, "-wal").exists();
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BACKUP_WAIT)?;
    // The log of a server that died stays as it is, and none is left where there was none.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_log)?;
    crate::schema::known_version(&connection)?;
    Ok((connection, found))
}

/// Makes the copy one that is closed in order, and checks it. Returns how many tasks it holds, or what is wrong.
fn finish(path: &Path) -> rusqlite::Result<Result<u32, String>> {
    let copy = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    mark::clear(&copy)?;
    let checked: String = copy.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if checked != "ok" {
        return Ok(Err(checked));
    }
    copy.query_row("SELECT count(*) FROM tasks", [], |row| row.get(0)).map(Ok)
}

/// Gives the copy its name, once the disk has it.
fn keep(copy: NamedTempFile, to: &Path, directory: &Path) -> io::Result<()> {
    copy.as_file().sync_all()?;
    copy.persist_noclobber(to).map_err(|error| error.error)?;
    // Not every system lets a directory be opened.
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}
