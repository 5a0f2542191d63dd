//! Opening a file: its connections.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::ground::Ground;
use crate::limits::{CHECKPOINT_PAGES, PAGE_BYTES};
use crate::lock::{Lock, Mark};
use crate::mark::{self, Found};
use crate::schema::migrate;
use crate::{OpenError, Settings, error, file_system, permissions};

/// The connection that writes, and the files that it has open, with the lock that keeps other processes out. It
/// migrates the file to the latest version.
pub(crate) fn writer(path: &Path, settings: Settings, migrations: &[&str]) -> Result<(Connection, Ground), OpenError> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
        return Err(OpenError::NoDirectory(directory.to_owned()));
    }
    // Before an empty file is where the right one should be put.
    if !path.exists() && mark::find(path, None).is_ok_and(|found| found == Found::LogAlone) {
        return Err(OpenError::LogAlone(path.to_owned()));
    }
    permissions::create(path).map_err(error::of_file)?;
    file_system::check(path)?;
    let mut connection = connect(path)?;
    prepare(&connection, settings)?;
    let lock = Lock::take(path, settings)?;
    mark::check(path, &lock)?;
    let marked = mark::in_file(path).map_err(error::of_file)?.unwrap_or(Mark::CLOSED);
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    // The file is checked before anything in it is changed: the journal mode is written into it.
    migrate(&mut connection, migrations)?;
    permissions::restrict(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", settings.durability.pragma())?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    mark::open(&connection, &lock, marked)?;
    let ground = Ground::of(path, lock, &connection)?;
    Ok((connection, ground))
}

/// The only connection of a database without a file.
pub(crate) fn in_memory(settings: Settings, migrations: &[&str]) -> Result<Connection, OpenError> {
    let mut connection = Connection::open_in_memory()?;
    prepare(&connection, settings)?;
    migrate(&mut connection, migrations)?;
    Ok(connection)
}

pub(crate) fn reader(path: &Path, settings: Settings) -> Result<Connection, OpenError> {
    let connection = connect(path)?;
    prepare(&connection, settings)?;
    connection.pragma_update(None, "query_only", true)?;
    // Only the writer may delete the log: it knows whether that is still the one it opened.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // SQLite opens the log when it first reads: later, another file may be at its path.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, u32>(0))?;
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
        let (writer, _ground) = writer(&path, Settings::default(), MIGRATIONS).unwrap();
        assert_eq!(pragma(&writer, "page_size"), "4096");
    }

    #[test]
    fn every_connection_is_set_up_as_the_settings_say() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("longhaul.db");
        for (durability, synchronous) in [(Durability::PowerLoss, "2"), (Durability::ProcessCrash, "1")] {
            let settings = Settings { durability, busy_ms_max: 77, ..Settings::default() };
            let (writer, _ground) = writer(&path, settings, MIGRATIONS).unwrap();
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
