//! Rows that cannot be read: the contract for them, and what only this store has.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ports::{Message, Outbox, StoreError, TaskStore, UnfinishedTasks, WorkQueue};
use longhaul_core::{Clock, EntryKind, IdSource, TaskKey};
use longhaul_sqlite::{Database, Notifications, Purged, Settings, SqliteOutbox, SqliteQueue, SqliteStore};
use longhaul_testkit::given::{self, NOW, owner};
use longhaul_testkit::{Damage, DamageHarness, ManualClock, SeededIds, StoreHarness, capture};
use rusqlite::{Connection, params};
use tempfile::TempDir;

/// A database, and its file, which is open a second time to damage what is in it.
struct Damaged {
    database: Database,
    store: SqliteStore,
    queue: SqliteQueue,
    outbox: SqliteOutbox,
    path: PathBuf,
    _directory: TempDir,
}

fn fresh() -> Damaged {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("longhaul.db");
    let settings = Settings { notifications: Notifications::Left, ..Settings::default() };
    let clock = Arc::new(ManualClock::at(NOW)) as Arc<dyn Clock>;
    let database = Database::open(&path, clock, settings).unwrap();
    let (store, queue, outbox) = (database.store(), database.queue(), database.outbox());
    Damaged { database, store, queue, outbox, path, _directory: directory }
}

async fn damaged() -> Damaged {
    fresh()
}

impl Damaged {
    fn hand(&self) -> Connection {
        Connection::open(&self.path).unwrap()
    }

    fn set(&self, key: &TaskKey, record: &str) {
        let sql = format!("UPDATE tasks SET record = {record} WHERE owner = ?1 AND id = ?2");
        let changed = self.hand().execute(&sql, params![key.owner.as_bytes(), key.id.as_bytes()]).unwrap();
        assert_eq!(changed, 1);
    }
}

impl StoreHarness for Damaged {
    fn store(&self) -> &dyn TaskStore {
        &self.store
    }
}

#[async_trait]
impl DamageHarness for Damaged {
    async fn damage(&self, key: &TaskKey, damage: Damage) {
        self.set(
            key,
            match damage {
                Damage::CutShort => "substr(record, 1, 40)",
                Damage::UnknownState => "json_set(record, '$.state', 'paused')",
                Damage::WrongType => "json_set(record, '$.attempt', 'many')",
                Damage::NotText => "CAST(x'7bff' AS TEXT)",
                Damage::NewerVersion => r#"'{"format":2,' || substr(record, 2)"#,
            },
        );
    }

    async fn damage_entry(&self, key: &TaskKey, kind: EntryKind, name: &str) {
        let sql = "UPDATE journal SET value = '{' WHERE owner = ?1 AND id = ?2 AND kind = ?3 AND name = ?4";
        let values = params![key.owner.as_bytes(), key.id.as_bytes(), kind.as_str(), name];
        assert_eq!(self.hand().execute(sql, values).unwrap(), 1);
    }

    async fn stored(&self, key: &TaskKey) -> String {
        let sql = "SELECT record || status || counted || expires_at FROM tasks WHERE owner = ?1 AND id = ?2";
        let values = params![key.owner.as_bytes(), key.id.as_bytes()];
        self.hand().query_row(sql, values, |row| row.get(0)).unwrap()
    }

    fn unfinished(&self) -> Option<&dyn UnfinishedTasks> {
        Some(&self.store)
    }

    fn outbox(&self) -> Option<&dyn Outbox> {
        Some(&self.outbox)
    }

    async fn damage_first_notification(&self) {
        let sql = "UPDATE outbox SET announcement = '{' WHERE seq = (SELECT min(seq) FROM outbox)";
        assert_eq!(self.hand().execute(sql, []).unwrap(), 1);
    }
}

mod unreadable_rows {
    longhaul_testkit::damage_contract!(super::damaged);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_task_is_named_in_the_log_once_and_counted_until_it_expires() {
    let (harness, log) = (fresh(), tempfile::NamedTempFile::new().unwrap());
    let lines = Arc::new(log.reopen().unwrap());
    let _logging = capture(tracing_subscriber::fmt().with_writer(lines).finish());
    let task = given::queued(&harness.store, &SeededIds::new(1), owner("alice")).await;
    harness.damage(&task.key(), Damage::CutShort).await;
    for _ in 0..3 {
        harness.store.get(&task.key(), NOW).await.unwrap();
        harness.store.list(&owner("alice"), None, 9, NOW).await.unwrap();
    }
    let said = std::fs::read_to_string(log.path()).unwrap();
    let lines = said.lines().filter(|line| line.contains(&task.id.to_string())).count();
    assert_eq!((lines, harness.database.unreadable_tasks()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_task_does_not_keep_a_server_from_starting() {
    let harness = fresh();
    let tasks = [1, 2, 3].map(SeededIds::new);
    let mut keys = Vec::new();
    for ids in &tasks {
        let task = given::running(&harness.store, ids, owner("alice")).await;
        harness.queue.send(&Message::about(&task), 0).await.unwrap();
        keys.push(task.key());
    }
    assert_eq!(harness.queue.receive(9, 60_000, 0).await.unwrap().len(), 3);
    harness.damage(&keys[0], Damage::UnknownState).await;
    harness.damage(&keys[1], Damage::NewerVersion).await;
    assert_eq!(harness.database.take_up(NOW).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_without_a_readable_key_keep_nothing_waiting() {
    let harness = fresh();
    let ids = SeededIds::new(1);
    let task = given::queued(&harness.store, &ids, owner("alice")).await;
    harness.queue.send(&Message::about(&task), 0).await.unwrap();
    harness
        .hand()
        .execute_batch(
            "INSERT INTO tasks (owner, id, counted, expires_at, record, status, tool) \
                 SELECT owner, x'00', 0, expires_at - 1, record, status, tool FROM tasks; \
             INSERT INTO messages (visible_at, owner, id) SELECT 0, owner, x'00' FROM messages; \
             INSERT INTO messages (visible_at, owner, id) SELECT 0, x'00', id FROM messages LIMIT 1; \
             INSERT INTO messages (visible_at, owner, id, dead) SELECT 0, x'00', id, 1 FROM messages LIMIT 1;",
        )
        .unwrap();
    let listed = harness.store.list(&owner("alice"), None, 1, NOW).await.unwrap().tasks;
    assert_eq!(listed.iter().map(|listed| listed.id).collect::<Vec<_>>(), [task.id]);
    assert_eq!(harness.queue.receive_dead(9, 0).await.unwrap(), []);
    let received = harness.queue.receive(9, 60_000, 0).await.unwrap();
    assert_eq!(received.iter().map(|delivery| delivery.message.task).collect::<Vec<_>>(), [task.key()]);
    harness.queue.delete(&received[0].receipt).await.unwrap();
    let other = given::queued(&harness.store, &ids, owner("alice")).await;
    let mut unfinished: Vec<TaskKey> = Vec::new();
    for max in [1, 9] {
        unfinished.extend(harness.store.unfinished(None, max, NOW).await.unwrap().iter().map(|task| task.key()));
    }
    assert!(unfinished.contains(&task.key()) && unfinished.contains(&other.key()));
    assert_eq!(harness.database.purge(task.expires_at, 1).await.unwrap(), Purged::UpToLimit);
    for _ in 0..2 {
        harness.database.purge(task.expires_at, 1).await.unwrap();
    }
    let left: u32 = harness.hand().query_row("SELECT count(*) FROM tasks", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_and_texts_that_cannot_be_read_are_no_passing_fault() {
    let harness = fresh();
    let ids = SeededIds::new(1);
    let key = given::queued(&harness.store, &ids, owner("alice")).await.key();
    let name = longhaul_core::PartsName::Request;
    harness.store.put_parts(&key, &name, &["a", "b"]).await.unwrap();
    let mailbox = longhaul_core::MailboxId::of(&[b"a"]);
    harness.store.leave(&key.owner, &mailbox, "text", NOW.plus_ms(9), NOW).await.unwrap();
    harness
        .hand()
        .execute_batch("UPDATE parts SET part = CAST(x'ff' AS TEXT); UPDATE mailboxes SET text = CAST(x'ff' AS TEXT);")
        .unwrap();
    let parts = harness.store.parts(&key, &name, 2).await;
    assert!(matches!(parts, Err(StoreError::Corrupt(_))), "{parts:?}");
    let text = harness.store.collect(&key.owner, &mailbox, NOW).await;
    assert!(matches!(text, Err(StoreError::Corrupt(_))), "{text:?}");
    assert_ne!(ids.task_id(NOW), key.id);
}
