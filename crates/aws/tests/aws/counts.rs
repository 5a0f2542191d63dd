//! What operations cost: the calls that the SDK sends, and the read units of a small task.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use futures::StreamExt;
use harness::emulator;
use longhaul_aws::clients::Clients;
use longhaul_aws::{DynamoStore, QuotaMode};
use longhaul_core::ports::{ApplyError, Created, NewTask, TaskStore};
use longhaul_core::{Entry, EntryKind, Status, Task, TaskEvent, TaskFilter, TaskKey, WEBHOOK_DELIVERY_TOOL};
use longhaul_testkit::given::{self, LEASE_MS, NOW, owner};
use longhaul_testkit::{SeededIds, at_once, block_on};

use super::counts_of_sizes::value_size;
use crate::fresh;
use crate::meter::{Call, Meter};

/// A store whose calls are counted.
pub(super) struct Counted {
    pub(super) store: DynamoStore,
    pub(super) meter: Meter,
    pub(super) table: String,
    pub(super) ids: SeededIds,
}

impl Counted {
    pub(super) async fn new(quota: QuotaMode) -> Self {
        let (clients, table) = fresh().await;
        let meter = Meter::default();
        let store = DynamoStore::new(meter.on(&clients.dynamo), &table).with_quota(quota);
        Self { store, meter, table, ids: SeededIds::new(1) }
    }

    /// With a task that runs.
    pub(super) async fn running() -> (Self, TaskKey) {
        let counted = Self::new(QuotaMode::Off).await;
        let key = given::running(&counted.store, &counted.ids, owner("alice")).await.key();
        counted.meter.calls();
        (counted, key)
    }

    /// Expects these calls since the last time, and prints their sizes.
    #[track_caller]
    pub(super) fn expect(&self, what: &str, calls: &[&str]) {
        let (names, sent, received) = self.meter.cost();
        println!("{what}: {names:?}, {sent} bytes sent, {received} received");
        assert_eq!(names, calls, "{what}");
    }
}

/// Runs one task from creation to end, and checks what each operation costs.
fn check_costs_of_a_life(quota: QuotaMode, create: &[&str], end: &[&str]) {
    block_on(async {
        let counted = Counted::new(quota).await;
        let store = &counted.store;
        let key = given::queued(store, &counted.ids, owner("alice")).await.key();
        counted.expect("create", create);
        store.get(&key, NOW).await.unwrap().unwrap();
        counted.expect("poll", &["GetItem"]);
        store.apply(&key, &given::claim(1, NOW), NOW).await.unwrap();
        counted.expect("claim", &["UpdateItem"]);
        store.apply(&key, &given::heartbeat(1, NOW), NOW).await.unwrap();
        counted.expect("heartbeat", &["UpdateItem"]);
        store.apply(&key, &given::progress(1, NOW, 0.5), NOW).await.unwrap();
        counted.expect("progress", &["UpdateItem"]);
        let entry = Entry { kind: EntryKind::Step, name: "a".to_owned(), value: given::inline("1"), recording: None };
        store.record(&key, &entry).await.unwrap();
        counted.expect("step", &["PutItem"]);
        store.journal(&key).await.unwrap();
        counted.expect("journal", &["Query"]);
        store.apply(&key, &given::finish(1, r#"{"answer":42}"#), NOW).await.unwrap();
        counted.expect("finish", end);

        let key = given::running(store, &counted.ids, owner("alice")).await.key();
        counted.meter.calls();
        store.apply(&key, &TaskEvent::Cancel, NOW).await.unwrap();
        counted.expect("cancel", end);
    });
}

#[test]
fn a_task_costs_three_writes_and_each_poll_one_read() {
    check_costs_of_a_life(QuotaMode::Off, &["PutItem"], &["UpdateItem"]);
}

#[test]
fn a_counted_slot_costs_one_write_before_the_creation_and_one_after_the_end() {
    check_costs_of_a_life(QuotaMode::Counted, &["UpdateItem", "PutItem"], &["UpdateItem", "UpdateItem"]);
}

/// What an end costs that is told by webhook, besides its own writes, which stay what they are.
#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_delivery_costs_three_writes_and_is_counted_nowhere() {
    let counted = Counted::new(QuotaMode::Counted).await;
    let store = &counted.store;
    let webhook_delivery =
        given::task_with(&counted.ids, owner("alice"), NOW, |record| record.tool = WEBHOOK_DELIVERY_TOOL.to_owned());
    let key = webhook_delivery.key();
    store
        .create(NewTask { open_max: 0, stored_max: 0, new_max: Some(0), ..given::new(webhook_delivery) }, NOW)
        .await
        .unwrap();
    counted.expect("create", &["PutItem"]);
    store.apply(&key, &given::claim(1, NOW), NOW).await.unwrap();
    counted.expect("claim", &["UpdateItem"]);
    store.apply(&key, &given::finish(1, &"long ".repeat(2_000)), NOW).await.unwrap();
    counted.expect("finish", &["UpdateItem"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_event_also_costs_one_call() {
    let (counted, key) = Counted::running().await;
    for event in [given::claim(2, NOW), given::finish(7, "{}"), given::heartbeat(0, NOW), given::retry(9, NOW)] {
        let refused = counted.store.apply(&key, &event, NOW).await;
        assert!(matches!(refused, Err(ApplyError::Refused { .. })), "{refused:?}");
        counted.expect("refusal", &["UpdateItem"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idempotency_key_costs_one_call_and_a_retry_one_more_read() {
    let counted = Counted::new(QuotaMode::Off).await;
    let task = || given::task(&counted.ids, owner("alice"), NOW);
    counted.store.create(given::new_with_key(task(), 1, 1), NOW).await.unwrap();
    counted.expect("create with key", &["TransactWriteItems"]);
    let retried = counted.store.create(given::new_with_key(task(), 1, 1), NOW).await.unwrap();
    assert!(matches!(retried, Created::Existing(_)));
    counted.expect("retry", &["TransactWriteItems", "GetItem"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_depends_on_the_record_costs_one_more_call() {
    let (counted, key) = Counted::running().await;
    let store = &counted.store;
    let later = NOW.plus_ms(LEASE_MS);
    store.apply(&key, &given::claim(2, later), later).await.unwrap();
    counted.expect("claim from a dead worker", &["UpdateItem", "UpdateItem"]);
    store.apply(&key, &given::asks(2, &["a"], None), later).await.unwrap();
    counted.expect("ask", &["UpdateItem"]);
    store.apply(&key, &given::answer(&["a"]), later).await.unwrap();
    counted.expect("answer", &["GetItem", "UpdateItem"]);
    let deadline = store.get(&key, later).await.unwrap().unwrap().deadline();
    counted.meter.calls();
    store.apply(&key, &TaskEvent::TimeOut, deadline).await.unwrap();
    counted.expect("time-out", &["GetItem", "UpdateItem"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_moves_the_expiry_costs_one_more_call() {
    let counted = Counted::new(QuotaMode::Off).await;
    let task = given::task_with(&counted.ids, owner("alice"), NOW, |record| {
        record.expires_at = NOW.plus_ms(record.terms.retention_ms + 1_000);
    });
    counted.store.create(given::new(task.clone()), NOW).await.unwrap();
    counted.store.apply(&task.key(), &given::claim(1, NOW), NOW).await.unwrap();
    counted.meter.calls();
    let late = NOW.plus_ms(1_001);
    let ended = counted.store.apply(&task.key(), &given::finish(1, "{}"), late).await.unwrap();
    assert_eq!(ended.expires_at, task.expires_at.plus_ms(1));
    counted.expect("late finish", &["UpdateItem", "UpdateItem"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_that_the_retention_already_covers_costs_one_read() {
    let (counted, key) = Counted::running().await;
    counted.store.apply(&key, &TaskEvent::ExtendRetention { retention_ms: 1 }, NOW).await.unwrap();
    counted.expect("extension, already covered", &["GetItem"]);
    counted.store.apply(&key, &TaskEvent::ExtendRetention { retention_ms: 3_600_000 }, NOW).await.unwrap();
    // The second query is for what this store may have written before it knew of the extension.
    counted.expect("extension", &["GetItem", "Query", "UpdateItem", "Query"]);
    counted.store.apply(&key, &given::finish(1, "{}"), NOW).await.unwrap();
    counted.expect("finish", &["UpdateItem"]);
    counted.store.apply(&key, &TaskEvent::Forget, NOW).await.unwrap();
    counted.expect("forget", &["UpdateItem"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_twenty_costs_at_most_one_query_per_shard() {
    let counted = Counted::new(QuotaMode::Off).await;
    for number in 0..200 {
        let task = given::task(&counted.ids, owner("alice"), NOW.plus_ms(number));
        counted.store.create(given::new(task), NOW).await.unwrap();
    }
    counted.meter.calls();
    let mut before = None;
    for _ in 0..5 {
        let page = counted.store.list(&owner("alice"), before, 20, NOW).await.unwrap();
        assert_eq!(page.tasks.len(), 20);
        before = page.next;
        let (names, sent, received) = counted.meter.cost();
        println!("page of 20: {} queries, {sent} bytes sent, {received} received", names.len());
        assert!(names.len() <= 16 && names.iter().all(|name| name == "Query"), "{names:?}");
    }
}

/// 1,100 tasks of Alice; the two oldest failed.
async fn tasks_of_whom_the_oldest_failed(counted: &Counted) -> Vec<Task> {
    let tasks: Vec<_> =
        (0..1_100).map(|number| given::task(&counted.ids, owner("alice"), NOW.plus_ms(number))).collect();
    let creations = tasks.iter().map(|task| counted.store.create(given::new(task.clone()), NOW));
    futures::stream::iter(creations).buffer_unordered(32).for_each(|created| async { drop(created.unwrap()) }).await;
    let mut failed = Vec::new();
    for task in &tasks[..2] {
        counted.store.apply(&task.key(), &given::claim(1, NOW), NOW).await.unwrap();
        failed.push(counted.store.apply(&task.key(), &given::fail(1), NOW).await.unwrap());
    }
    failed.reverse();
    failed
}

/// How many items the queries may read, and how many queries there are.
fn items_asked_for(calls: &[Call]) -> (u64, usize) {
    let body = |call: &Call| serde_json::from_str::<serde_json::Value>(&call.body).unwrap();
    let limits = calls.iter().map(|call| {
        assert_eq!(call.name, "Query");
        body(call)["Limit"].as_u64().unwrap()
    });
    (limits.sum(), calls.len())
}

/// The read units of consistent queries for the newest `limit` items of each of Alice's shards: one for each 4 KB of a
/// query, rounded up. The emulator counts one for each query.
async fn units_of_queries(counted: &Counted, limit: i32) -> usize {
    let client = Clients::new(&emulator::config()).dynamo;
    let mut units = 0;
    for shard in 0..16 {
        let query = client
            .query()
            .table_name(&counted.table)
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", AttributeValue::S(format!("o#{}#{shard:x}", owner("alice"))))
            .scan_index_forward(false)
            .consistent_read(true)
            .limit(limit);
        let found = query.send().await.unwrap();
        let bytes: usize = found.items().iter().map(item_size).sum();
        units += bytes.div_ceil(4_096).max(1);
    }
    units
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_a_filtered_list_reads_at_most_1024_items_and_the_next_one_goes_on() {
    let counted = Counted::new(QuotaMode::Off).await;
    let failed = tasks_of_whom_the_oldest_failed(&counted).await;
    let list = async |statuses: &[Status], before, limit| {
        let filter = TaskFilter { statuses: statuses.iter().copied().collect(), ..TaskFilter::default() };
        counted.meter.calls();
        let page = counted.store.list_filtered(&owner("alice"), &filter, before, limit, NOW).await.unwrap();
        let (items, queries) = items_asked_for(&counted.meter.calls());
        println!("{} of {limit} found: {queries} queries for {items} items", page.tasks.len());
        assert!(items <= 1_024 && queries <= 70, "{queries} queries for {items} items");
        page
    };
    let (first, mut seen) = (list(&[Status::Failed], None, 50).await, Vec::new());
    assert_eq!(first.tasks, [], "it has read a part, in which there is none");
    let mut before = first.next;
    assert!(before.is_some());
    while before.is_some() {
        let page = list(&[Status::Failed], before, 50).await;
        seen.extend(page.tasks);
        before = page.next;
    }
    assert_eq!(seen, failed);
    // What the newest tasks fill is one round.
    assert_eq!(list(&[Status::Working], None, 50).await.tasks.len(), 50);
    println!("13 items of each shard: {} read units", units_of_queries(&counted, 13).await);
    println!("64 items of each shard: {} read units", units_of_queries(&counted, 64).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_workers_that_finish_one_task_make_twenty_calls_and_have_one_winner() {
    let (counted, key) = Counted::running().await;
    let store = &counted.store;
    let ends =
        at_once(20, |worker| async move { store.apply(&key, &given::finish(1, &worker.to_string()), NOW).await.ok() });
    assert_eq!(ends.into_iter().flatten().count(), 1);
    let calls = counted.meter.names();
    println!("twenty workers: {} calls", calls.len());
    assert!(calls.len() <= 20, "{calls:?}");
}

/// The size of an item as DynamoDB counts it.
pub(crate) fn item_size(item: &HashMap<String, AttributeValue>) -> usize {
    item.iter().map(|(name, value)| name.len() + value_size(value)).sum()
}
