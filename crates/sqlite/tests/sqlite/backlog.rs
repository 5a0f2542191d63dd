//! Messages that wait are counted, with the age of the oldest, wherever they are.

use std::sync::Arc;

use longhaul_core::ports::{Message, NewTask, TaskStore, WorkQueue};
use longhaul_sqlite::{Backlog, Database, Settings};
use longhaul_testkit::given::{self, LEASE_MS, NOW, owner};
use longhaul_testkit::{ManualClock, SeededIds, block_on};

use crate::new_file;

/// Sends a message with a delay, which the table has.
async fn send(database: &Database, ids: &SeededIds, delay_ms: u64) {
    let task = given::task(ids, owner("alice"), NOW).key();
    database.queue().send(&Message { task, trace: None, attempt: None }, delay_ms).await.unwrap();
}

/// Creates a task, whose message is in memory.
async fn create(database: &Database, ids: &SeededIds) {
    let task = given::task(ids, owner("bob"), NOW);
    database.store_with_queue().create(NewTask { send_in_ms: Some(0), ..given::new(task) }, NOW).await.unwrap();
}

async fn waiting(database: &Database) -> (usize, u64) {
    let Backlog { messages, oldest_age_ms } = database.backlog().await.unwrap();
    (messages, oldest_age_ms)
}

#[test]
fn messages_in_the_file_and_in_memory_wait_until_they_are_delivered() {
    block_on(async {
        let (_folder, path) = new_file();
        let (clock, ids) = (Arc::new(ManualClock::at(NOW)), SeededIds::new(1));
        let database = Database::open(&path, Arc::clone(&clock) as _, Settings::default()).unwrap();
        assert_eq!(waiting(&database).await, (0, 0));
        send(&database, &ids, 0).await;
        clock.advance_ms(2_000);
        create(&database, &ids).await;
        send(&database, &ids, 10_000).await;
        clock.advance_ms(1_000);
        assert_eq!(waiting(&database).await, (2, 3_000), "a message with a delay waits for its time, not for a worker");
        let delivered = database.queue().receive(10, LEASE_MS, 0).await.unwrap();
        assert_eq!(delivered.len(), 2);
        // A write that is committed after the receive and its answer.
        send(&database, &ids, 60_000).await;
        assert_eq!(waiting(&database).await, (0, 0));
        database.queue().extend(&delivered[0].receipt, 0).await.unwrap();
        database.queue().extend(&delivered[1].receipt, 0).await.unwrap();
        send(&database, &ids, 60_000).await;
        clock.advance_ms(500);
        assert_eq!(waiting(&database).await, (2, 500), "the age counts from when a message became visible again");
        database.close().await;
        assert!(database.backlog().await.is_err());
    });
}

#[test]
fn a_database_in_memory_counts_what_waits() {
    block_on(async {
        let (clock, ids) = (Arc::new(ManualClock::at(NOW)), SeededIds::new(1));
        let database = Database::in_memory(Arc::clone(&clock) as _, Settings::default()).unwrap();
        create(&database, &ids).await;
        clock.advance_ms(7);
        send(&database, &ids, 0).await;
        assert_eq!(waiting(&database).await, (2, 7));
    });
}
