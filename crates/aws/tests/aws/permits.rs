//! The permits of running attempts in DynamoDB: what the model says, for any order of calls; what they cost; and what
//! happens when workers take them at the same time, or items are not what they should be.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use longhaul_aws::DynamoStore;
use longhaul_aws::clients::Clients;
use longhaul_core::ports::{AttemptPermit, AttemptPermits, StoreError, Taken};
use longhaul_core::{LeaseToken, OwnerId, PermitGroup, TaskKey, Timestamp};
use longhaul_testkit::given::{self, NOW, owner};
use longhaul_testkit::{SeededIds, at_once, permits_answer_as_the_model};

use crate::fresh;
use crate::meter::Meter;

/// A table, and what the calls to it cost.
struct Permits {
    clients: Clients,
    table: String,
    store: DynamoStore,
    meter: Meter,
}

impl Permits {
    async fn new() -> Self {
        let (clients, table) = fresh().await;
        let meter = Meter::default();
        let store = DynamoStore::new(meter.on(&clients.dynamo), &table);
        Self { clients, table, store, meter }
    }

    fn key(&self, owner: &OwnerId) -> HashMap<String, AttributeValue> {
        let text = |text: String| AttributeValue::S(text);
        HashMap::from([("pk".to_owned(), text(format!("q#{owner}"))), ("sk".to_owned(), text("legs".to_owned()))])
    }

    async fn item(&self, owner: &OwnerId) -> HashMap<String, AttributeValue> {
        let get = self.clients.dynamo.get_item().table_name(&self.table).set_key(Some(self.key(owner)));
        get.consistent_read(true).send().await.unwrap().item.unwrap()
    }
}

/// The permit of an attempt with the lease `lease` of task `number`.
fn permit(owner: OwnerId, number: u64, lease: u8, until: Timestamp) -> AttemptPermit {
    let id = given::task(&SeededIds::new(number), owner, NOW).id;
    // A lease belongs to one attempt, which took its permit at one moment.
    let since = NOW.plus_ms(u64::from(lease));
    let (group, task) = (PermitGroup::Owner(owner), TaskKey::new(owner, id));
    AttemptPermit { group, task, lease: LeaseToken::from_random([lease; 16]), since, until, turn: None }
}

fn alices(number: u64, lease: u8) -> AttemptPermit {
    permit(owner("alice"), number, lease, NOW.plus_ms(60_000))
}

/// A number of the item.
fn number_of(item: &HashMap<String, AttributeValue>, name: &str) -> u64 {
    item[name].as_n().unwrap().parse().unwrap()
}

fn permits_in(item: &HashMap<String, AttributeValue>) -> usize {
    item.keys().filter(|name| name.len() == 33 && name.starts_with('l')).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permit_costs_one_write_to_take_and_one_to_give_back() {
    let permits = Permits::new().await;
    for lease in [1, 2] {
        assert_eq!(permits.store.take(&alices(1, lease), 1, NOW).await.unwrap(), Taken::Permit);
        assert_eq!(permits.meter.names(), ["UpdateItem"]);
        assert_eq!(permits.store.take(&alices(2, lease), 1, NOW).await.unwrap(), Taken::Full);
        assert_eq!(permits.meter.names(), ["UpdateItem"], "a refusal brings what it needs");
        permits.store.give_back(&alices(1, lease), NOW).await.unwrap();
        assert_eq!(permits.meter.names(), ["UpdateItem"]);
    }
    let item = permits.item(&owner("alice")).await;
    assert_eq!((number_of(&item, "legs"), permits_in(&item)), (0, 0));
    assert!(item.contains_key("ttl"), "what nobody uses is deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permit_whose_time_is_over_is_free_and_not_a_moment_earlier() {
    let permits = Permits::new().await;
    let (dead, next) = (alices(1, 1), alices(2, 2));
    permits.store.take(&dead, 1, NOW).await.unwrap();
    assert_eq!(permits.store.take(&next, 1, dead.until.minus_ms(1)).await.unwrap(), Taken::Full);
    permits.meter.names();
    assert_eq!(permits.store.take(&next, 1, dead.until).await.unwrap(), Taken::Permit);
    assert_eq!(permits.meter.names(), ["UpdateItem", "UpdateItem"]);
    let item = permits.item(&owner("alice")).await;
    assert_eq!((number_of(&item, "legs"), permits_in(&item)), (1, 1), "the other one is cleared");
    // The dead worker was only slow: its permit is not its own any more.
    permits.store.give_back(&dead, NOW).await.unwrap();
    assert_eq!(number_of(&permits.item(&owner("alice")).await, "legs"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permit_that_another_task_got_is_gone_also_for_a_clock_that_is_behind() {
    let permits = Permits::new().await;
    let (dead, next, successor) = (alices(1, 1), permit(owner("alice"), 2, 2, NOW.plus_ms(90_000)), alices(1, 3));
    permits.store.take(&dead, 1, NOW).await.unwrap();
    assert_eq!(permits.store.take(&next, 1, dead.until).await.unwrap(), Taken::Permit);
    let behind = dead.until.minus_ms(1);
    assert_eq!(permits.store.take_over(&successor, &dead, 1, behind).await.unwrap(), Taken::Full);
    assert_eq!(permits.store.take(&successor, 1, behind).await.unwrap(), Taken::Full);
    let item = permits.item(&owner("alice")).await;
    assert_eq!((number_of(&item, "legs"), permits_in(&item)), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permit_that_is_taken_twice_is_one_permit() {
    let permits = Permits::new().await;
    for _ in 0..3 {
        assert_eq!(permits.store.take(&alices(1, 1), 2, NOW).await.unwrap(), Taken::Permit);
    }
    assert_eq!(permits.store.take(&alices(1, 2), 2, NOW).await.unwrap(), Taken::Held(alices(1, 1)));
    let third = permits.store.take_over(&alices(1, 2), &alices(1, 3), 2, NOW).await.unwrap();
    assert_eq!(third, Taken::Held(alices(1, 1)), "it is another one than the attempt saw");
    for _ in 0..2 {
        let taken = permits.store.take_over(&alices(1, 2), &alices(1, 1), 2, NOW).await.unwrap();
        assert_eq!(taken, Taken::Permit);
    }
    assert_eq!(number_of(&permits.item(&owner("alice")).await, "legs"), 1);
    for _ in 0..3 {
        permits.store.give_back(&alices(1, 1), NOW).await.unwrap();
        assert_eq!(number_of(&permits.item(&owner("alice")).await, "legs"), 1);
    }
    for _ in 0..3 {
        permits.store.give_back(&alices(1, 2), NOW).await.unwrap();
        assert_eq!(number_of(&permits.item(&owner("alice")).await, "legs"), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_workers_at_the_same_time_get_as_many_permits_as_there_are() {
    let permits = Permits::new().await;
    // Ten dead workers have left all permits taken.
    for number in 100..110 {
        let dead = permit(owner("alice"), number, 9, NOW.plus_ms(1));
        permits.store.take(&dead, 10, NOW).await.unwrap();
    }
    for round in 0..3_u64 {
        let (store, now) = (&permits.store, NOW.plus_ms(1 + round * 60_000));
        let of = |worker: usize| permit(owner("alice"), round * 1_000 + worker as u64, 1, now.plus_ms(60_000));
        let taken = at_once(20, |worker| async move { store.take(&of(worker), 3, now).await.unwrap() });
        assert!(taken.iter().all(|taken| !matches!(taken, Taken::Held(_))));
        let got = taken.iter().filter(|taken| **taken == Taken::Permit).count();
        assert!((1..=3).contains(&got), "{got}");
        // Those who were refused because of each other come again.
        for worker in 0..20 {
            store.take(&of(worker), 3, now).await.unwrap();
        }
        assert_eq!(number_of(&permits.item(&owner("alice")).await, "legs"), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_dead_workers_are_cleared_away_in_several_writes() {
    let permits = Permits::new().await;
    for number in 0..100 {
        permits.store.take(&permit(owner("alice"), number, 1, NOW.plus_ms(1)), 100, NOW).await.unwrap();
    }
    let later = NOW.plus_ms(1);
    for number in 200..300 {
        let permit = permit(owner("alice"), number, 2, later.plus_ms(1));
        assert_eq!(permits.store.take(&permit, 100, later).await.unwrap(), Taken::Permit);
    }
    let item = permits.item(&owner("alice")).await;
    assert_eq!((number_of(&item, "legs"), permits_in(&item)), (100, 100));
    let one_more = permit(owner("alice"), 300, 2, later.plus_ms(1));
    assert_eq!(permits.store.take(&one_more, 100, later).await.unwrap(), Taken::Full);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_that_somebody_changed_is_right_again_after_the_next_look() {
    let permits = Permits::new().await;
    permits.store.take(&alices(1, 1), 2, NOW).await.unwrap();
    let update = permits.clients.dynamo.update_item().table_name(&permits.table);
    let update = update.set_key(Some(permits.key(&owner("alice")))).update_expression("SET attempts = :wrong");
    update.expression_attribute_values(":wrong", AttributeValue::N("7".to_owned())).send().await.unwrap();
    assert_eq!(permits.store.take(&alices(2, 1), 2, NOW).await.unwrap(), Taken::Permit);
    assert_eq!(number_of(&permits.item(&owner("alice")).await, "legs"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permit_that_cannot_be_read_is_an_error() {
    let permits = Permits::new().await;
    permits.store.take(&alices(1, 1), 1, NOW).await.unwrap();
    let name = format!("l{}", alices(1, 1).task.id.to_string().replace('-', ""));
    for wrong in [AttributeValue::S("soon".to_owned()), AttributeValue::N("1".to_owned())] {
        let update = permits.clients.dynamo.update_item().table_name(&permits.table);
        let update = update.set_key(Some(permits.key(&owner("alice")))).update_expression("SET #permit = :wrong");
        let update = update.expression_attribute_names("#permit", &name);
        update.expression_attribute_values(":wrong", wrong).send().await.unwrap();
        let refused = permits.store.take(&alices(2, 1), 1, NOW).await;
        assert!(matches!(refused, Err(StoreError::Corrupt(_))), "{refused:?}");
    }
}

#[test]
fn any_order_of_calls_is_answered_as_the_model_answers() {
    permits_answer_as_the_model(24, async || Permits::new().await.store);
}
