//! How long items stay: nothing that belongs to a task goes before the task.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use longhaul_aws::DynamoStore;
use longhaul_aws::clients::Clients;
use longhaul_core::ports::TaskStore;
use longhaul_core::{Entry, EntryKind, MailboxId, PartsName, Payload, Task, TaskEvent, TaskRecord, Timestamp};
use longhaul_testkit::given::{self, NOW, owner};
use longhaul_testkit::{SeededIds, block_on};

use crate::emulator;

pub(crate) const DAY_MS: u64 = 86_400_000;

/// Everything in the table, with the second from which on DynamoDB may delete it.
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

/// A task whose request stands in parts, from its parts to its late end; every write by a store that `store` gives.
async fn live(store: impl Fn() -> DynamoStore, adjust: impl FnOnce(&mut TaskRecord)) -> Task {
    let task = given::task_with(&SeededIds::new(1), owner("alice"), NOW, |record| {
        record.request = Payload::Parts { name: PartsName::Request, count: 2, bytes: 2 };
        adjust(record);
    });
    let key = task.key();
    store().put_parts(&key, &PartsName::Request, &["a", "b"]).await.unwrap();
    store().create(given::new_with_key(task.clone(), 1, 1), NOW).await.unwrap();
    store().apply(&key, &given::claim(1, NOW), NOW).await.unwrap();
    let entry = Entry { kind: EntryKind::Step, name: "a".to_owned(), value: given::inline("1") };
    store().record(&key, &entry).await.unwrap();
    store().put_parts(&key, &PartsName::Outcome { attempt: 1 }, &["c"]).await.unwrap();
    // As late as an end can be.
    let late = task.expires_at.minus_ms(1);
    let ended = store().apply(&key, &given::finish(1, "{}"), late).await.unwrap();
    assert_eq!(ended.expires_at, late.plus_ms(task.terms.retention_ms));
    ended
}

async fn nothing_goes_before_the_task(adjust: impl FnOnce(&mut TaskRecord), shares_a_store: Shares) {
    let clients = Clients::new(&emulator::config());
    let table = emulator::table(&clients).await;
    let shared = DynamoStore::new(clients.dynamo.clone(), &table);
    let store = || match shares_a_store {
        Shares::OneStore => shared.clone(),
        // As if every call reached another instance.
        Shares::Nothing => DynamoStore::new(clients.dynamo.clone(), &table),
    };
    let task = live(store, adjust).await;
    let expiries = expiries(&table).await;
    assert_eq!(expiries.len(), 6, "{expiries:?}");
    for (item, expiry) in &expiries {
        assert!(*expiry >= seconds(task.expires_at), "{item} goes before the task, at {expiry}: {expiries:?}");
        let generous = seconds(task.expires_at.max(NOW.plus_ms(2 * DAY_MS)).plus_ms(DAY_MS));
        assert!(*expiry <= generous, "{item} stays for good: {expiries:?}");
    }
    assert_eq!(expiries[&format!("o# {}", task.id)], seconds(task.expires_at));
}

#[derive(Clone, Copy)]
enum Shares {
    OneStore,
    Nothing,
}

#[test]
fn nothing_that_belongs_to_a_task_goes_before_it() {
    block_on(nothing_goes_before_the_task(|_record| {}, Shares::OneStore));
}

#[test]
fn nothing_that_belongs_to_a_task_goes_before_it_whoever_wrote_it() {
    block_on(nothing_goes_before_the_task(|_record| {}, Shares::Nothing));
}

#[test]
fn a_large_request_outlives_a_task_of_months() {
    let of_months = |record: &mut TaskRecord| {
        record.terms.run_ms = 100 * DAY_MS;
        record.terms.retention_ms = 10 * DAY_MS;
        record.expires_at = NOW.plus_ms(111 * DAY_MS);
    };
    block_on(nothing_goes_before_the_task(of_months, Shares::Nothing));
}

/// Expects that everything but steps, which nobody reads after the end, stays as long as the task.
async fn all_stay(table: &str, task: &Task) {
    let mut expiries = expiries(table).await;
    expiries.retain(|item, _| !item.contains("step#"));
    let early: Vec<_> = expiries.iter().filter(|(_, expiry)| **expiry < seconds(task.expires_at)).collect();
    assert!(expiries.len() == 5 && early.is_empty(), "{early:?} of {expiries:?}");
}

#[test]
fn what_a_client_wishes_to_keep_longer_stays_longer() {
    block_on(async {
        let clients = Clients::new(&emulator::config());
        let table = emulator::table(&clients).await;
        let store = || DynamoStore::new(clients.dynamo.clone(), &table);
        let (api, worker) = (store(), store());
        let task = given::task_with(&SeededIds::new(1), owner("alice"), NOW, |record| {
            record.request = Payload::Parts { name: PartsName::Request, count: 2, bytes: 2 };
        });
        let key = task.key();
        api.put_parts(&key, &PartsName::Request, &["a", "b"]).await.unwrap();
        api.create(given::new_with_key(task.clone(), 1, 1), NOW).await.unwrap();
        worker.apply(&key, &given::claim(1, NOW), NOW).await.unwrap();
        let kept = api.apply(&key, &TaskEvent::ExtendRetention { retention_ms: 20 * DAY_MS }, NOW).await.unwrap();
        assert_eq!(kept.expires_at, task.deadline().plus_ms(20 * DAY_MS));
        // The worker has not heard of it yet.
        worker.put_parts(&key, &PartsName::Outcome { attempt: 1 }, &["c"]).await.unwrap();
        let ended = worker.apply(&key, &given::finish(1, "{}"), NOW).await.unwrap();
        assert_eq!(ended.expires_at, kept.expires_at);
        all_stay(&table, &ended).await;
        // And again when all is done.
        let kept = store().apply(&key, &TaskEvent::ExtendRetention { retention_ms: 90 * DAY_MS }, NOW).await.unwrap();
        assert_eq!(kept.expires_at, NOW.plus_ms(90 * DAY_MS));
        all_stay(&table, &kept).await;
    });
}

#[test]
fn a_task_that_is_forgotten_is_deleted_at_once() {
    block_on(async {
        let clients = Clients::new(&emulator::config());
        let table = emulator::table(&clients).await;
        let store = DynamoStore::new(clients.dynamo, &table);
        let key = given::running(&store, &SeededIds::new(1), owner("alice")).await.key();
        store.apply(&key, &TaskEvent::Cancel, NOW).await.unwrap();
        let later = NOW.plus_ms(5);
        store.apply(&key, &TaskEvent::Forget, later).await.unwrap();
        assert_eq!(store.get(&key, later).await.unwrap(), None);
        assert_eq!(expiries(&table).await[&format!("o# {}", key.id)], seconds(later));
    });
}

#[test]
fn a_text_in_a_mailbox_goes_once_it_is_past_its_time_and_its_parts_no_sooner() {
    block_on(async {
        let clients = Clients::new(&emulator::config());
        let table = emulator::table(&clients).await;
        let store = DynamoStore::new(clients.dynamo, &table);
        let (text, expires_at) = ("x".repeat(1024 * 1024), NOW.plus_ms(1_500));
        store.leave(&owner("alice"), &MailboxId::of(&[b"a"]), &text, expires_at, NOW).await.unwrap();
        let expiries = expiries(&table).await;
        assert_eq!(expiries["m# -"], seconds(expires_at));
        assert_eq!(expiries.len(), 4, "{expiries:?}");
        for (item, expiry) in &expiries {
            let days = *expiry <= seconds(expires_at.plus_ms(DAY_MS));
            assert!(*expiry >= seconds(expires_at) && days, "{item} goes at {expiry}: {expiries:?}");
        }
    });
}

#[test]
fn an_expired_task_leaves_no_step_to_a_task_of_the_same_id() {
    block_on(async {
        let clients = Clients::new(&emulator::config());
        let table = emulator::table(&clients).await;
        let store = DynamoStore::new(clients.dynamo, table);
        let task = given::task(&SeededIds::new(1), owner("alice"), NOW);
        store.create(given::new(task.clone()), NOW).await.unwrap();
        for number in 0..60 {
            let entry = Entry { kind: EntryKind::Step, name: number.to_string(), value: given::inline("1") };
            store.record(&task.key(), &entry).await.unwrap();
        }
        let again = given::task_with(&SeededIds::new(1), owner("alice"), NOW, |record| {
            record.expires_at = task.expires_at.plus_ms(1_000);
        });
        let created = store.create(given::new(again.clone()), task.expires_at).await.unwrap();
        assert_eq!(created, longhaul_core::ports::Created::New(again));
        assert_eq!(store.journal(&task.key()).await.unwrap(), []);
    });
}
