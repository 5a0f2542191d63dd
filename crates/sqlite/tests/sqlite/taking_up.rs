//! One process has a file at a time, and takes up what the one before it left.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use longhaul_core::ports::{Created, Delivery, Message, NewTask, TaskStore, UnfinishedTasks, WorkQueue};
use longhaul_core::{Cleanup, Lease, LeaseToken, State, Suspension, Task, TaskEvent, TaskRecord};
use longhaul_sqlite::{Database, OpenError, Settings};
use longhaul_testkit::given::{self, LEASE_MS, NOW, on_record, owner, queued, running};
use longhaul_testkit::{ManualClock, SeededIds, block_on};
use rusqlite::Connection;

use crate::new_file;

fn settings() -> Settings {
    Settings { busy_ms_max: 50, ..Settings::default() }
}

fn open(path: &Path) -> Result<Database, OpenError> {
    Database::open(path, Arc::new(ManualClock::default()), settings())
}

/// A new database, and ids for it.
fn opened() -> (tempfile::TempDir, PathBuf, Database, SeededIds) {
    let (folder, path) = new_file();
    let database = open(&path).unwrap();
    (folder, path, database, SeededIds::new(1))
}

async fn send(database: &Database, task: &Task, delay_ms: u64) {
    database.queue().send(&Message { task: task.key(), trace: None, attempt: None }, delay_ms).await.unwrap();
}

/// Sends the task's message and receives it, as a worker does that is killed next.
async fn received(database: &Database, task: &Task) {
    send(database, task, 0).await;
    assert_eq!(receive(database).await.len(), 1);
}

async fn receive(database: &Database) -> Vec<Delivery> {
    database.queue().receive(10, LEASE_MS, 0).await.unwrap()
}

/// The database as the next process finds it.
async fn reopened(path: &Path, database: Database) -> Database {
    database.close().await;
    open(path).unwrap()
}

#[test]
fn a_second_opener_is_refused_until_the_first_has_closed() {
    let (_folder, path) = new_file();
    let first = open(&path).unwrap();
    let refused = open(&path).err().unwrap();
    assert!(matches!(&refused, OpenError::InUse(named) if *named == path), "{refused:?}");
    let text = refused.to_string();
    assert!(text.contains(path.to_str().unwrap()) && text.contains("choose another file"), "{text}");
    block_on(first.close());
    let second = open(&path).unwrap();
    assert!(open(&path).is_err());
    // Nobody closed it, but nobody has it any more, once its threads have ended.
    drop(second);
    // Each try waits for the lock, for a minute in all.
    assert!((0..1_200).any(|_| open(&path).is_ok()), "the file is still in use");
}

#[test]
fn another_name_of_the_same_file_is_the_same_database() {
    let directory = tempfile::tempdir().unwrap();
    let (path, link) = (directory.path().join("longhaul.db"), directory.path().join("link.db"));
    symlink(&path, &link).unwrap();
    let _first = open(&path).unwrap();
    assert!(matches!(open(&link), Err(OpenError::InUse(_))));
    assert!(matches!(open(&directory.path().join(".").join("longhaul.db")), Err(OpenError::InUse(_))));
}

#[test]
fn the_lock_is_readable_by_nobody_else_and_its_failure_is_a_clear_error() {
    let (directory, path) = new_file();
    block_on(open(&path).unwrap().close());
    let lock = directory.path().join("longhaul.db-lock");
    assert_eq!(std::fs::metadata(&lock).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    let refused = open(&path).err().unwrap();
    assert!(matches!(&refused, OpenError::NotLockable { .. }), "{refused:?}");
    assert!(refused.to_string().contains("longhaul.db-lock"), "{refused}");
}

#[test]
fn two_databases_in_memory_are_independent() {
    let open = || Database::in_memory(Arc::new(ManualClock::default()), settings()).unwrap();
    let (_first, _second) = (open(), open());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_process_died_can_be_claimed_at_once_and_its_failure_counts() {
    let (_folder, path, database, ids) = opened();
    let task = running(&database.store(), &ids, owner("alice")).await;
    received(&database, &task).await;
    let database = reopened(&path, database).await;
    assert_eq!(database.take_up(NOW).await.unwrap(), 1);
    let [delivery] = receive(&database).await.try_into().unwrap();
    // As if it were a new message: the failures are counted in the record.
    assert_eq!((delivery.message.task, delivery.receives), (task.key(), 1));
    let claimed = database.store().apply(&task.key(), &given::claim(2, NOW), NOW).await.unwrap();
    assert_eq!((claimed.attempt, claimed.failures), (2, 1));
    // The former attempt is fenced off, as after any other claim.
    assert!(database.store().apply(&task.key(), &given::finish(1, "{}"), NOW).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_process_dies_each_time_runs_out_of_retries() {
    let (_folder, path, mut database, ids) = opened();
    let task = queued(&database.store(), &ids, owner("alice")).await;
    send(&database, &task, 0).await;
    for attempt in 1..=task.terms.consecutive_failures_max {
        assert_eq!(receive(&database).await.len(), 1);
        let token = u8::try_from(attempt).unwrap();
        database.store().apply(&task.key(), &given::claim(token, NOW), NOW).await.unwrap();
        database = reopened(&path, database).await;
        assert_eq!(database.take_up(NOW).await.unwrap(), 1);
    }
    assert_eq!(receive(&database).await.len(), 1);
    assert!(database.store().apply(&task.key(), &given::claim(9, NOW), NOW).await.is_err());
    let failed = database.store().apply(&task.key(), &TaskEvent::RetriesExhausted, NOW).await.unwrap();
    assert!(matches!(failed.state, State::Failed { .. }), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_was_received_but_not_claimed_comes_at_once() {
    let (_folder, path, database, ids) = opened();
    let task = queued(&database.store(), &ids, owner("alice")).await;
    received(&database, &task).await;
    let database = reopened(&path, database).await;
    assert_eq!(database.take_up(NOW).await.unwrap(), 0);
    let [delivery] = receive(&database).await.try_into().unwrap();
    assert_eq!(delivery.receives, 2, "a message that kills its receiver before the claim must wear out");
    assert_eq!(on_record(&database.store(), &task.key()).await, Some(task));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_process_died_while_it_cleaned_up_is_cleaned_up_after_at_once() {
    let (_folder, path, database, ids) = opened();
    let armed = given::task_with(&ids, owner("alice"), NOW, |record| record.cleanup = Cleanup::ARMED);
    let store = database.store();
    store.create(given::new(armed.clone()), NOW).await.unwrap();
    let task = store.apply(&armed.key(), &TaskEvent::Cancel, NOW).await.unwrap();
    received(&database, &task).await;
    let lease = Lease { until: NOW.plus_ms(LEASE_MS), token: LeaseToken::from_random([1; 16]) };
    let begin = TaskEvent::BeginCleanup { lease };
    store.apply(&task.key(), &begin, NOW).await.unwrap();
    let database = reopened(&path, database).await;
    assert_eq!(database.take_up(NOW).await.unwrap(), 1);
    assert_eq!(receive(&database).await.len(), 1);
    let begun = database.store().apply(&task.key(), &begin, NOW).await.unwrap();
    assert_eq!(begun.cleanup, Cleanup::Armed { tries: 2, lease: Some(lease) });
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sleeps_or_has_ended_or_waits_for_an_answer_is_left_alone() {
    let (_folder, path, database, _) = opened();
    let (store, ids) = (database.store(), SeededIds::new(1));
    let until = NOW.plus_ms(LEASE_MS / 2);
    let events = [
        given::suspend(1, Suspension::Timer(until)),
        given::asks(1, &["a"], None),
        given::asks(1, &["a"], Some(until)),
        given::finish(1, "{}"),
    ];
    let mut tasks = Vec::new();
    for event in &events {
        let task = running(&store, &ids, owner("alice")).await;
        // The process died between the write and the deletion of the message.
        received(&database, &task).await;
        tasks.push(store.apply(&task.key(), event, NOW).await.unwrap());
    }
    let database = reopened(&path, database).await;
    assert_eq!(database.take_up(NOW).await.unwrap(), 0);
    assert_eq!(receive(&database).await, []);
    for task in &tasks {
        assert_eq!(on_record(&database.store(), &task.key()).await.as_ref(), Some(task));
    }
    // The timers are not late because somebody had received their messages.
    let clock = Arc::new(ManualClock::default());
    clock.advance_ms(LEASE_MS / 2);
    database.close().await;
    let database = Database::open(&path, clock, settings()).unwrap();
    let mut came: Vec<_> = receive(&database).await.into_iter().map(|delivery| delivery.message.task).collect();
    came.sort();
    assert_eq!(came, [tasks[0].key(), tasks[2].key()]);
}

/// A new task, whose message comes with its record.
async fn accepted(database: &Database, ids: &SeededIds, change: impl FnOnce(&mut TaskRecord)) -> Task {
    let task = given::task_with(ids, owner("alice"), NOW, change);
    let new = NewTask { send_in_ms: Some(0), open_max: u32::MAX, ..given::new(task.clone()) };
    assert_eq!(database.store_with_queue().create(new, NOW).await.unwrap(), Created::NewAndSent(task.clone()));
    task
}

/// The messages in the file's table, counted over a separate connection.
fn messages_in_table(path: &Path) -> u32 {
    let connection = Connection::open(path).unwrap();
    connection.query_row("SELECT count(*) FROM messages", [], |row| row.get(0)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_task_whose_process_died_comes_again_however_far_it_was() {
    let (_folder, path, database, ids) = opened();
    let claimed = accepted(&database, &ids, |_| {}).await;
    let received = accepted(&database, &ids, |_| {}).await;
    assert_eq!(receive(&database).await.len(), 2);
    database.store().apply(&claimed.key(), &given::claim(1, NOW), NOW).await.unwrap();
    let queued = accepted(&database, &ids, |_| {}).await;
    assert_eq!(messages_in_table(&path), 0);
    let database = reopened(&path, database).await;
    assert_eq!(receive(&database).await, []);
    assert_eq!(database.take_up(NOW).await.unwrap(), 1);
    let deliveries = receive(&database).await;
    assert!(deliveries.iter().all(|delivery| delivery.receives == 1));
    let mut came: Vec<_> = deliveries.into_iter().map(|delivery| delivery.message.task).collect();
    came.sort();
    let mut all = [claimed.key(), received.key(), queued.key()];
    all.sort();
    assert_eq!(came, all);
    let again = database.store().apply(&claimed.key(), &given::claim(2, NOW), NOW).await.unwrap();
    assert_eq!((again.attempt, again.failures), (2, 1));
    // Each has one message, whatever is taken up again.
    assert_eq!(database.take_up(NOW).await.unwrap(), 0);
    assert_eq!(receive(&database).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_whose_process_died_before_it_sent_its_message_comes_when_it_is_due() {
    let (_folder, path, database, ids) = opened();
    let until = NOW.plus_ms(LEASE_MS);
    let events = [given::suspend(1, Suspension::Timer(until)), given::asks(1, &["a"], None), given::finish(1, "{}")];
    let mut tasks = Vec::new();
    for event in &events {
        let task = accepted(&database, &ids, |_| {}).await;
        assert_eq!(receive(&database).await.len(), 1);
        database.store().apply(&task.key(), &given::claim(1, NOW), NOW).await.unwrap();
        tasks.push(database.store().apply(&task.key(), event, NOW).await.unwrap());
    }
    database.close().await;
    let clock = Arc::new(ManualClock::default());
    let database = Database::open(&path, Arc::clone(&clock) as _, settings()).unwrap();
    assert_eq!(database.take_up(NOW).await.unwrap(), 0);
    assert_eq!(receive(&database).await, []);
    clock.advance_ms(LEASE_MS);
    let [timer] = receive(&database).await.try_into().unwrap();
    assert_eq!(timer.message.task, tasks[0].key());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_needs_cleanup_has_a_message_on_disk() {
    let (_folder, path, database, ids) = opened();
    let task = accepted(&database, &ids, |record| record.cleanup = Cleanup::ARMED).await;
    assert_eq!(messages_in_table(&path), 1);
    database.store().apply(&task.key(), &TaskEvent::Cancel, NOW).await.unwrap();
    let database = reopened(&path, database).await;
    database.take_up(NOW).await.unwrap();
    let [message] = receive(&database).await.try_into().unwrap();
    assert_eq!(message.message.task, task.key());
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_have_no_room_in_memory_are_on_disk_and_all_of_them_come() {
    let (_folder, path, database, ids) = opened();
    let count: usize = 16_384 + 100;
    for _ in 0..count / 103 {
        let together = (0..103).map(|_| accepted(&database, &ids, |_| {}));
        futures::future::join_all(together).await;
    }
    let sent = count / 103 * 103;
    assert_eq!(messages_in_table(&path) as usize, sent - 16_384);
    let mut came = std::collections::BTreeSet::new();
    loop {
        let deliveries = database.queue().receive(1_000, LEASE_MS, 0).await.unwrap();
        if deliveries.is_empty() {
            break;
        }
        came.extend(deliveries.into_iter().map(|delivery| delivery.message.task));
    }
    assert_eq!(came.len(), sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_in_memory_is_not_one_that_was_lost() {
    let database = Database::in_memory(Arc::new(ManualClock::default()), settings()).unwrap();
    let task = accepted(&database, &SeededIds::new(1), |_| {}).await;
    let unfinished = async || database.store().unfinished(None, 10, NOW).await.unwrap();
    assert_eq!(unfinished().await, []);
    let [delivery] = receive(&database).await.try_into().unwrap();
    assert_eq!(unfinished().await, []);
    database.queue().delete(&delivery.receipt).await.unwrap();
    assert_eq!(unfinished().await, [task]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_without_a_message_is_found_behind_pages_of_tasks_that_have_one() {
    let database = Database::in_memory(Arc::new(ManualClock::default()), settings()).unwrap();
    let ids = SeededIds::new(1);
    let mut tasks = Vec::new();
    for _ in 0..5 {
        tasks.push(queued(&database.store(), &ids, owner("alice")).await);
    }
    tasks.sort_by_key(Task::key);
    let last = tasks.pop().unwrap();
    for task in &tasks {
        send(&database, task, 0).await;
    }
    assert_eq!(database.store().unfinished(None, 2, NOW).await.unwrap(), [last]);
}

/// A hundred thousand tasks that sleep are looked at once.
#[tokio::test(flavor = "multi_thread")]
async fn the_look_after_a_start_that_found_a_message_for_every_task_is_spared() {
    let (_folder, path, database, ids) = opened();
    let task = queued(&database.store(), &ids, owner("alice")).await;
    send(&database, &task, 60_000).await;
    let database = reopened(&path, database).await;
    assert_eq!(database.take_up(NOW).await.unwrap(), 0);
    // Unseen, so that a look would find the task.
    Connection::open(&path).unwrap().execute("DELETE FROM messages", []).unwrap();
    assert_eq!(database.store().unfinished(None, 10, NOW).await.unwrap(), []);
    // Something happens, and so the next look is one.
    let other = queued(&database.store(), &SeededIds::new(2), owner("bob")).await;
    send(&database, &other, 60_000).await;
    assert_eq!(database.store().unfinished(None, 10, NOW).await.unwrap(), [task]);
}
