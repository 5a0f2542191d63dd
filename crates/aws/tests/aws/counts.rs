//! What operations cost: the calls that the SDK sends, and the read units of a small task.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, ReturnConsumedCapacity};
use futures::StreamExt;
use harness::emulator;
use longhaul_aws::clients::Clients;
use longhaul_aws::{DynamoStore, QuotaMode};
use longhaul_core::ports::{ApplyError, Created, NewTask, TaskStore};
use longhaul_core::{
    Entry, EntryKind, MailboxId, PartsName, Payload, State, Status, Suspension, Task, TaskEvent, TaskFilter, TaskKey,
    WEBHOOK_DELIVERY_TOOL, limits,
};
use longhaul_testkit::given::{self, LEASE_MS, NOW, owner};
use longhaul_testkit::{SeededIds, at_once, block_on};

use crate::fresh;
use crate::meter::{Call, Meter};

/// A store whose calls are counted.
struct Counted {
    store: DynamoStore,
    meter: Meter,
    table: String,
    ids: SeededIds,
}

impl Counted {
    async fn new(quota: QuotaMode) -> Self {
        let (clients, table) = fresh().await;
        let meter = Meter::default();
        let store = DynamoStore::new(meter.on(&clients.dynamo), &table).with_quota(quota);
        Self { store, meter, table, ids: SeededIds::new(1) }
    }

    /// With a task that runs.
    async fn running() -> (Self, TaskKey) {
        let counted = Self::new(QuotaMode::Off).await;
        let key = given::running(&counted.store, &counted.ids, owner("alice")).await.key();
        counted.meter.calls();
        (counted, key)
    }

    /// Expects these calls since the last time, and prints their sizes.
    #[track_caller]
    fn expect(&self, what: &str, calls: &[&str]) {
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
        let filter = TaskFilter { statuses: statuses.iter().copied().collect(), tool: None };
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

#[tokio::test(flavor = "multi_thread")]
async fn a_large_result_costs_one_more_write_and_one_more_read() {
    let (counted, key) = Counted::running().await;
    let store = &counted.store;
    let text = "x".repeat(3 * 1024 * 1024);
    let parts: Vec<&str> = (0..text.len())
        .step_by(limits::PART_BYTES)
        .map(|at| &text[at..text.len().min(at + limits::PART_BYTES)])
        .collect();
    let name = PartsName::Outcome { attempt: 1 };
    store.put_parts(&key, &name, &parts).await.unwrap();
    counted.expect("write 3 MiB", &["BatchWriteItem"]);
    let count = u32::try_from(parts.len()).unwrap();
    assert!(store.parts(&key, &name, count).await.unwrap() == Some(text), "the parts differ");
    counted.expect("read 3 MiB", &["BatchGetItem"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_request_costs_one_read_and_one_write_more_and_a_refused_one_writes_nothing_large() {
    let counted = Counted::new(QuotaMode::Counted).await;
    let new = || given::new_with_parts(&counted.ids, owner("alice"), &["a", "b"]);
    let with_key = |request| NewTask { idempotency: given::key(1, request), ..new() };
    counted.store.create(new(), NOW).await.unwrap();
    counted.expect("create", &["UpdateItem", "GetItem", "BatchWriteItem", "PutItem"]);
    counted.store.create(with_key(1), NOW).await.unwrap();
    let calls = ["UpdateItem", "GetItem", "GetItem", "BatchWriteItem", "TransactWriteItems"];
    counted.expect("create with key", &calls);
    assert!(matches!(counted.store.create(with_key(1), NOW).await, Ok(Created::Existing(_))));
    counted.expect("retry", &["UpdateItem", "GetItem", "GetItem", "UpdateItem"]);
    assert!(counted.store.create(with_key(2), NOW).await.is_err());
    counted.expect("another call with the key", &["UpdateItem", "GetItem", "GetItem", "UpdateItem"]);
    assert!(counted.store.create(NewTask { open_max: 1, ..new() }, NOW).await.is_err());
    counted.expect("one task too many", &["UpdateItem", "GetItem"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mailbox_costs_one_write_and_one_read_and_a_large_text_more_of_both() {
    let counted = Counted::new(QuotaMode::Off).await;
    let (store, alice, expires_at) = (&counted.store, owner("alice"), NOW.plus_ms(60_000));
    let (small, large) = (MailboxId::of(&[b"small"]), MailboxId::of(&[b"large"]));
    counted.meter.calls();
    store.leave(&alice, &small, "text", expires_at, NOW).await.unwrap();
    counted.expect("leave", &["PutItem"]);
    store.leave(&alice, &small, "late", expires_at, NOW).await.unwrap();
    counted.expect("leave in a full mailbox", &["PutItem"]);
    store.collect(&alice, &small, NOW).await.unwrap();
    counted.expect("collect", &["GetItem"]);
    store.leave(&alice, &large, &"x".repeat(3 * 1024 * 1024), expires_at, NOW).await.unwrap();
    // The read, so that nothing is stored for a mailbox that is full.
    counted.expect("leave 3 MiB", &["GetItem", "BatchWriteItem", "PutItem"]);
    store.collect(&alice, &large, NOW).await.unwrap();
    counted.expect("collect 3 MiB", &["GetItem", "BatchGetItem"]);
}

/// A finished call with arguments as large as they may be inside the record, read as a poll reads it.
#[tokio::test(flavor = "multi_thread")]
async fn a_poll_of_a_small_task_costs_one_read_unit() {
    let counted = Counted::new(QuotaMode::Off).await;
    let store = &counted.store;
    let task = given::task_with(&counted.ids, owner("alice"), NOW, |record| {
        record.request = Payload::Inline("x".repeat(limits::INLINE_BYTES_MAX));
        record.trace = longhaul_core::TraceParent::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    });
    store.create(given::new(task.clone()), NOW).await.unwrap();
    for event in [given::claim(1, NOW), given::progress(1, NOW, 0.1 + 0.2), given::finish(1, r#"{"answer":42}"#)] {
        store.apply(&task.key(), &event, NOW).await.unwrap();
        let (size, units) = stored_size(&counted, &task.id.to_string()).await;
        println!("after {event:?}: {size} bytes, {units} read units");
        assert!(size < 4_096 && units <= 1.0, "{size} bytes, {units} read units");
    }
    let ended = store.get(&task.key(), NOW).await.unwrap().unwrap();
    assert!(matches!(ended.state, State::Completed { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_attempts_take_less_than_a_kilobyte_and_no_further_call() {
    let counted = Counted::new(QuotaMode::Off).await;
    let task = given::queued(&counted.store, &counted.ids, owner("alice")).await;
    let (before, _) = stored_size(&counted, &task.id.to_string()).await;
    counted.meter.calls();
    for attempt in 1..=100 {
        counted.store.apply(&task.key(), &given::claim(1, NOW), NOW).await.unwrap();
        counted.expect("claim", &["UpdateItem"]);
        let asks = given::suspend(attempt, Suspension::Timer(NOW));
        counted.store.apply(&task.key(), &asks, NOW).await.unwrap();
        counted.expect("suspend", &["UpdateItem"]);
    }
    let (after, _) = stored_size(&counted, &task.id.to_string()).await;
    assert!(after - before <= 16 * 60, "{} bytes", after - before);
}

/// The size of the task's item as DynamoDB counts it, and the read units that a consistent read of it costs.
async fn stored_size(counted: &Counted, id: &str) -> (usize, f64) {
    let client = Clients::new(&emulator::config()).dynamo;
    let scanned = client.scan().table_name(&counted.table).send().await.unwrap();
    let item = scanned.items().iter().find(|item| item["sk"].as_s().unwrap() == id).unwrap();
    let size = item_size(item);
    let read = client
        .get_item()
        .table_name(&counted.table)
        .key("pk", item["pk"].clone())
        .key("sk", item["sk"].clone())
        .consistent_read(true)
        .return_consumed_capacity(ReturnConsumedCapacity::Total)
        .send()
        .await
        .unwrap();
    (size, read.consumed_capacity.unwrap().capacity_units.unwrap())
}

/// The size of an item as DynamoDB counts it.
pub(crate) fn item_size(item: &HashMap<String, AttributeValue>) -> usize {
    item.iter().map(|(name, value)| name.len() + value_size(value)).sum()
}

fn value_size(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        // Two digits per byte, and one more byte: rounded up.
        AttributeValue::N(digits) => digits.len().div_ceil(2) + 2,
        AttributeValue::B(bytes) => bytes.as_ref().len(),
        AttributeValue::L(list) => 3 + list.iter().map(|value| value_size(value) + 1).sum::<usize>(),
        AttributeValue::M(map) => 3 + map.iter().map(|(name, value)| name.len() + value_size(value) + 1).sum::<usize>(),
        other => panic!("the store writes no {other:?}"),
    }
}
