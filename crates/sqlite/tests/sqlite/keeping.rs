//! What the file keeps: across restarts, and until it is purged.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use longhaul_core::ports::{
    ApplyError, CreateError, Created, Left, Message, NewTask, Recorded, StoreError, TaskStore, WorkQueue,
};
use longhaul_core::{Clock as _, Entry, EntryKind, MailboxId, PartsName, TaskEvent, TaskKey};
use longhaul_sqlite::{Database, Purged, Settings};
use longhaul_testkit::given::{self, NOW, owner, queued};
use longhaul_testkit::{ManualClock, SeededIds};
use rusqlite::Connection;

use crate::new_file;

const TABLES: [&str; 6] = ["tasks", "keys", "journal", "parts", "orphans", "messages"];

fn open(path: &Path) -> (Database, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    (Database::open(path, Arc::clone(&clock) as _, Settings::default()).unwrap(), clock)
}

fn opened() -> (tempfile::TempDir, PathBuf, Database) {
    let (folder, path) = new_file();
    let (database, _) = open(&path);
    (folder, path, database)
}

/// How many rows the tables have, counted over a separate connection.
fn rows(path: &Path) -> Vec<u32> {
    let connection = Connection::open(path).unwrap();
    let count = |table| connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
    TABLES.into_iter().map(count).collect()
}

fn entry(name: &str) -> Entry {
    Entry { kind: EntryKind::Step, name: name.to_owned(), value: given::inline("1"), recording: None }
}

async fn write_attachments(database: &Database, key: &TaskKey) {
    database.store().record(key, &entry("a")).await.unwrap();
    database.store().put_parts(key, &PartsName::Request, &["a", "b"]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_and_messages_survive_a_restart() {
    let (_folder, path, database) = opened();
    let task = given::running(&database.store(), &SeededIds::new(1), owner("alice")).await;
    write_attachments(&database, &task.key()).await;
    let message = Message { task: task.key(), trace: None, attempt: None };
    database.queue().send(&message, 0).await.unwrap();
    let stale = database.queue().receive(1, 0, 0).await.unwrap();
    database.close().await;

    let (database, _) = open(&path);
    assert_eq!(database.store().get(&task.key(), NOW).await.unwrap(), Some(task.clone()));
    assert_eq!(database.store().journal(&task.key()).await.unwrap(), [entry("a")]);
    let parts = database.store().parts(&task.key(), &PartsName::Request, 2).await.unwrap();
    assert_eq!(parts.as_deref(), Some("ab"));
    let deliveries = database.queue().receive(1, 1_000, 0).await.unwrap();
    assert_eq!((&deliveries[0].message, deliveries[0].receives), (&message, 2));
    // Receipts from before the restart are as stale as they would have been without it.
    database.queue().delete(&stale[0].receipt).await.unwrap();
    database.queue().extend(&deliveries[0].receipt, 0).await.unwrap();
    assert_eq!(database.queue().receive(1, 1_000, 0).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_on_a_closed_database_is_unavailable() {
    let (_folder, _path, database) = opened();
    let (store, queue) = (database.store(), database.queue());
    let task = queued(&store, &SeededIds::new(1), owner("alice")).await;
    let in_memory = given::task(&SeededIds::new(2), owner("alice"), NOW);
    let sent = NewTask { send_in_ms: Some(0), ..given::new(in_memory) };
    database.store_with_queue().create(sent, NOW).await.unwrap();
    let [delivery] = queue.receive(1, 1_000, 0).await.unwrap().try_into().unwrap();
    database.close().await;
    let key = task.key();
    assert!(matches!(store.get(&key, NOW).await, Err(StoreError::Unavailable(_))));
    let applied = store.apply(&key, &TaskEvent::Cancel, NOW).await;
    assert!(matches!(applied, Err(ApplyError::Store(StoreError::Unavailable(_)))));
    let created = store.create(given::new(task), NOW).await;
    assert!(matches!(created, Err(CreateError::Store(StoreError::Unavailable(_)))));
    assert!(queue.receive(1, 1_000, 60_000).await.is_err());
    assert!(queue.extend(&delivery.receipt, 1_000).await.is_err());
    assert!(queue.delete(&delivery.receipt).await.is_err());
    assert!(database.purge(NOW, 10).await.is_err());
}

/// The log is removed by whoever closes the file last, and only if it may write.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_database_is_one_file_even_if_it_was_still_read() {
    let (_folder, path, database) = opened();
    let task = queued(&database.store(), &SeededIds::new(1), owner("alice")).await;
    let store = database.store();
    let key = task.key();
    let reads = futures::future::join_all((0..1_000).map(|_| store.get(&key, NOW)));
    let (reads, ()) = tokio::join!(reads, database.close());
    assert!(reads.iter().any(Result::is_ok), "nothing was read");
    assert!(!path.with_extension("db-wal").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receive_that_waits_ends_when_the_database_closes() {
    let (_folder, path) = new_file();
    let (database, clock) = open(&path);
    let queue = database.queue();
    let close = async {
        while clock.sleepers() == 0 {
            tokio::task::yield_now().await;
        }
        database.close().await;
    };
    let (received, ()) = tokio::join!(queue.receive(1, 1_000, 60_000), close);
    assert!(received.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receive_that_waits_wakes_when_the_first_delayed_message_is_due() {
    let (_folder, path) = new_file();
    let (database, clock) = open(&path);
    let queue = database.queue();
    let message =
        Message { task: given::task(&SeededIds::new(1), owner("alice"), NOW).key(), trace: None, attempt: None };
    queue.send(&message, 5_000).await.unwrap();
    queue.send(&message, 2_000).await.unwrap();
    let due = clock.now().plus_ms(2_000);
    let passes = async {
        while clock.sleepers() == 0 {
            tokio::task::yield_now().await;
        }
        let wakes_at = clock.next_wake();
        clock.advance_ms(60_000);
        wakes_at
    };
    let (received, wakes_at) = tokio::join!(queue.receive(1, 1_000, 60_000), passes);
    assert_eq!((received.unwrap().len(), wakes_at), (1, Some(due)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_deletes_expired_tasks_with_their_attachments_and_nothing_else() {
    let (_folder, path, database) = opened();
    let (store, ids) = (database.store(), SeededIds::new(1));
    let mut keys = Vec::new();
    for (number, lives_ms) in [1_000, 1_000, 1_000, 60_000].into_iter().enumerate() {
        let task = given::task_with(&ids, owner("alice"), NOW, |record| record.expires_at = NOW.plus_ms(lives_ms));
        keys.push(task.key());
        let number = u8::try_from(number).unwrap();
        store.create(given::new_with_key(task.clone(), number, 1), NOW).await.unwrap();
        write_attachments(&database, &task.key()).await;
    }
    store.apply(&keys[0], &TaskEvent::Cancel, NOW).await.unwrap();
    assert_eq!(rows(&path), [4, 4, 4, 8, 0, 0]);
    assert_eq!(database.purge(NOW.plus_ms(999), 10).await.unwrap(), Purged::All);
    assert_eq!(rows(&path), [4, 4, 4, 8, 0, 0]);

    // The cancelled one is kept for its retention.
    let later = NOW.plus_ms(1_000);
    assert_eq!(database.purge(later, 1).await.unwrap(), Purged::UpToLimit);
    assert_eq!(rows(&path), [3, 3, 3, 6, 0, 0]);
    assert_eq!(database.purge(later, 10).await.unwrap(), Purged::All);
    assert_eq!(rows(&path), [2, 2, 2, 4, 0, 0]);
    assert!(store.get(&keys[3], later).await.unwrap().is_some());
    assert_eq!(store.journal(&keys[3]).await.unwrap(), [entry("a")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_releases_the_slots_of_tasks_that_never_ended_once() {
    let (_folder, _path, database) = opened();
    let (store, ids, alice) = (database.store(), SeededIds::new(1), owner("alice"));
    let create = |lives_ms: u64| {
        let task = given::task_with(&ids, alice, NOW, |record| record.expires_at = NOW.plus_ms(lives_ms));
        store.create(NewTask { open_max: 3, ..given::new(task) }, NOW)
    };
    for lives_ms in [1_000, 1_000, 60_000] {
        create(lives_ms).await.unwrap();
    }
    // A creation at the limit takes these off the count, then they are purged: the purge must not count them again.
    let late = given::task(&ids, alice, NOW);
    store.create(NewTask { open_max: 3, ..given::new(late) }, NOW.plus_ms(1_000)).await.unwrap();
    database.purge(NOW.plus_ms(1_000), 10).await.unwrap();
    create(60_000).await.unwrap();
    assert!(matches!(create(60_000).await, Err(CreateError::TooManyOpen { open_max: 3 })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_releases_the_stored_bytes_of_requests_and_results() {
    let (_folder, path) = new_file();
    let bytes = || -> i64 {
        let connection = Connection::open(&path).unwrap();
        connection.query_row("SELECT bytes FROM quotas", [], |row| row.get(0)).unwrap()
    };
    let (database, _) = open(&path);
    let (store, ids) = (database.store(), SeededIds::new(1));
    let new = given::new_with_parts(&ids, owner("alice"), &["12345", "67890"]);
    store.create(new.clone(), NOW).await.unwrap();
    assert_eq!(bytes(), 10);
    store.apply(&new.task.key(), &given::claim(1, NOW), NOW).await.unwrap();
    let ended = store.apply(&new.task.key(), &given::finish(1, "{}"), NOW).await.unwrap();
    assert_eq!(bytes(), 12);
    let refused = store.create(NewTask { stored_max: 12, ..given::new(given::task(&ids, owner("alice"), NOW)) }, NOW);
    assert!(matches!(refused.await, Err(CreateError::TooMuchStored { stored_max: 12 })));
    database.purge(ended.expires_at, 10).await.unwrap();
    assert_eq!(bytes(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_lowers_the_stored_count_so_that_no_recount_is_needed() {
    let (_folder, path) = new_file();
    let open_tasks = || -> u32 {
        let connection = Connection::open(&path).unwrap();
        connection.query_row("SELECT open FROM quotas", [], |row| row.get(0)).unwrap()
    };
    let (database, _) = open(&path);
    let ids = SeededIds::new(1);
    let task = queued(&database.store(), &ids, owner("alice")).await;
    let other = queued(&database.store(), &ids, owner("alice")).await;
    assert_eq!(open_tasks(), 2);
    database.store().apply(&task.key(), &TaskEvent::Cancel, NOW).await.unwrap();
    assert_eq!(open_tasks(), 1);
    database.store().apply(&other.key(), &TaskEvent::Cancel, NOW).await.unwrap();
    assert_eq!(open_tasks(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_leaves_a_task_whose_retention_was_extended() {
    let (_folder, path, database) = opened();
    let task = queued(&database.store(), &SeededIds::new(1), owner("alice")).await;
    let extend = TaskEvent::ExtendRetention { retention_ms: task.terms.retention_ms + 90_000_000 };
    let kept = database.store().apply(&task.key(), &extend, NOW).await.unwrap();
    assert!(kept.expires_at > task.expires_at);
    assert_eq!(database.purge(task.expires_at, 10).await.unwrap(), Purged::All);
    assert_eq!(database.store().get(&task.key(), task.expires_at).await.unwrap(), Some(kept.clone()));
    assert_eq!(database.purge(kept.expires_at, 10).await.unwrap(), Purged::All);
    assert_eq!(rows(&path), [0, 0, 0, 0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_leaves_the_key_that_a_newer_task_has() {
    let (_folder, path, database) = opened();
    let (store, ids, later) = (database.store(), SeededIds::new(1), NOW.plus_ms(1_000));
    let expired = given::task_with(&ids, owner("alice"), NOW, |record| record.expires_at = later);
    store.create(given::new_with_key(expired, 1, 1), NOW).await.unwrap();
    let newer = given::task(&ids, owner("alice"), later);
    let created = store.create(given::new_with_key(newer.clone(), 1, 1), later).await.unwrap();
    assert_eq!(created, Created::New(newer.clone()));
    database.purge(later, 10).await.unwrap();
    assert_eq!(rows(&path), [1, 1, 0, 0, 0, 0]);
    let retry = given::task(&ids, owner("alice"), later);
    let retried = store.create(given::new_with_key(retry, 1, 1), later).await.unwrap();
    assert_eq!(retried, Created::Existing(newer));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_with_the_id_of_an_expired_one_leaves_the_journals_of_others() {
    let (_folder, _path, database) = opened();
    let (store, later) = (database.store(), NOW.plus_ms(1_000));
    let expired = given::task_with(&SeededIds::new(1), owner("alice"), NOW, |record| record.expires_at = later);
    store.create(given::new(expired.clone()), NOW).await.unwrap();
    let others =
        [queued(&store, &SeededIds::new(2), owner("alice")).await.key(), TaskKey::new(owner("bob"), expired.id)];
    for key in others.iter().chain([&expired.key()]) {
        store.record(key, &entry("a")).await.unwrap();
    }
    let again = given::task(&SeededIds::new(1), owner("alice"), NOW);
    assert_eq!(store.create(given::new(again.clone()), later).await.unwrap(), Created::New(again));
    for key in &others {
        assert_eq!(store.journal(key).await.unwrap(), [entry("a")]);
    }
    assert_eq!(store.journal(&expired.key()).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn orphans_of_an_owner_with_other_tasks_are_purged_one_by_one() {
    let (_folder, path, database) = opened();
    let ids = SeededIds::new(1);
    let lives_on = given::task_with(&ids, owner("alice"), NOW, |record| record.expires_at = NOW.plus_ms(1_000_000_000));
    database.store().create(given::new(lives_on), NOW).await.unwrap();
    for _ in 0..2 {
        write_attachments(&database, &given::task(&ids, owner("alice"), NOW).key()).await;
    }
    assert_eq!(rows(&path), [1, 0, 2, 4, 2, 0]);
    let later = NOW.plus_ms(86_400_000);
    assert_eq!(database.purge(later, 1).await.unwrap(), Purged::UpToLimit);
    assert_eq!(rows(&path), [1, 0, 1, 2, 1, 0]);
    assert_eq!(database.purge(later, 10).await.unwrap(), Purged::All);
    assert_eq!(rows(&path), [1, 0, 0, 0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn orphans_are_purged_after_a_day() {
    let (_folder, path, database) = opened();
    let ids = SeededIds::new(1);
    let (accepted, lost) = (given::task(&ids, owner("alice"), NOW), given::task(&ids, owner("alice"), NOW));
    write_attachments(&database, &accepted.key()).await;
    write_attachments(&database, &lost.key()).await;
    let lives_on = given::task_with(&SeededIds::new(1), owner("alice"), NOW, |record| {
        record.expires_at = NOW.plus_ms(1_000_000_000);
    });
    database.store().create(given::new(lives_on), NOW).await.unwrap();
    database.purge(NOW.plus_ms(86_399_999), 10).await.unwrap();
    assert_eq!(rows(&path), [1, 0, 2, 4, 1, 0]);
    database.purge(NOW.plus_ms(86_400_000), 10).await.unwrap();
    assert_eq!(rows(&path), [1, 0, 1, 2, 0, 0]);
    assert_eq!(database.store().journal(&accepted.key()).await.unwrap(), [entry("a")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_in_mailboxes_survive_a_restart_and_are_purged_once_they_have_expired() {
    let (_folder, path) = new_file();
    let texts = || -> u32 {
        let connection = Connection::open(&path).unwrap();
        connection.query_row("SELECT count(*) FROM mailboxes", [], |row| row.get(0)).unwrap()
    };
    let (database, _) = open(&path);
    let alice = owner("alice");
    let mailboxes = [b"a", b"b", b"c"].map(|word| MailboxId::of(&[word]));
    for (mailbox, lives_ms) in mailboxes.iter().zip([1_000, 1_000, 60_000]) {
        let left = database.store().leave(&alice, mailbox, "text", NOW.plus_ms(lives_ms), NOW).await.unwrap();
        assert_eq!(left, Left::First);
    }
    database.close().await;

    let (database, _) = open(&path);
    assert_eq!(database.purge(NOW.plus_ms(999), 10).await.unwrap(), Purged::All);
    assert_eq!(texts(), 3);
    let later = NOW.plus_ms(1_000);
    assert_eq!(database.purge(later, 1).await.unwrap(), Purged::UpToLimit);
    assert_eq!(texts(), 2);
    assert_eq!(database.purge(later, 10).await.unwrap(), Purged::All);
    assert_eq!(texts(), 1);
    let kept = database.store().collect(&alice, &mailboxes[2], later).await.unwrap();
    assert_eq!(kept.as_deref(), Some("text"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_created_again_after_its_expiry_does_not_find_its_old_journal() {
    let (_folder, _path, database) = opened();
    let store = database.store();
    let task = given::task_with(&SeededIds::new(1), owner("alice"), NOW, |record| {
        record.expires_at = NOW.plus_ms(1_000);
    });
    store.create(given::new(task.clone()), NOW).await.unwrap();
    write_attachments(&database, &task.key()).await;
    let again = given::task(&SeededIds::new(1), owner("alice"), NOW);
    let created = store.create(given::new(again.clone()), NOW.plus_ms(1_000)).await.unwrap();
    assert_eq!(created, Created::New(again));
    assert_eq!(store.record(&task.key(), &entry("a")).await.unwrap(), Recorded::First);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_cannot_be_deleted_with_the_last_receipt_from_before() {
    let (_folder, path) = new_file();
    let clock = Arc::new(ManualClock::default());
    let settings = Settings { receives_max: 1, ..Settings::default() };
    let database = Database::open(&path, Arc::clone(&clock) as _, settings).unwrap();
    let (queue, ids) = (database.queue(), SeededIds::new(1));
    let message = Message { task: given::task(&ids, owner("alice"), NOW).key(), trace: None, attempt: None };
    queue.send(&message, 0).await.unwrap();
    let delivered = queue.receive(1, 1_000, 0).await.unwrap();
    clock.advance_ms(1_000);
    assert_eq!(queue.receive(1, 1_000, 0).await.unwrap(), []);
    queue.delete(&delivered[0].receipt).await.unwrap();
    let dead = queue.receive_dead(1, 1_000).await.unwrap();
    assert_eq!((&dead[0].message, dead[0].receives), (&message, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_does_not_make_room_for_new_tasks() {
    let (_folder, path) = new_file();
    let ids = SeededIds::new(1);
    let create = async |database: &Database, now| {
        let new = NewTask { new_max: Some(2), ..given::new(given::task(&ids, owner("alice"), now)) };
        database.store().create(new, now).await
    };
    for _ in 0..2 {
        let (database, _) = open(&path);
        create(&database, NOW).await.unwrap();
        database.close().await;
    }
    let (database, _) = open(&path);
    let refused = create(&database, NOW.plus_ms(1)).await;
    assert!(matches!(refused, Err(CreateError::TooManyNew { new_max: 2, retry_ms: 59_999 })), "{refused:?}");
    create(&database, NOW.plus_ms(60_000)).await.unwrap();
}
