//! What is in the item of a task: nothing of former states, and what is derived fits what it is derived from.

use std::collections::{BTreeSet, HashMap};
use std::error::Error;

use aws_sdk_dynamodb::types::AttributeValue;
use longhaul_aws::DynamoStore;
use longhaul_aws::clients::Clients;
use longhaul_core::ports::{ApplyError, StoreError, TaskStore};
use longhaul_core::{Suspension, TaskEvent, Timestamp};
use longhaul_testkit::SeededIds;
use longhaul_testkit::given::{self, NOW, owner};

use crate::fresh;

/// The attributes that only some states have.
const OF_STATES: [&str; 7] = ["lease_until", "lease_token", "until", "asks", "result", "result_kind", "failure"];

/// The only item of the table.
async fn item(clients: &Clients, table: &str) -> HashMap<String, AttributeValue> {
    let scanned = clients.dynamo.scan().table_name(table).send().await.unwrap();
    let [item] = scanned.items() else { panic!("{scanned:?}") };
    item.clone()
}

fn of_state(item: &HashMap<String, AttributeValue>) -> BTreeSet<&str> {
    OF_STATES.into_iter().filter(|name| item.contains_key(*name)).collect()
}

fn number(item: &HashMap<String, AttributeValue>, name: &str) -> i128 {
    item[name].as_n().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_has_the_attributes_of_its_state_and_of_no_other() {
    let (clients, table) = fresh().await;
    // Each call reaches another instance, except for the first, which knows what it wrote.
    let store = || DynamoStore::new(clients.dynamo.clone(), &table);
    let known = store();
    let task = given::queued(&known, &SeededIds::new(1), owner("alice")).await;
    let key = task.key();
    assert_eq!(of_state(&item(&clients, &table).await), BTreeSet::new());
    let late = task.expires_at.minus_ms(1);
    let lease = ["lease_until", "lease_token"];
    let until = NOW.plus_ms(1_000);
    let timer = given::suspend(2, Suspension::Timer(until));
    let life: [(TaskEvent, Timestamp, &[&str]); 8] = [
        (given::claim(1, NOW), NOW, &lease),
        (given::asks(1, &["a"], Some(until)), NOW, &["asks", "until"]),
        (given::answer(&["a"]), NOW, &[]),
        (given::claim(2, NOW), NOW, &lease),
        (timer, NOW, &["until"]),
        (given::claim(3, until), until, &lease),
        (given::heartbeat(3, until), until, &lease),
        (given::finish(3, "{}"), late, &["result", "result_kind"]),
    ];
    for (number, (event, now, expected)) in life.into_iter().enumerate() {
        let applied =
            if number < 2 { known.apply(&key, &event, now).await } else { store().apply(&key, &event, now).await };
        applied.unwrap();
        let expected: BTreeSet<&str> = expected.iter().copied().collect();
        assert_eq!(of_state(&item(&clients, &table).await), expected, "after {event:?}");
    }
    let item = item(&clients, &table).await;
    assert!(number(&item, "expires_at") > i128::from(task.expires_at.as_ms()), "a late end moves the expiry: {item:?}");
    assert_eq!(number(&item, "late_after"), number(&item, "expires_at") - number(&item, "keep_ms"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_not_counted_does_not_say_as_how_many_it_counts() {
    let (clients, table) = fresh().await;
    let store = DynamoStore::new(clients.dynamo.clone(), &table);
    given::queued(&store, &SeededIds::new(1), owner("alice")).await;
    let item = item(&clients, &table).await;
    assert!(!item.contains_key("counted"), "{item:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_in_a_newer_format_is_left_as_it_is_and_the_error_says_what_to_do() {
    let (clients, table) = fresh().await;
    let store = || DynamoStore::new(clients.dynamo.clone(), &table);
    let alice = owner("alice");
    let ids = SeededIds::new(1);
    let task = given::queued(&store(), &ids, alice).await;
    let mut newer = item(&clients, &table).await;
    newer.insert("format".to_owned(), AttributeValue::N("2".to_owned()));
    newer.insert("state".to_owned(), AttributeValue::S("paused".to_owned()));
    clients.dynamo.put_item().table_name(&table).set_item(Some(newer.clone())).send().await.unwrap();
    let key = task.key();
    let says = |error: StoreError| format!("{error}: {}", error.source().unwrap());
    let sentence = "a newer version of Longhaul wrote this record: a newer version wrote this task, in format 2: \
                    deploy that version again, and the task continues";
    assert_eq!(says(store().get(&key, NOW).await.unwrap_err()), sentence);
    let events = [
        given::claim(1, NOW),
        given::heartbeat(1, NOW),
        given::finish(1, "{}"),
        given::answer(&["a"]),
        TaskEvent::Cancel,
        TaskEvent::Resend { not_since: NOW },
        TaskEvent::TimeOut,
        TaskEvent::Forget,
    ];
    for event in events {
        match store().apply(&key, &event, NOW).await {
            Err(ApplyError::Store(error)) => assert_eq!(says(error), sentence, "{event:?}"),
            other => panic!("{event:?}: {other:?}"),
        }
    }
    assert_eq!(item(&clients, &table).await, newer, "nothing was written");
    // Other tasks are listed, instead of none.
    let other = given::queued(&store(), &ids, alice).await;
    let page = store().list(&alice, None, 10, NOW).await.unwrap();
    assert_eq!(page.tasks, [other]);
}
