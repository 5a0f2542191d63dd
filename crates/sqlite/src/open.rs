//! Opening a file: its connections, and the errors.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::lock::Lock;
use crate::schema::migrate;
use crate::{Settings, permissions};

/// The size of a page of a new file, a quarter of what SQLite makes them otherwise: a transaction of ours changes a few
/// bytes in each of a dozen pages, and each goes to the disk as a whole. A record of usual size fits into one. Files
/// that exist keep theirs.
const PAGE_BYTES: u32 = 1_024;

/// Pages in the log after which they are moved into the file: 16 MiB. Each checkpoint waits for the disk twice, however
/// much it moves, so SQLite's default of a quarter of this would make many small writers wait more often.
const CHECKPOINT_PAGES: u32 = 16_384;

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

/// The connection that writes, and the lock that keeps other processes out. It migrates the file to the latest version.
pub(crate) fn writer(path: &Path, settings: Settings, migrations: &[&str]) -> Result<(Connection, Lock), OpenError> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
        return Err(OpenError::NoDirectory(directory.to_owned()));
    }
    permissions::create(path).map_err(|error| OpenError::NotWritable(error.into()))?;
    let mut connection = connect(path)?;
    prepare(&connection, settings)?;
    let lock = Lock::take(path, settings)?;
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    // The file is checked before anything in it is changed: the journal mode is written into it.
    migrate(&mut connection, migrations)?;
    permissions::restrict(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", settings.durability.pragma())?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    Ok((connection, lock))
}

/// The only connection of a database without a file.
pub(crate) fn in_memory(settings: Settings, migrations: &[&str]) -> Result<Connection, OpenError> {
    let mut connection = Connection::open_in_memory()?;
    prepare(&connection, settings)?;
    migrate(&mut connection, migrations)?;
    Ok(connection)
}

/// A connection that only reads.
pub(crate) fn reader(path: &Path, settings: Settings) -> Result<Connection, OpenError> {
    let connection = connect(path)?;
    prepare(&connection, settings)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// The path is not read as a URI, which could contain settings. Each connection belongs to one thread.
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags)
}

fn prepare(connection: &Connection, settings: Settings) -> Result<(), OpenError> {
    connection.busy_timeout(Duration::from_millis(settings.busy_ms_max))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Durability;
    use crate::schema::MIGRATIONS;

    fn pragma(connection: &Connection, name: &str) -> String {
        let value = connection.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0)).unwrap();
        match value {
            rusqlite::types::Value::Integer(number) => number.to_string(),
            rusqlite::types::Value::Text(text) => text,
            other => panic!("{name} is {other:?}"),
        }
    }

    #[test]
    fn a_file_with_pages_of_another_size_keeps_them() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("longhaul.db");
        let mut older = Connection::open(&path).unwrap();
        older.pragma_update(None, "page_size", 4_096).unwrap();
        migrate(&mut older, &MIGRATIONS[..9]).unwrap();
        drop(older);
        let (writer, _lock) = writer(&path, Settings::default(), MIGRATIONS).unwrap();
        assert_eq!(pragma(&writer, "page_size"), "4096");
    }

    #[test]
    fn every_connection_is_set_up_as_the_settings_say() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("longhaul.db");
        for (durability, synchronous) in [(Durability::PowerLoss, "2"), (Durability::ProcessCrash, "1")] {
            let settings = Settings { durability, busy_ms_max: 77, ..Settings::default() };
            let (writer, _lock) = writer(&path, settings, MIGRATIONS).unwrap();
            assert_eq!(pragma(&writer, "synchronous"), synchronous);
            assert_eq!(pragma(&writer, "journal_mode"), "wal");
            assert_eq!(pragma(&writer, "page_size"), PAGE_BYTES.to_string());
            assert_eq!(pragma(&writer, "wal_autocheckpoint"), CHECKPOINT_PAGES.to_string());
            let reader = reader(&path, settings).unwrap();
            assert_eq!(pragma(&reader, "query_only"), "1");
            for connection in [writer, reader, in_memory(settings, MIGRATIONS).unwrap()] {
                assert_eq!(pragma(&connection, "busy_timeout"), "77");
            }
        }
    }
}
