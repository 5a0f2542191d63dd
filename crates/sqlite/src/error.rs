//! Why a database was not opened, or a call to it failed, and which error of the ports that is.

use std::path::PathBuf;
use std::sync::Arc;

use longhaul_core::ports::{QueueError, StoreError};
use rusqlite::ErrorCode;

/// Why a database was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no such directory.
    #[error("the database directory {} does not exist: create it, or choose another path", .0.display())]
    NoDirectory(PathBuf),
    /// The file cannot be opened or written.
    #[error(
        "the database file cannot be opened for writing: check that it is a file, \
         and check the permissions of the file and its directory"
    )]
    NotWritable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Another server has the database.
    #[error("another server uses the database {}: stop that server, or choose another file", .0.display())]
    InUse(PathBuf),
    /// Other users can read the file, and that cannot be changed.
    #[error(
        "other users can read {}, which holds arguments, results and a signing key, and this cannot be changed: \
         run chmod 600 as its owner, or choose another path", .path.display()
    )]
    Readable {
        /// The database, or a file beside it.
        path: PathBuf,
        /// Why it cannot be changed.
        #[source]
        cause: std::io::Error,
    },
    /// The file that shows who uses the database cannot be opened or locked.
    #[error(
        "the database needs the file {} to show that it is in use, and cannot lock it: check its permissions, and that \
         it is on a local disk", path.display()
    )]
    NotLockable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
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
    NoThread(#[source] std::io::Error),
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked(error),
            Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                Self::NotWritable(error.into())
            }
            Some(ErrorCode::NotADatabase) => Self::Foreign,
            Some(_) | None => Self::Sqlite(error),
        }
    }
}

/// Why a call to the database failed.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// SQLite reported an error. Nothing of the call was applied.
    #[error("SQLite reported an error")]
    Sqlite(#[from] rusqlite::Error),
    /// The transaction that the call was part of did not commit.
    #[error("the transaction did not commit")]
    NotCommitted(#[source] Arc<rusqlite::Error>),
    /// The call was part of a transaction that another call's error ended.
    #[error("the transaction was rolled back")]
    RolledBack,
    /// A stored value cannot be read.
    #[error("a stored value cannot be read")]
    Corrupt(#[from] serde_json::Error),
    /// The call panicked, and was rolled back.
    #[error("the call panicked inside the database thread")]
    Panicked,
    /// The database is closed.
    #[error("the database is closed")]
    Closed,
}

impl From<DatabaseError> for StoreError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Corrupt(_) => Self::Corrupt(error.into()),
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
