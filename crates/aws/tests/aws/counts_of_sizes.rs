//! What large values cost, and how large items are.

use aws_sdk_dynamodb::types::{AttributeValue, ReturnConsumedCapacity};
use harness::emulator;
use longhaul_aws::QuotaMode;
use longhaul_aws::clients::Clients;
use longhaul_core::ports::{Created, NewTask, TaskStore};
use longhaul_core::{MailboxId, PartsName, Payload, State, Suspension, limits};
use longhaul_testkit::given::{self, NOW, owner};

use super::counts::{Counted, item_size};

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

pub(super) fn value_size(value: &AttributeValue) -> usize {
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
