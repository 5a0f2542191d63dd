//! An owner whose tasks are erased leaves nothing in the file.

use std::path::Path;
use std::sync::Arc;

use longhaul_core::ports::TaskStore;
use longhaul_core::{OwnerId, Task};
use longhaul_sqlite::{Database, EraseError, OpenError, Settings, erase};
use longhaul_testkit::given::{NOW, owner, queued};
use longhaul_testkit::{ManualClock, SeededIds};

use crate::new_file;

fn open(path: &Path) -> Database {
    Database::open(path, Arc::new(ManualClock::default()), Settings::default()).unwrap()
}

/// A file with tasks of alice and one of bob, which is closed.
async fn of_two_owners(path: &Path) -> [Task; 2] {
    let database = open(path);
    let alice = queued(&database.store(), &SeededIds::new(1), owner("alice")).await;
    for seed in 3..40 {
        queued(&database.store_with_queue(), &SeededIds::new(seed), owner("alice")).await;
    }
    let bob = queued(&database.store(), &SeededIds::new(2), owner("bob")).await;
    database.close().await;
    [alice, bob]
}

fn names(path: &Path, owner: OwnerId) -> bool {
    let folder = path.parent().unwrap().read_dir().unwrap();
    folder.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).any(|bytes| {
        let text = owner.to_string();
        bytes.windows(32).any(|window| window == owner.as_bytes())
            || bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

#[tokio::test]
async fn an_erased_owner_leaves_no_byte_behind_and_others_stay() {
    let (_folder, path) = new_file();
    let [alice, bob] = of_two_owners(&path).await;
    assert!(names(&path, owner("alice")));
    assert_eq!(erase(&path, owner("alice")).await.unwrap(), 38);
    assert!(!names(&path, owner("alice")) && names(&path, owner("bob")));
    assert_eq!(erase(&path, owner("alice")).await.unwrap(), 0);

    let database = open(&path);
    assert!(database.store().get(&alice.key(), NOW).await.unwrap().is_none());
    assert!(database.store().get(&bob.key(), NOW).await.unwrap().is_some());
    database.close().await;
}

#[tokio::test]
async fn nothing_is_erased_from_a_file_that_a_server_has_open_and_none_is_made() {
    let (folder, path) = new_file();
    assert!(matches!(erase(&path, owner("alice")).await, Err(EraseError::NoDatabase(_))));
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    of_two_owners(&path).await;
    let database = open(&path);
    let refused = erase(&path, owner("alice")).await;
    assert!(matches!(refused, Err(EraseError::NotOpened { cause: OpenError::InUse(_), .. })), "{refused:?}");
    database.close().await;
    assert_eq!(erase(&path, owner("alice")).await.unwrap(), 38);
}
