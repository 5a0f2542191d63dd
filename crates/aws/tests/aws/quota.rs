//! The count of unfinished tasks: what a refusal costs, and what happens if the count is wrong.

use aws_sdk_dynamodb::types::AttributeValue;
use longhaul_aws::clients::Clients;
use longhaul_aws::{DynamoStore, QuotaMode};
use longhaul_core::ports::{CreateError, Created, NewTask, TaskStore};
use longhaul_core::{Outcome, PartsName, Payload, ResultKind, TaskEvent, Timestamp, WEBHOOK_DELIVERY_TOOL};
use longhaul_testkit::given::{self, NOW, owner};
use longhaul_testkit::{SeededIds, at_once, block_on};

use crate::fresh;
use crate::meter::Meter;

struct Limited {
    store: DynamoStore,
    /// The same table, without a count.
    unlimited: DynamoStore,
    meter: Meter,
    clients: Clients,
    table: String,
    ids: SeededIds,
}

/// The key of alice's count.
fn count_key() -> [AttributeValue; 2] {
    [format!("q#{}", owner("alice")), "-".to_owned()].map(AttributeValue::S)
}

impl Limited {
    async fn new() -> Self {
        let (clients, table) = fresh().await;
        let meter = Meter::default();
        let store = DynamoStore::new(meter.on(&clients.dynamo), &table);
        let unlimited = DynamoStore::new(clients.dynamo.clone(), &table);
        let store = store.with_quota(QuotaMode::Counted);
        Self { store, unlimited, meter, clients, table, ids: SeededIds::new(1) }
    }

    /// Creates one more task of alice, who may have two.
    async fn create(&self) -> Result<Created, CreateError> {
        self.create_at(2, NOW).await
    }

    /// The same at this time, under this limit.
    async fn create_at(&self, open_max: u32, now: Timestamp) -> Result<Created, CreateError> {
        let task = given::task(&self.ids, owner("alice"), now);
        self.store.create(NewTask { open_max, ..given::new(task) }, now).await
    }

    async fn created(&self) -> longhaul_core::Task {
        match self.create().await {
            Ok(Created::New(task)) => task,
            other => panic!("{other:?}"),
        }
    }

    /// Creates one more task of alice, who may create this many in a minute and have any number.
    async fn create_new(&self, store: &DynamoStore, new_max: u32, open_max: u32, now: Timestamp) -> Result<(), u64> {
        let new =
            NewTask { open_max, new_max: Some(new_max), ..given::new(given::task(&self.ids, owner("alice"), now)) };
        match store.create(new, now).await {
            Ok(Created::New(_)) => Ok(()),
            Err(CreateError::TooManyNew { retry_ms, .. }) => Err(retry_ms),
            other => panic!("{other:?}"),
        }
    }

    async fn set_the_count(&self, open: u32) {
        self.set("open", u64::from(open)).await;
    }

    async fn set(&self, attribute: &str, value: u64) {
        let [pk, sk] = count_key();
        let update = self.clients.dynamo.update_item().table_name(&self.table).key("pk", pk).key("sk", sk);
        let update = update.update_expression("SET #name = :value").expression_attribute_names("#name", attribute);
        update.expression_attribute_values(":value", AttributeValue::N(value.to_string())).send().await.unwrap();
    }

    /// The bytes that are counted.
    async fn stored(&self) -> u64 {
        let [pk, sk] = count_key();
        let get = self.clients.dynamo.get_item().table_name(&self.table).key("pk", pk).key("sk", sk);
        let item = get.consistent_read(true).send().await.unwrap().item.unwrap_or_default();
        item.get("stored").map_or(0, |stored| stored.as_n().unwrap().parse().unwrap())
    }

    async fn delete_the_count(&self) {
        let [pk, sk] = count_key();
        let delete = self.clients.dynamo.delete_item().table_name(&self.table).key("pk", pk).key("sk", sk);
        delete.send().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_deliveries_take_no_slot_of_their_owner_also_when_the_tasks_are_counted_one_by_one() {
    let limited = Limited::new().await;
    limited.created().await;
    for _ in 0..3 {
        let webhook_delivery = given::task_with(&limited.ids, owner("alice"), NOW, |record| {
            record.tool = WEBHOOK_DELIVERY_TOOL.to_owned()
        });
        limited.store.create(NewTask { open_max: 2, ..given::new(webhook_delivery) }, NOW).await.unwrap();
    }
    // A count that is too high, so that the next creation counts the tasks.
    limited.set_the_count(2).await;
    let later = NOW.plus_ms(60_000);
    let created = limited.create_at(2, later).await;
    assert!(matches!(created, Ok(Created::New(_))), "{created:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_at_the_limit_costs_one_call_however_many_tasks_there_are() {
    let limited = Limited::new().await;
    limited.created().await;
    limited.created().await;
    limited.meter.calls();
    assert!(matches!(limited.create().await, Err(CreateError::TooManyOpen { open_max: 2 })));
    assert_eq!(limited.meter.names(), ["UpdateItem", "GetItem"], "the count, and whether the call is a retry");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_that_is_too_high_is_corrected_within_a_minute() {
    let limited = Limited::new().await;
    let (first, _second) = (limited.created().await, limited.created().await);
    // The process died between the end and the count: the end was written without the count.
    limited.unlimited.apply(&first.key(), &TaskEvent::Cancel, NOW).await.unwrap();
    assert!(limited.create().await.is_err(), "the tasks were counted by every refusal");
    let later = NOW.plus_ms(60_000);
    let create = async || limited.create_at(2, later).await;
    assert!(matches!(create().await, Ok(Created::New(_))));
    assert!(create().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_that_is_too_low_is_corrected_when_it_is_reached() {
    let limited = Limited::new().await;
    limited.created().await;
    limited.created().await;
    limited.delete_the_count().await;
    let later = NOW.plus_ms(60_000);
    for _ in 0..2 {
        limited.create_at(2, NOW).await.unwrap();
    }
    assert!(limited.create_at(4, later).await.is_ok());
    // Now the count says 3, and 5 is right.
    assert!(limited.create_at(3, later).await.is_err());
    assert!(limited.create_at(5, later).await.is_err());
    assert!(limited.create_at(6, later).await.is_ok());
}

#[test]
fn the_default_limits_cost_half_a_write_unit_for_a_life_on_average() {
    // Counting the new tasks of a minute costs no call more.
    for new_max in [None, Some(10_000)] {
        check_that_a_life_costs_half_a_write_unit(new_max);
    }
}

fn check_that_a_life_costs_half_a_write_unit(new_max: Option<u32>) {
    block_on(async {
        const LIVES: usize = 64;
        let limited = Limited::new().await;
        limited.meter.calls();
        for _ in 0..LIVES {
            let task = given::task(&limited.ids, owner("alice"), NOW);
            let new = NewTask { open_max: 10_000, new_max, ..given::new(task.clone()) };
            limited.store.create(new, NOW).await.unwrap();
            limited.store.apply(&task.key(), &given::claim(1, NOW), NOW).await.unwrap();
            limited.store.apply(&task.key(), &given::finish(1, "{}"), NOW).await.unwrap();
        }
        let names = limited.meter.names();
        let calls = |name: &str| names.iter().filter(|other| *other == name).count();
        println!(
            "{LIVES} lives: {} creations, {} updates, {} reads",
            calls("PutItem"),
            calls("UpdateItem"),
            calls("GetItem")
        );
        assert_eq!(calls("PutItem"), LIVES);
        let counting = calls("UpdateItem") - 2 * LIVES;
        // One in four is counted, twice. At most one in a life is what the limit may cost.
        assert!((LIVES / 4..=LIVES).contains(&counting), "{counting} writes to the count");
        assert_eq!(calls("GetItem"), LIVES - counting / 2, "the others read the count");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_high_limit_is_enforced_by_the_count_for_every_task() {
    let limited = Limited::new().await;
    limited.created().await;
    limited.set_the_count(10_000).await;
    for _ in 0..16 {
        let outcome = limited.create_at(10_000, NOW).await;
        assert!(matches!(outcome, Err(CreateError::TooManyOpen { open_max: 10_000 })), "{outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_ends_even_if_the_count_was_lost() {
    let limited = Limited::new().await;
    let task = limited.created().await;
    limited.delete_the_count().await;
    assert!(limited.store.apply(&task.key(), &TaskEvent::Cancel, NOW).await.unwrap().has_ended());
    // And it does not release a slot that it does not have.
    limited.created().await;
    limited.created().await;
    assert!(limited.create().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_was_never_counted_releases_no_slot() {
    let limited = Limited::new().await;
    let uncounted = given::queued(&limited.unlimited, &limited.ids, owner("alice")).await;
    limited.created().await;
    limited.created().await;
    assert!(limited.store.apply(&uncounted.key(), &TaskEvent::Cancel, NOW).await.unwrap().has_ended());
    assert!(limited.create().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_result_counts_also_for_a_task_that_is_not_counted_itself() {
    let limited = Limited::new().await;
    limited.created().await;
    // One in four tasks is counted under so high a limit, for four.
    for _ in 0..16 {
        let before = limited.stored().await;
        let task = given::task(&limited.ids, owner("alice"), NOW);
        let new = NewTask { open_max: 10_000, ..given::new(task.clone()) };
        limited.store.create(new, NOW).await.unwrap();
        let small = limited.stored().await - before;
        limited.store.apply(&task.key(), &given::claim(1, NOW), NOW).await.unwrap();
        let result = Payload::Parts { name: PartsName::Outcome { attempt: 1 }, count: 1, bytes: 5_000 };
        let outcome = Outcome::Completed { result, kind: ResultKind::Success };
        let finish = TaskEvent::Finish { attempt: 1, outcome, progress: None, labels: None };
        limited.store.apply(&task.key(), &finish, NOW).await.unwrap();
        assert_eq!(limited.stored().await - before, small + 5_000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_bytes_are_forgotten_when_they_expire() {
    let limited = Limited::new().await;
    let create = async |open_max, now, ttl_ms| {
        let task = given::task_with(&limited.ids, owner("alice"), now, |record| {
            record.request = given::inline(&"x".repeat(1_000));
            record.expires_at = now.plus_ms(ttl_ms);
        });
        limited.store.create(NewTask { open_max, stored_max: 2_500, ..given::new(task) }, now).await
    };
    const HOUR_MS: u64 = 3_600_000;
    create(100, NOW, HOUR_MS).await.unwrap();
    create(100, NOW, 1_000 * HOUR_MS).await.unwrap();
    limited.meter.calls();
    let refused = create(100, NOW, HOUR_MS).await;
    assert!(matches!(refused, Err(CreateError::TooMuchStored { stored_max: 2_500 })), "{refused:?}");
    assert_eq!(limited.meter.names(), ["UpdateItem", "GetItem"], "a refusal reads no tasks");
    let later = NOW.plus_ms(2 * HOUR_MS);
    create(100, later, HOUR_MS).await.unwrap();
    assert!(create(100, later, HOUR_MS).await.is_err(), "the second one has not expired");
    // Also for a task that is not counted itself, under a high limit.
    let mut refused = 0;
    for _ in 0..16 {
        refused += u32::from(create(10_000, later, HOUR_MS).await.is_err());
    }
    assert_eq!(refused, 16);
    let much_later = NOW.plus_ms(2_000 * HOUR_MS);
    assert!(create(100, much_later, HOUR_MS).await.is_ok() && create(100, much_later, HOUR_MS).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn counting_new_tasks_costs_no_call_and_a_new_minute_one() {
    let limited = Limited::new().await;
    for open_max in [1_000, 10_000] {
        limited.delete_the_count().await;
        limited.meter.calls();
        for _ in 0..2 {
            limited.create_new(&limited.store, 2, open_max, NOW).await.unwrap();
            assert_eq!(limited.meter.names(), ["UpdateItem", "PutItem"], "the count, which is exact, and the task");
        }
        assert_eq!(limited.create_new(&limited.store, 2, open_max, NOW.plus_ms(1_000)).await, Err(59_000));
        assert_eq!(limited.meter.names(), ["UpdateItem", "GetItem"], "the count, and whether the call is a retry");
        let later = NOW.plus_ms(60_000);
        limited.create_new(&limited.store, 2, open_max, later).await.unwrap();
        assert_eq!(limited.meter.names(), ["UpdateItem", "UpdateItem", "PutItem"], "one more for a whole minute");
        limited.create_new(&limited.store, 2, open_max, later).await.unwrap();
        assert_eq!(limited.meter.names(), ["UpdateItem", "PutItem"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_just_fits_is_refused_for_the_minute_only() {
    let limited = Limited::new().await;
    let create = async |now| {
        let text = given::inline(&"x".repeat(1_000));
        let task = given::task_with(&limited.ids, owner("alice"), now, |record| record.request = text);
        let new = NewTask { open_max: 100, stored_max: 2_000, new_max: Some(1), ..given::new(task) };
        limited.store.create(new, now).await
    };
    create(NOW).await.unwrap();
    let refused = create(NOW).await;
    assert!(matches!(refused, Err(CreateError::TooManyNew { retry_ms: 60_000, .. })), "{refused:?}");
    create(NOW.plus_ms(60_000)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_expires_late_does_not_put_off_the_next_count() {
    let limited = Limited::new().await;
    let create = async |after_ms, ttl_ms| {
        let now = NOW.plus_ms(after_ms);
        let task = given::task_with(&limited.ids, owner("alice"), now, |record| {
            record.expires_at = now.plus_ms(ttl_ms);
        });
        let new = NewTask { open_max: 2, new_max: Some(1), ..given::new(task) };
        limited.store.create(new, now).await
    };
    create(0, 90_000).await.unwrap();
    // In a new minute, which takes two tries.
    create(60_000, 7_200_000).await.unwrap();
    // The first one has expired.
    create(120_000, 7_200_000).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_of_new_tasks_that_is_wrong_is_right_again_after_a_minute() {
    let limited = Limited::new().await;
    limited.create_new(&limited.store, 2, 1_000, NOW).await.unwrap();
    // Creations that died between the count and the task, or were counted twice.
    limited.set("new", 1_000_000).await;
    assert_eq!(limited.create_new(&limited.store, 2, 1_000, NOW.plus_ms(59_999)).await, Err(1));
    let later = NOW.plus_ms(60_000);
    for _ in 0..2 {
        limited.create_new(&limited.store, 2, 1_000, later).await.unwrap();
    }
    assert_eq!(limited.create_new(&limited.store, 2, 1_000, later).await, Err(60_000));
    // The window of a clock that was set back since.
    limited.set("new_since", u64::MAX).await;
    limited.create_new(&limited.store, 2, 1_000, later).await.unwrap();
    limited.delete_the_count().await;
    limited.create_new(&limited.store, 2, 1_000, later).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_instances_create_no_more_new_tasks_together_than_one() {
    let limited = &Limited::new().await;
    let instances: &Vec<DynamoStore> = &(0..4).map(|_| limited.store.clone()).collect();
    for (minute, open_max) in [(0, 1_000), (1, 10_000), (2, 10_000)] {
        let now = NOW.plus_ms(minute * 60_000);
        let created =
            at_once(
                32,
                |number| async move { limited.create_new(&instances[number % 4], 10, open_max, now).await.is_ok() },
            );
        assert_eq!(created.into_iter().filter(|created| *created).count(), 10, "in minute {minute}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_high_limit_of_new_tasks_refuses_also_those_that_are_not_counted() {
    let limited = Limited::new().await;
    limited.create_new(&limited.store, 10_000, 1_000, NOW).await.unwrap();
    limited.set("new", 10_000).await;
    for _ in 0..16 {
        assert_eq!(limited.create_new(&limited.store, 10_000, 10_000, NOW).await, Err(60_000));
    }
    for _ in 0..16 {
        limited.create_new(&limited.store, 10_000, 10_000, NOW.plus_ms(60_000)).await.unwrap();
    }
}
