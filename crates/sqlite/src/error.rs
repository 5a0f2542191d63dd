//! Why a database was not opened, or a call to it failed, and which error of the ports that is.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use longhaul_core::ports::{QueueError, StoreError};
use rusqlite::{ErrorCode, ffi};

/// Why a database was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory does not exist.
    #[error("the database directory {} does not exist: create it, or choose another path", .0.display())]
    NoDirectory(PathBuf),
    /// The file cannot be opened or written.
    #[error(
        "the database file cannot be opened for writing. Check that it is a file, that its file system is not \
         read-only, and the permissions of the file and its directory"
    )]
    NotWritable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Another server has the database.
    #[error("another server uses the database {}: stop that server, or choose another file", .0.display())]
    InUse(PathBuf),
    /// Other users can read the file, and that cannot be changed.
    #[error(
        "other users can read {}, which holds arguments, results and a signing key, and this cannot be changed. \
         Run chmod 600 as its owner, or choose another path", .path.display()
    )]
    Readable {
        /// The database, or a file next to it.
        path: PathBuf,
        /// Why it cannot be changed.
        #[source]
        cause: io::Error,
    },
    /// The file that shows who uses the database cannot be opened or locked.
    #[error(
        "the database needs the file {} to show that it is in use, and cannot lock it. Check its permissions, and that \
         it is on a local disk", path.display()
    )]
    NotLockable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// The file is on a file system that machines share.
    #[error(
        "the database {} is on a network file system ({kind}), where its log and its locks do not work. Choose a path \
         on a local disk, and copy the database there with `longhaul backup`", path.display()
    )]
    NetworkFileSystem {
        /// The database.
        path: PathBuf,
        /// Which file system.
        kind: String,
    },
    /// The file has a second name.
    #[error(
        "the database {} has a second name (a hard link), under which its log would not be found. Remove the other \
         name, or make a copy with `longhaul backup` and serve that", .0.display()
    )]
    Linked(PathBuf),
    /// The file was copied while a server had it open, without its log.
    #[error(
        "the database {path} was copied while a server had it open, without the log {path}-wal that has the latest \
         tasks. Copy both, or make copies with `longhaul backup`. If it was copied as a whole by a tool that knows \
         SQLite, or to serve what it holds, run `longhaul backup --db {path} NEW`, and serve NEW",
        path = .0.display()
    )]
    CopyWithoutLog(PathBuf),
    /// The file was replaced, and the log of the one before is still there.
    #[error(
        "the log {path}-wal belongs to another file than {path}, and would damage it. Put the other file back, or \
         remove {path}-wal and {path}-shm to serve this one. If the file and its log were copied here together, \
         remove {path}-lock",
        path = .0.display()
    )]
    OtherLog(PathBuf),
    /// There is a log, and the file is gone.
    #[error(
        "the database {path} is gone or empty, but its log {path}-wal is there. Put the file back, or remove the log \
         to begin with a new database",
        path = .0.display()
    )]
    LogAlone(PathBuf),
    /// There is no room for the database.
    #[error("the disk is full, or its quota is used up: make room there, and try again")]
    DiskFull(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The disk, or the file system on it, does not do what it should.
    #[error(
        "the disk of the database reported an error. Read the system's log for the cause, and check that the file \
         is on a local disk"
    )]
    Disk(#[source] rusqlite::Error),
    /// The file is damaged.
    #[error("the database file is damaged: restore a backup, or choose another path")]
    Damaged(#[source] rusqlite::Error),
    /// Another process has locked the file.
    #[error("another process has locked the database: stop it, or choose another path")]
    Locked(#[source] rusqlite::Error),
    /// The file is not a Longhaul database.
    #[error("the file is not a Longhaul database and was not changed: choose another path")]
    Foreign,
    /// A newer Longhaul wrote the file.
    #[error(
        "the database has schema version {version}, and this Longhaul supports versions up to {latest}: \
         start the newer Longhaul, or choose another path"
    )]
    Newer {
        /// The file's version.
        version: usize,
        /// The latest version that this program supports.
        latest: usize,
    },
    /// SQLite reported another error.
    #[error("the database cannot be opened")]
    Sqlite(#[source] rusqlite::Error),
    /// The system could not start a thread for the database.
    #[error("no thread could be started for the database")]
    NoThread(#[source] io::Error),
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        // SQLite cannot tell why it could not make the file beside the log larger.
        let has_no_room = error.sqlite_error().is_some_and(|cause| cause.extended_code == ffi::SQLITE_IOERR_SHMSIZE);
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::DiskFull(error.into()),
            Some(_) if has_no_room => Self::DiskFull(error.into()),
            Some(ErrorCode::SystemIoFailure | ErrorCode::FileLockingProtocolFailed) => Self::Disk(error),
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged(error),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked(error),
            Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                Self::NotWritable(error.into())
            }
            Some(ErrorCode::NotADatabase) => Self::Foreign,
            Some(_) | None => Self::Sqlite(error),
        }
    }
}

/// Why a file could not be made, read or written.
pub(crate) fn of_file(error: io::Error) -> OpenError {
    if is_full(&error) { OpenError::DiskFull(error.into()) } else { OpenError::NotWritable(error.into()) }
}

/// Whether the disk had no room for a write.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

/// Why a call to the database failed.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// SQLite reported an error. Nothing of the call was applied.
    #[error("SQLite reported an error")]
    Sqlite(#[source] rusqlite::Error),
    /// A stored value is not of its type, or the page that it is on is damaged.
    #[error("a stored value cannot be read")]
    Unreadable(#[source] rusqlite::Error),
    /// The transaction that the call was part of did not commit.
    #[error("the transaction did not commit")]
    NotCommitted(#[source] Arc<rusqlite::Error>),
    /// The call was part of a transaction that another call's error ended.
    #[error("the transaction was rolled back")]
    RolledBack,
    /// The files are not where they were opened.
    #[error("the database was removed, moved or replaced under the running server")]
    Lost,
    /// A stored value cannot be read.
    #[error("a stored value cannot be read")]
    Corrupt(#[from] serde_json::Error),
    /// A newer version wrote the record, in this format.
    #[error("a newer version wrote this task, in format {0}: start that version again, and the task continues")]
    Newer(String),
    /// The call panicked, and was rolled back.
    #[error("the call panicked inside the database thread")]
    Panicked,
    /// The database is closed.
    #[error("the database is closed")]
    Closed,
}

impl DatabaseError {
    /// Whether the same value cannot be read the next time either, by no version.
    pub(crate) const fn is_permanent(&self) -> bool {
        matches!(self, Self::Unreadable(_) | Self::Corrupt(_))
    }
}

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        let is_of_another_type = matches!(
            error,
            rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
                | rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::Utf8Error(..)
        );
        if is_of_another_type || error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) {
            Self::Unreadable(error)
        } else {
            Self::Sqlite(error)
        }
    }
}

impl From<DatabaseError> for StoreError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Unreadable(_) | DatabaseError::Corrupt(_) => Self::Corrupt(error.into()),
            DatabaseError::Newer(_) => Self::NewerVersion(error.into()),
            DatabaseError::Lost => Self::Lost(error.into()),
            DatabaseError::Sqlite(_)
            | DatabaseError::NotCommitted(_)
            | DatabaseError::RolledBack
            | DatabaseError::Panicked
            | DatabaseError::Closed => Self::Unavailable(error.into()),
        }
    }
}

impl From<DatabaseError> for QueueError {
    fn from(error: DatabaseError) -> Self {
        Self(error.into())
    }
}
