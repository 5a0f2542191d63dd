//! What can be wrong with a file, and what the error message says.

use std::path::Path;
use std::sync::Arc;

use longhaul_sqlite::{Database, OpenError, Settings};
use longhaul_testkit::{ManualClock, SeededIds, block_on};
use rusqlite::Connection;

use crate::new_file;

fn open(path: &Path) -> Result<Database, OpenError> {
    let settings = Settings { busy_ms_max: 50, ..Settings::default() };
    Database::open(path, Arc::new(ManualClock::default()), settings)
}

fn error(path: &Path) -> OpenError {
    open(path).err().expect("it was opened")
}

#[test]
fn a_directory_that_does_not_exist_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let error = error(&directory.path().join("nowhere/longhaul.db"));
    assert!(matches!(&error, OpenError::NoDirectory(path) if path.ends_with("nowhere")), "{error:?}");
    assert!(error.to_string().contains("nowhere") && error.to_string().contains("create it"), "{error}");
}

#[test]
fn a_path_that_is_a_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let error = error(directory.path());
    assert!(matches!(error, OpenError::NotWritable(_)), "{error:?}");
}

#[test]
fn a_directory_where_nothing_can_be_written_is_refused() {
    // A directory where no user can create files, not even a privileged one who runs tests.
    let error = error(Path::new("/proc/longhaul.db"));
    assert!(matches!(error, OpenError::NotWritable(_)), "{error:?}");
    assert!(error.to_string().contains("permissions"), "{error}");
}

#[test]
fn a_path_that_looks_like_a_uri_is_a_path() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file:longhaul.db?mode=memory");
    open(&path).unwrap();
    assert!(path.is_file());
}

#[test]
fn a_file_that_another_process_has_locked_is_refused_after_a_while() {
    let (_folder, path) = new_file();
    block_on(async { open(&path).unwrap().close().await });
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = error(&path);
    assert!(matches!(error, OpenError::Locked(_)), "{error:?}");
    assert!(error.to_string().contains("another process"), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    open(&path).unwrap();
}

#[test]
fn a_database_of_another_program_is_refused_and_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("photos.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE photos (name TEXT)").unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = error(&path);
    assert!(matches!(error, OpenError::Foreign), "{error:?}");
    assert!(error.to_string().contains("not a Longhaul database"), "{error}");
    assert!(std::fs::read(&path).unwrap() == before, "the file was changed");
}

#[test]
fn a_file_that_is_not_a_database_is_refused_and_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("letter.txt");
    let text = "Dear Sir or Madam, ".repeat(500);
    std::fs::write(&path, &text).unwrap();
    let error = error(&path);
    assert!(matches!(error, OpenError::Foreign), "{error:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_file_of_a_newer_version_is_refused_and_not_changed() {
    let (_folder, path) = new_file();
    block_on(async { open(&path).unwrap().close().await });
    let newer = Connection::open(&path).unwrap();
    newer.execute_batch("UPDATE meta SET value = CAST('99' AS BLOB) WHERE name = 'schema_version'").unwrap();
    drop(newer);
    let error = error(&path);
    assert!(matches!(error, OpenError::Newer { version: 99, .. }), "{error:?}");
    assert!(error.to_string().contains("99"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_generated_once_and_survives_a_restart() {
    let (_folder, path) = new_file();
    let database = open(&path).unwrap();
    let first = database.secret("cursors", &SeededIds::new(1)).await.unwrap();
    assert_eq!(database.secret("cursors", &SeededIds::new(2)).await.unwrap(), first);
    assert_ne!(database.secret("other", &SeededIds::new(2)).await.unwrap(), first);
    database.close().await;
    let database = open(&path).unwrap();
    assert_eq!(database.secret("cursors", &SeededIds::new(3)).await.unwrap(), first);
}
