//! What a life costs on SQLite: how often it waits for the disk, and how much it hands to it. Counted, not timed: each
//! transaction that is committed ends a piece of the log beside the database, and is one wait for the disk.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ports::WorkQueue as _;
use longhaul_core::{Cleanup, Clock, RequestedTerms, ResultKind, Terms};
use longhaul_engine::{
    Attempt, AttemptEnd, Call, Disposition, Driven, Engine, Ports, Settings, ToolRunner, WorkerSignals,
};
use longhaul_sqlite::{Database, SqliteQueue};
use longhaul_testkit::given::{self, NOW, owner};
use longhaul_testkit::{ManualClock, SeededIds, block_on};

/// Lives, one after the other. Whoever counts takes the cheapest: where the machine is slow, what nobody waits for may
/// be committed alone.
const LIVES: usize = 20;

/// The log's header, and that of each page in it.
const LOG_HEADER: usize = 32;
const PAGE_HEADER: usize = 24;

/// A tool of so many steps.
struct Steps(usize);

#[async_trait]
impl ToolRunner for Steps {
    async fn run(&self, attempt: Attempt) -> AttemptEnd {
        let tool = async {
            for number in 0..self.0 {
                let name = format!("step {number}");
                attempt.step::<(), _, _>(&name, || async { Ok("1".to_owned()) }).await.expect("the step does not fail");
            }
        };
        match attempt.drive(tool).await {
            Driven::Ended(()) => AttemptEnd::Completed { result: "{}".to_owned(), kind: ResultKind::Success },
            Driven::Suspended(suspended) => AttemptEnd::Suspended(suspended),
        }
    }
}

/// What was written to the log so far.
#[derive(Clone, Copy)]
struct Written {
    transactions: usize,
    bytes: usize,
}

/// Reads the log of the database at `path`, from which nothing has been moved into the database yet.
fn written(path: &Path) -> Written {
    let log = std::fs::read(path.with_extension("db-wal")).unwrap();
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    let (page_bytes, salt) = (number(&log[8..12]) as usize, &log[16..24]);
    let pages = log[LOG_HEADER..].chunks_exact(PAGE_HEADER + page_bytes).filter(|page| page[8..16] == *salt);
    let ends = pages.clone().filter(|page| number(&page[4..8]) != 0);
    Written { transactions: ends.count(), bytes: pages.count() * (PAGE_HEADER + page_bytes) }
}

fn call() -> Call {
    Call {
        owner: owner("alice"),
        tool: "steps".to_owned(),
        request: r#"{"n":1}"#.to_owned(),
        terms: Terms::negotiate(&given::policy(), RequestedTerms::default()),
        idempotency: None,
        trace: None,
        cleanup: Cleanup::None,
        not_before: None,
        flow: None,
        labels: longhaul_core::Labels::default(),
    }
}

/// A call, its run, and its recorded result. Nobody waits for the deletion of its message.
async fn life(engine: &Engine, queue: &SqliteQueue, tool: &Steps) {
    engine.accept(call()).await.unwrap();
    let delivery = queue.receive(1, 30_000, 0).await.unwrap().pop().expect("the message comes with the record");
    let disposition = engine.run_delivery(&delivery, tool, &WorkerSignals::default()).await;
    assert_eq!(disposition, Disposition::Acknowledge);
    queue.delete(&delivery.receipt).await.unwrap();
}

/// The fewest transactions, and the fewest bytes, of a life of so many steps.
fn cheapest_life(steps: usize) -> Written {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("longhaul.db");
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(NOW));
    let database = Database::open(&path, Arc::clone(&clock), longhaul_sqlite::Settings::default()).unwrap();
    let (store, queue) = (Arc::new(database.store_with_queue()), database.queue());
    let ports = Ports { store, queue: Arc::new(queue.clone()), clock, ids: Arc::new(SeededIds::new(1)) };
    let engine = Engine::new(ports, Settings::default());
    block_on(async {
        life(&engine, &queue, &Steps(steps)).await;
        let mut cheapest = Written { transactions: usize::MAX, bytes: usize::MAX };
        for _ in 0..LIVES {
            let before = written(&path);
            life(&engine, &queue, &Steps(steps)).await;
            let after = written(&path);
            cheapest.transactions = cheapest.transactions.min(after.transactions - before.transactions);
            cheapest.bytes = cheapest.bytes.min(after.bytes - before.bytes);
        }
        assert_eq!(queue.receive(1, 0, 0).await.unwrap(), [], "a message was left");
        database.close().await;
        cheapest
    })
}

/// The record, which stands for its message, the claim, each step, and the end.
#[test]
fn a_life_waits_for_the_disk_three_times_and_once_for_each_step() {
    for steps in [0, 1, 10] {
        assert_eq!(cheapest_life(steps).transactions, 3 + steps, "{steps} steps");
    }
}

#[test]
fn a_lone_life_hands_few_pages_to_the_disk() {
    for (steps, kib_max) in [(0, 15), (1, 17), (10, 35)] {
        let bytes = cheapest_life(steps).bytes;
        assert!(bytes <= kib_max * 1_024, "{steps} steps: {} KiB", bytes / 1_024);
    }
}
