//! Copies of a database, which are opened instead of it.

use std::fs::{copy, create_dir, read_dir, write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use longhaul_core::Task;
use longhaul_core::ports::TaskStore;
use longhaul_sqlite::{Backup, BackupError, Database, OpenError, Settings, back_up};
use longhaul_testkit::given::{NOW, owner, queued};
use longhaul_testkit::{ManualClock, SeededIds};
use rusqlite::Connection;

use crate::new_file;

fn open(path: &Path) -> Result<Database, OpenError> {
    Database::open(path, Arc::new(ManualClock::default()), Settings::default())
}

async fn used() -> (tempfile::TempDir, PathBuf, Database, Task) {
    let (folder, path) = new_file();
    let database = open(&path).unwrap();
    let task = queued(&database.store(), &SeededIds::new(1), owner("alice")).await;
    (folder, path, database, task)
}

fn names(folder: &Path) -> Vec<String> {
    let names = read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

async fn has(path: &Path, task: &Task) -> bool {
    let database = open(path).unwrap();
    let found = database.store().get(&task.key(), NOW).await.unwrap();
    database.close().await;
    found.is_some()
}

const WHOLE: Backup = Backup { tasks: 1, may_lack_tasks: false };

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_an_open_database_has_all_and_is_opened() {
    let (folder, path, database, task) = used().await;
    let copies = folder.path().join("copies");
    create_dir(&copies).unwrap();
    let to = copies.join("copy.db");
    assert_eq!(back_up(&path, &to).unwrap(), WHOLE);
    assert_eq!(names(&copies), ["copy.db"]);
    assert_eq!(to.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!database.is_lost());
    queued(&database.store(), &SeededIds::new(2), owner("alice")).await;
    database.close().await;
    assert!(has(&to, &task).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_what_a_crash_left_changes_nothing_of_it() {
    let (folder, path, _database, task) = used().await;
    let crashed = folder.path().join("crashed.db");
    for ending in ["", "-wal", "-lock"] {
        copy(format!("{}{ending}", path.display()), format!("{}{ending}", crashed.display())).unwrap();
    }
    let to = folder.path().join("copy.db");
    assert_eq!(back_up(&crashed, &to).unwrap(), WHOLE);
    assert!(folder.path().join("crashed.db-wal").exists());
    assert!(has(&to, &task).await && has(&crashed, &task).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_without_its_log_can_be_copied_to_one_that_is_opened() {
    let (folder, path, database, _task) = used().await;
    let lacking = folder.path().join("lacking.db");
    copy(&path, &lacking).unwrap();
    database.close().await;
    let to = folder.path().join("copy.db");
    assert_eq!(back_up(&lacking, &to).unwrap(), Backup { tasks: 0, may_lack_tasks: true });
    open(&to).unwrap();
    assert!(matches!(open(&lacking).err(), Some(OpenError::CopyWithoutLog(_))), "the copied one is as it was");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_overwrites_nothing_and_needs_a_database() {
    let (folder, path, database, _task) = used().await;
    database.close().await;
    let [letter, photos] = ["letter.txt", "photos.db"].map(|name| folder.path().join(name));
    write(&letter, "Dear Sir or Madam").unwrap();
    Connection::open(&photos).unwrap().execute_batch("CREATE TABLE photos (name TEXT)").unwrap();
    let before = names(folder.path());
    assert!(matches!(back_up(&path, &letter), Err(BackupError::Exists(_))));
    assert!(matches!(back_up(&path, &path), Err(BackupError::Exists(_))));
    let nowhere = folder.path().join("nowhere/copy.db");
    assert!(matches!(back_up(&path, &nowhere), Err(BackupError::Name(_))));
    let to = folder.path().join("copy.db");
    assert!(matches!(back_up(&nowhere, &to), Err(BackupError::NoDatabase(_))));
    for foreign in [letter, photos] {
        let refused = back_up(&foreign, &to);
        assert!(matches!(refused, Err(BackupError::Unreadable { cause: OpenError::Foreign, .. })), "{refused:?}");
    }
    assert_eq!(names(folder.path()), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_database_is_no_backup() {
    let (folder, path, database, _task) = used().await;
    database.close().await;
    let mut bytes = std::fs::read(&path).unwrap();
    let length = bytes.len();
    // Not the first page, which says what the file is.
    bytes[length / 2..].fill(0x55);
    let damaged = folder.path().join("damaged.db");
    write(&damaged, bytes).unwrap();
    let refused = back_up(&damaged, &folder.path().join("copy.db"));
    assert!(refused.is_err(), "{refused:?}");
    assert!(!folder.path().join("copy.db").exists());
}
