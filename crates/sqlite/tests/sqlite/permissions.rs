//! Who may read the files of a database.

use std::fs::{Permissions, metadata, set_permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use longhaul_sqlite::{Database, OpenError, Settings};
use longhaul_testkit::{ManualClock, SeededIds, block_on};
use rusqlite::Connection;

/// Set for the copy of this program that opens a database with another umask, to the database's path.
const CHILD: &str = "LONGHAUL_TEST_OPENS";

fn open(path: &Path) -> Result<Database, OpenError> {
    Database::open(path, Arc::new(ManualClock::default()), Settings::default())
}

/// A database with something in it, so that all its files exist.
fn used(path: &Path) -> Database {
    let database = open(path).unwrap();
    block_on(database.secret("cursors", &SeededIds::new(1))).unwrap();
    database
}

fn mode(path: &Path) -> u32 {
    metadata(path).unwrap().permissions().mode() & 0o777
}

/// The modes of all files in the directory.
fn modes(directory: &Path) -> Vec<(String, u32)> {
    let mut all: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), mode(&entry.path())))
        .collect();
    all.sort();
    all
}

fn private(names: &[&str]) -> Vec<(String, u32)> {
    names.iter().map(|name| ((*name).to_owned(), 0o600)).collect()
}

const ALL: [&str; 4] = ["tasks.db", "tasks.db-lock", "tasks.db-shm", "tasks.db-wal"];

/// Runs in the process that the test below starts; alone it does nothing.
#[test]
fn opened_with_the_umask_of_this_process() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let path = Path::new(&path);
    let database = used(path);
    assert_eq!(modes(path.parent().unwrap()), private(&ALL));
    block_on(database.close());
}

#[test]
fn new_files_are_their_owners_alone_whatever_the_umask_is() {
    for umask in ["000", "022", "077", "777"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tasks.db");
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("umask {umask} && exec \"$0\" \"$@\"")]).arg(std::env::current_exe().unwrap());
        shell.args(["--exact", "permissions::opened_with_the_umask_of_this_process", "--nocapture"]).env(CHILD, &path);
        let out = shell.output().unwrap();
        assert!(out.status.success(), "umask {umask}: {}", String::from_utf8_lossy(&out.stderr));
        assert_eq!(mode(&path), 0o600, "umask {umask}");
    }
}

#[test]
fn files_that_others_could_read_are_taken_from_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tasks.db");
    let first = used(&path);
    // A program that reads the database meanwhile, so that SQLite keeps the files beside it.
    let reader = Connection::open(&path).unwrap();
    reader.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, u32>(0)).unwrap();
    block_on(first.close());
    for name in ALL {
        set_permissions(directory.path().join(name), Permissions::from_mode(0o664)).unwrap();
    }
    let database = used(&path);
    assert_eq!(modes(directory.path()), private(&ALL));
    block_on(database.close());
}

#[test]
fn a_link_to_a_database_that_does_not_exist_yet_creates_it_for_its_owner_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("link.db");
    symlink(directory.path().join("tasks.db"), &path).unwrap();
    let database = used(&path);
    assert_eq!(mode(&directory.path().join("tasks.db")), 0o600);
    block_on(database.close());
}

#[test]
fn a_file_that_is_not_ours_keeps_its_permissions() {
    let directory = tempfile::tempdir().unwrap();
    let photos = directory.path().join("photos.db");
    Connection::open(&photos).unwrap().execute_batch("CREATE TABLE photos (name TEXT)").unwrap();
    let letter = directory.path().join("letter.txt");
    std::fs::write(&letter, "Dear Sir or Madam, ".repeat(500)).unwrap();
    for path in [photos, letter] {
        set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(open(&path).err(), Some(OpenError::Foreign)), "{}", path.display());
        assert_eq!(mode(&path), 0o644, "{}", path.display());
    }
}
