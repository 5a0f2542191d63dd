//! The worker's program, invoked with records of the table's stream: tasks that no worker has taken.

use std::sync::Arc;

use longhaul_aws::StreamEvent;
use longhaul_core::{Clock, TaskKey};
use longhaul_lambda::{DeadLetters, Worker};
use longhaul_testkit::{SeededIds, given};
use serde_json::{Value, json};

use crate::working::Scripted;
use crate::world::{Asked, World};

fn worker(world: &World) -> Worker {
    let dead_letters = DeadLetters::new(Arc::clone(&world.dead_letters) as _, "https://sqs/1/dead");
    Worker::new(world.engine.clone(), Arc::<Scripted>::default(), dead_letters, 1)
}

fn key(number: u64) -> TaskKey {
    let id = longhaul_core::IdSource::task_id(&SeededIds::new(number), given::NOW);
    TaskKey::new(given::owner("alice"), id)
}

/// A record as Lambda hands it over: the item of a task that waits for a worker.
fn record(key: &TaskKey) -> Value {
    let text = |text: &str| json!({"S": text});
    let number = |number: u64| json!({"N": number.to_string()});
    json!({
        "eventName": "INSERT",
        "eventSource": "aws:dynamodb",
        "eventSourceARN": "arn:aws:dynamodb:us-east-1:111122223333:table/tasks/stream/2026-11-23T00:00:00.000",
        "dynamodb": {
            "SequenceNumber": key.id.to_string(),
            "NewImage": {
                "pk": text(&format!("o#{}#{:x}", key.owner, key.id.shard(16))), "sk": text(&key.id.to_string()),
                "tool": text("completes"), "state": text("queued"), "attempt": number(0), "failures": number(0),
                "ttl_ms": number(1), "keep_ms": number(1), "run_ms": number(1), "consecutive_failures_max": number(1),
                "created_at": number(1), "updated_at": number(1), "sent_at": number(1), "expires_at": number(1),
                "request": text("{}"), "rev": number(1), "revision": number(1),
            },
        },
    })
}

async fn answer(world: &World, records: &[Value]) -> Value {
    let event: StreamEvent = serde_json::from_value(json!({"Records": records})).unwrap();
    serde_json::to_value(worker(world).see_to(&event).await).unwrap()
}

fn failures(of: &[&str]) -> Value {
    let failures: Vec<_> = of.iter().map(|number| json!({"itemIdentifier": number})).collect();
    json!({"batchItemFailures": failures})
}

fn sent(world: &World) -> usize {
    world.queue.asked().iter().filter(|asked| matches!(asked, Asked::Send { .. })).count()
}

#[tokio::test]
async fn a_task_that_nobody_took_gets_a_message_and_one_that_was_taken_gets_none() {
    let world = World::new();
    let (unclaimed, claimed, gone) = (key(1), key(2), key(3));
    world.accepted(unclaimed, "completes").await;
    world
        .accepted_with(claimed, |record| {
            record.state = longhaul_core::State::Sleeping { until: given::NOW.plus_ms(3_600_000) };
            record.attempt = 1;
        })
        .await;
    world.clock.advance_ms(60_000);
    let records = [unclaimed, claimed, gone].map(|key| record(&key));
    assert_eq!(answer(&world, &records).await, failures(&[]));
    let asked = world.queue.asked();
    assert!(matches!(&asked[..], [Asked::Send { task, .. }] if *task == unclaimed.id), "{asked:?}");
    let task = world.task(&unclaimed).await;
    assert_eq!((task.resends, task.sent_at), (1, world.clock.now()));
}

#[tokio::test]
async fn a_call_that_starts_later_gets_a_message_for_its_start() {
    let world = World::new();
    let start = given::NOW.plus_ms(300_000);
    world.accepted_with(key(1), |record| record.state = longhaul_core::State::Sleeping { until: start }).await;
    let mut new = record(&key(1));
    new["dynamodb"]["NewImage"]["state"] = json!({"S": "sleeping"});
    new["dynamodb"]["NewImage"]["until"] = json!({"N": start.as_ms().to_string()});
    assert_eq!(answer(&world, &[new]).await, failures(&[]));
    assert_eq!(sent(&world), 1);
    assert_eq!(world.task(&key(1)).await.sent_at, start.plus_ms(world.engine.settings().resend_ms));
}

#[tokio::test]
async fn a_record_that_comes_again_and_one_that_is_there_twice_send_one_message_per_limit() {
    let world = World::new();
    world.accepted(key(1), "completes").await;
    world.clock.advance_ms(60_000);
    let twice = [record(&key(1)), record(&key(1))];
    assert_eq!(answer(&world, &twice).await, failures(&[]));
    assert_eq!(sent(&world), 1);
    let before = world.task(&key(1)).await;
    assert_eq!(answer(&world, &twice[..1]).await, failures(&[]));
    let after = world.task(&key(1)).await;
    assert_eq!(after.sent_at.since_ms(before.sent_at), world.engine.settings().resend_after_ms(1));
}

#[tokio::test]
async fn a_record_that_cannot_be_read_keeps_no_other_from_its_message() {
    let world = World::new();
    world.accepted(key(2), "completes").await;
    world.clock.advance_ms(60_000);
    let mut broken = record(&key(1));
    broken["dynamodb"]["NewImage"]["tool"] = json!({"S": 7});
    let mut newer = record(&key(3));
    newer["dynamodb"]["NewImage"]["format"] = json!({"N": "999"});
    let of_another_shape = json!({"eventSource": "aws:dynamodb", "dynamodb": 7});
    let records = [broken, newer, of_another_shape, record(&key(2))];
    assert_eq!(answer(&world, &records).await, failures(&[]), "none holds up its shard");
    assert_eq!(sent(&world), 1);
}
