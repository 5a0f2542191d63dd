//! How long items are kept: no attachment is deleted before its task.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use harness::emulator;
use longhaul_aws::DynamoStore;
use longhaul_aws::clients::Clients;
use longhaul_core::ports::{NewTask, TaskStore};
use longhaul_core::{Entry, EntryKind, MailboxId, PartsName, Payload, Task, TaskEvent, TaskRecord, Timestamp, limits};
use longhaul_testkit::given::{self, NOW, owner};
use longhaul_testkit::{SeededIds, block_on};

use crate::fresh;

pub(crate) const DAY_MS: u64 = 86_400_000;

/// Every item in the table, with the second from which on DynamoDB may delete it.
pub(crate) async fn expiries(table: &str) -> HashMap<String, u64> {
    let client = Clients::new(&emulator::config()).dynamo;
    let scanned = client.scan().table_name(table).send().await.unwrap();
    let name = |item: &HashMap<String, AttributeValue>| {
        format!("{} {}", &item["pk"].as_s().unwrap()[..2], item["sk"].as_s().unwrap())
    };
    scanned.items().iter().map(|item| (name(item), item["ttl"].as_n().unwrap().parse().unwrap())).collect()
}

fn seconds(at: Timestamp) -> u64 {
    at.as_ms().div_ceil(1_000)
}

/// Runs a task whose request is in parts, from its parts to a late end; each write uses the store that `store` returns.
async fn run_task(store: impl Fn() -> DynamoStore, adjust: impl FnOnce(&mut TaskRecord)) -> Task {
    let task = given::task_with(&SeededIds::new(1), owner("alice"), NOW, |record| {
        record.request = Payload::Parts { name: PartsName::Request, count: 2, bytes: 2 };
        adjust(record);
    });
    let key = task.key();
    let request_parts = ["a".to_owned(), "b".to_owned()].into();
    let new = NewTask { request_parts, ..given::new_with_key(task.clone(), 1, 1) };
    store().create(new, NOW).await.unwrap();
    store().apply(&key, &given::claim(1, NOW), NOW).await.unwrap();
    let entry = Entry { kind: EntryKind::Step, name: "a".to_owned(), value: given::inline("1"), recording: None };
    store().record(&key, &entry).await.unwrap();
    store().put_parts(&key, &PartsName::Outcome { attempt: 1 }, &["c"]).await.unwrap();
    // The latest possible end.
    let late = task.expires_at.minus_ms(1);
    let ended = store().apply(&key, &given::finish(1, "{}"), late).await.unwrap();
    assert_eq!(ended.expires_at, late.plus_ms(task.terms.retention_ms));
    ended
}

async fn nothing_is_deleted_before_the_task(adjust: impl FnOnce(&mut TaskRecord), stores: Stores) {
    let (clients, table) = fresh().await;
    let shared = DynamoStore::new(clients.dynamo.clone(), &table);
    let store = || match stores {
        Stores::Shared => shared.clone(),
        // As if every call reached another instance.
        Stores::OnePerCall => DynamoStore::new(clients.dynamo.clone(), &table),
    };
    let task = run_task(store, adjust).await;
    let expiries = expiries(&table).await;
    assert_eq!(expiries.len(), 6, "{expiries:?}");
    for (item, expiry) in &expiries {
        assert!(*expiry >= seconds(task.expires_at), "{item} is deleted before the task, at {expiry}: {expiries:?}");
        let latest = seconds(task.expires_at.max(NOW.plus_ms(2 * DAY_MS)).plus_ms(DAY_MS));
        assert!(*expiry <= latest, "{item} is kept too long: {expiries:?}");
    }
    assert_eq!(expiries[&format!("o# {}", task.id)], seconds(task.expires_at));
}

#[derive(Clone, Copy)]
enum Stores {
    Shared,
    OnePerCall,
}

#[test]
fn no_attachment_is_deleted_before_its_task() {
    block_on(nothing_is_deleted_before_the_task(|_record| {}, Stores::Shared));
}

#[test]
fn no_attachment_is_deleted_before_its_task_if_every_call_reaches_another_instance() {
    block_on(nothing_is_deleted_before_the_task(|_record| {}, Stores::OnePerCall));
}

#[test]
fn a_large_request_is_kept_as_long_as_a_task_of_months() {
    let of_months = |record: &mut TaskRecord| {
        record.terms.run_ms = 100 * DAY_MS;
        record.terms.retention_ms = 10 * DAY_MS;
        record.expires_at = NOW.plus_ms(111 * DAY_MS);
    };
    block_on(nothing_is_deleted_before_the_task(of_months, Stores::OnePerCall));
}

/// Expects that everything is kept as long as the task, except steps, which are not read after the end.
async fn all_stay(table: &str, task: &Task) {
    let mut expiries = expiries(table).await;
    expiries.retain(|item, _| !item.contains("step#"));
    let early: Vec<_> = expiries.iter().filter(|(_, expiry)| **expiry < seconds(task.expires_at)).collect();
    assert!(expiries.len() == 5 && early.is_empty(), "{early:?} of {expiries:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_of_the_retention_extends_the_attachments() {
    let (clients, table) = fresh().await;
    let store = || DynamoStore::new(clients.dynamo.clone(), &table);
    let (api, worker) = (store(), store());
    let task = given::task_with(&SeededIds::new(1), owner("alice"), NOW, |record| {
        record.request = Payload::Parts { name: PartsName::Request, count: 2, bytes: 2 };
    });
    let key = task.key();
    let request_parts = ["a".to_owned(), "b".to_owned()].into();
    let new = NewTask { request_parts, ..given::new_with_key(task.clone(), 1, 1) };
    api.create(new, NOW).await.unwrap();
    worker.apply(&key, &given::claim(1, NOW), NOW).await.unwrap();
    let kept = api.apply(&key, &TaskEvent::ExtendRetention { retention_ms: 20 * DAY_MS }, NOW).await.unwrap();
    assert_eq!(kept.expires_at, task.deadline().plus_ms(20 * DAY_MS));
    // The worker does not know of it yet.
    worker.put_parts(&key, &PartsName::Outcome { attempt: 1 }, &["c"]).await.unwrap();
    let ended = worker.apply(&key, &given::finish(1, "{}"), NOW).await.unwrap();
    assert_eq!(ended.expires_at, kept.expires_at);
    all_stay(&table, &ended).await;
    // And again after the end.
    let kept = store().apply(&key, &TaskEvent::ExtendRetention { retention_ms: 90 * DAY_MS }, NOW).await.unwrap();
    assert_eq!(kept.expires_at, NOW.plus_ms(90 * DAY_MS));
    all_stay(&table, &kept).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_forgotten_is_deleted_at_once() {
    let (clients, table) = fresh().await;
    let store = DynamoStore::new(clients.dynamo, &table);
    let key = given::running(&store, &SeededIds::new(1), owner("alice")).await.key();
    store.apply(&key, &TaskEvent::Cancel, NOW).await.unwrap();
    let later = NOW.plus_ms(5);
    store.apply(&key, &TaskEvent::Forget, later).await.unwrap();
    assert_eq!(store.get(&key, later).await.unwrap(), None);
    assert_eq!(expiries(&table).await[&format!("o# {}", key.id)], seconds(later));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_in_a_mailbox_is_deleted_once_it_has_expired_and_its_parts_not_before() {
    let (clients, table) = fresh().await;
    let store = DynamoStore::new(clients.dynamo, &table);
    let (text, expires_at) = ("x".repeat(limits::PART_BYTES + 1), NOW.plus_ms(1_500));
    store.leave(&owner("alice"), &MailboxId::of(&[b"a"]), &text, expires_at, NOW).await.unwrap();
    let expiries = expiries(&table).await;
    assert_eq!(expiries["m# -"], seconds(expires_at));
    assert_eq!(expiries.len(), 3, "{expiries:?}");
    for (item, expiry) in &expiries {
        let in_time = *expiry <= seconds(expires_at.plus_ms(DAY_MS));
        assert!(*expiry >= seconds(expires_at) && in_time, "{item} is deleted at {expiry}: {expiries:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_with_the_id_of_an_expired_task_does_not_find_its_steps() {
    let (clients, table) = fresh().await;
    let store = DynamoStore::new(clients.dynamo, table);
    let task = given::task(&SeededIds::new(1), owner("alice"), NOW);
    store.create(given::new(task.clone()), NOW).await.unwrap();
    for number in 0..60 {
        let entry =
            Entry { kind: EntryKind::Step, name: number.to_string(), value: given::inline("1"), recording: None };
        store.record(&task.key(), &entry).await.unwrap();
    }
    let again = given::task_with(&SeededIds::new(1), owner("alice"), NOW, |record| {
        record.expires_at = task.expires_at.plus_ms(1_000);
    });
    let created = store.create(given::new(again.clone()), task.expires_at).await.unwrap();
    assert_eq!(created, longhaul_core::ports::Created::New(again));
    assert_eq!(store.journal(&task.key()).await.unwrap(), []);
}
