//! A database whose files are taken away, replaced or copied: under an open database, and before it is opened.

use std::fs::{copy, create_dir, hard_link, read, remove_file, rename};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use longhaul_core::ports::{CreateError, StoreError, TaskStore, WorkQueue};
use longhaul_core::{PartsName, Task};
use longhaul_sqlite::{Database, OpenError, Settings};
use longhaul_testkit::given::{self, NOW, owner, queued};
use longhaul_testkit::{ManualClock, SeededIds};
use rusqlite::Connection;

use crate::new_file;

fn try_open(path: &Path) -> Result<Database, OpenError> {
    let settings = Settings { busy_ms_max: 50, ..Settings::default() };
    Database::open(path, Arc::new(ManualClock::default()), settings)
}

fn open(path: &Path) -> Database {
    try_open(path).unwrap()
}

fn refused(path: &Path) -> OpenError {
    try_open(path).err().expect("it was opened")
}

/// The file beside the database with this ending.
fn beside(path: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", path.display()))
}

/// A database with a task, in a folder of its own within another.
async fn used() -> (tempfile::TempDir, PathBuf, Database, Task) {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("data");
    create_dir(&inner).unwrap();
    let path = inner.join("tasks.db");
    let database = open(&path);
    let task = queued(&database.store(), &SeededIds::new(1), owner("alice")).await;
    (folder, path, database, task)
}

/// Copies those of the database's files that have these endings to a new folder, as they are now.
fn copied(path: &Path, endings: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let (folder, to) = new_file();
    for ending in endings {
        copy(beside(path, ending), beside(&to, ending)).unwrap();
    }
    (folder, to)
}

/// What a crash leaves.
const ALL: [&str; 3] = ["", "-wal", "-lock"];

async fn has(path: &Path, task: &Task) -> bool {
    let database = open(path);
    let found = database.store().get(&task.key(), NOW).await.unwrap();
    database.close().await;
    found.is_some()
}

/// Waits until the database has noticed that its files are lost, or back.
async fn until_lost(database: &Database, is_lost: bool) {
    while database.is_lost() != is_lost {
        tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(20))).await.unwrap();
    }
}

/// Ways to lose the files of a database, each with the way back; `None` if there is none.
type Loss = (&'static str, fn(&Path), Option<fn(&Path)>);

fn elsewhere(path: &Path) -> PathBuf {
    path.with_file_name("elsewhere")
}

const LOSSES: [Loss; 6] = [
    ("the file is moved", |path| rename(path, elsewhere(path)).unwrap(), Some(|p| rename(elsewhere(p), p).unwrap())),
    ("the file is removed", |path| remove_file(path).unwrap(), None),
    (
        "the folder is moved",
        |path| rename(path.parent().unwrap(), path.parent().unwrap().with_file_name("away")).unwrap(),
        Some(|path| rename(path.parent().unwrap().with_file_name("away"), path.parent().unwrap()).unwrap()),
    ),
    (
        "a copy is put in its place",
        |path| {
            copy(path, elsewhere(path)).unwrap();
            rename(elsewhere(path), path).unwrap();
        },
        None,
    ),
    ("its log is removed", |path| remove_file(beside(path, "-wal")).unwrap(), None),
    ("the index of its log is removed", |path| remove_file(beside(path, "-shm")).unwrap(), None),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_database_whose_files_are_lost_accepts_nothing_until_they_are_back() {
    for (how, lose, put_back) in LOSSES {
        let (_folder, path, database, task) = used().await;
        let (store, ids) = (database.store(), SeededIds::new(2));
        lose(&path);
        let create = async || store.create(given::new(given::task(&ids, owner("alice"), NOW)), NOW).await;
        // The first write after it, and those that follow.
        for _ in 0..2 {
            let created = create().await;
            assert!(matches!(created, Err(CreateError::Store(StoreError::Lost(_)))), "{how}: {created:?}");
        }
        assert!(database.is_lost(), "{how}");
        assert!(database.queue().receive(1, 0, 0).await.is_err(), "{how}: no work begins");
        assert!(store.get(&task.key(), NOW).await.unwrap().is_some(), "{how}: what is known is still shown");
        if let Some(put_back) = put_back {
            put_back(&path);
            create().await.unwrap_or_else(|error| panic!("{how}: {error:?}"));
            assert!(!database.is_lost(), "{how}");
        }
        database.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_is_noticed_although_nobody_writes() {
    let (_folder, path, database, _) = used().await;
    rename(&path, elsewhere(&path)).unwrap();
    until_lost(&database, true).await;
    rename(elsewhere(&path), &path).unwrap();
    until_lost(&database, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_to_the_database_is_followed_and_watched() {
    let (folder, path, database, task) = used().await;
    database.close().await;
    let link = folder.path().join("link.db");
    symlink(&path, &link).unwrap();
    let database = open(&link);
    assert!(matches!(refused(&path), OpenError::InUse(_)), "it is the same database by both names");
    assert!(database.store().get(&task.key(), NOW).await.unwrap().is_some());
    remove_file(&link).unwrap();
    symlink(folder.path().join("other.db"), &link).unwrap();
    until_lost(&database, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_the_database_that_was_put_in_its_place_is_not_deleted() {
    let (folder, path, database, task) = used().await;
    let (_copy, other) = copied(&path, &ALL);
    rename(path.parent().unwrap(), folder.path().join("away")).unwrap();
    rename(other.parent().unwrap(), path.parent().unwrap()).unwrap();
    rename(path.with_file_name("longhaul.db"), &path).unwrap();
    rename(path.with_file_name("longhaul.db-wal"), beside(&path, "-wal")).unwrap();
    let log = read(beside(&path, "-wal")).unwrap();
    database.close().await;
    assert!(read(beside(&path, "-wal")).unwrap() == log, "the log was changed");
    assert!(has(&folder.path().join("away/tasks.db"), &task).await, "nothing of the other one is lost either");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_an_open_database_without_its_log_is_refused() {
    let (_folder, path, database, task) = used().await;
    let (_kept, copy_of_file) = copied(&path, &[""]);
    let error = refused(&copy_of_file);
    assert!(matches!(error, OpenError::CopyWithoutLog(_)), "{error:?}");
    assert!(error.to_string().contains("longhaul backup"), "{error}");
    let (_kept, copy_with_log) = copied(&path, &["", "-wal"]);
    assert!(has(&copy_with_log, &task).await);
    database.close().await;
    // It is refused as well where the database itself was.
    copy(&copy_of_file, &path).unwrap();
    assert!(matches!(refused(&path), OpenError::CopyWithoutLog(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_closed_database_is_opened() {
    let (_folder, path, database, task) = used().await;
    database.close().await;
    let (_kept, copy_of_file) = copied(&path, &[""]);
    assert!(has(&copy_of_file, &task).await);
    // The second one finds the lock that the first one has left.
    copy(&path, &copy_of_file).unwrap();
    assert!(has(&copy_of_file, &task).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_a_crash_left_is_opened_wherever_it_is_then() {
    let (_folder, path, _database, task) = used().await;
    for _ in 0..2 {
        let (_kept, crashed) = copied(&path, &ALL);
        // Another program moves the log into the file.
        let other = Connection::open(&crashed).unwrap();
        other.query_row("SELECT count(*) FROM tasks", [], |row| row.get::<_, u32>(0)).unwrap();
        drop(other);
        assert!(!beside(&crashed, "-wal").exists());
        assert!(has(&crashed, &task).await);
    }
    let (_kept, crashed) = copied(&path, &ALL);
    let again = open(&crashed);
    let (_kept, crashed_again) = copied(&crashed, &ALL);
    drop(again);
    assert!(has(&crashed_again, &task).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_not_applied_to_a_file_that_it_does_not_belong_to() {
    let (_folder, path, database, task) = used().await;
    database.close().await;
    let (_kept, backup) = copied(&path, &[""]);
    let database = open(&path);
    queued(&database.store(), &SeededIds::new(2), owner("bob")).await;
    let (_kept, crashed) = copied(&path, &ALL);
    copy(&backup, &crashed).unwrap();
    let error = refused(&crashed);
    assert!(matches!(error, OpenError::OtherLog(_)), "{error:?}");
    for ending in ["-wal", "-shm"] {
        drop(remove_file(beside(&crashed, ending)));
    }
    assert!(has(&crashed, &task).await, "as the error says");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_without_its_file_is_kept() {
    let (_folder, path, _database, task) = used().await;
    let (_kept, crashed) = copied(&path, &ALL);
    rename(&crashed, elsewhere(&crashed)).unwrap();
    assert!(matches!(refused(&crashed), OpenError::LogAlone(_)));
    assert!(!crashed.exists(), "nothing is where the file should be put");
    rename(elsewhere(&crashed), &crashed).unwrap();
    assert!(has(&crashed, &task).await);
    // A database that is removed with its log begins anew.
    remove_file(&crashed).unwrap();
    assert!(!has(&crashed, &task).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_with_a_second_name_is_refused() {
    let (_folder, path, database, task) = used().await;
    database.close().await;
    hard_link(&path, elsewhere(&path)).unwrap();
    let error = refused(&path);
    assert!(matches!(error, OpenError::Linked(_)) && error.to_string().contains("hard link"), "{error:?}");
    remove_file(elsewhere(&path)).unwrap();
    assert!(has(&path, &task).await);
}

/// More than the log may have.
const MB: usize = 40;

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_a_reader_has_made_long_gets_short_when_the_reader_has_left() {
    let (_folder, path, database, task) = used().await;
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM tasks").unwrap();
    let part = "x".repeat(1 << 20);
    for number in 0..MB {
        let name = PartsName::Outcome { attempt: u32::try_from(number).unwrap() };
        database.store().put_parts(&task.key(), &name, &[&part]).await.unwrap();
    }
    let length = || beside(&path, "-wal").metadata().unwrap().len();
    assert!(length() > (MB as u64) << 20);
    reader.execute_batch("COMMIT").unwrap();
    while length() > 32 << 20 {
        tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(20))).await.unwrap();
    }
    database.close().await;
}
