//! The worker function: SQS events in, the failed records out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use aws_lambda_events::sqs::SqsEvent;
use longhaul_aws::read_message;
use longhaul_core::{Admission, Clock, ResultKind, State, Status, TaskEvent, TaskKey};
use longhaul_engine::{Attempt, AttemptEnd, AttemptLimit, ToolRunner};
use longhaul_lambda::{DeadLetters, Worker};
use longhaul_testkit::FakePermits;
use serde_json::{Value, json};
use tokio::sync::{Barrier, Semaphore};

use super::dead_letters::given_token;
use crate::world::{Asked, Spy, World, event};

/// Longer than any test.
pub(super) const LONG_MS: u64 = 900_000;

/// How many attempts have to run concurrently before one of a tool that "meets" ends.
const MEETING: usize = 3;

/// Runs each task as its tool's name says.
pub(crate) struct Scripted {
    pub(super) running: AtomicUsize,
    pub(super) running_max: AtomicUsize,
    pub(super) meeting: Barrier,
    pub(super) pair: Barrier,
    /// Opens for attempts whose tool is "held".
    pub(super) gate: Semaphore,
}

impl Default for Scripted {
    fn default() -> Self {
        let [running, running_max] = [0, 0].map(AtomicUsize::new);
        Self { running, running_max, meeting: Barrier::new(MEETING), pair: Barrier::new(2), gate: Semaphore::new(0) }
    }
}

fn completed() -> AttemptEnd {
    AttemptEnd::Completed { result: "{}".to_owned(), kind: ResultKind::Success }
}

#[async_trait]
impl ToolRunner for Scripted {
    async fn run(&self, attempt: Attempt) -> AttemptEnd {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.running_max.fetch_max(running, Ordering::SeqCst);
        let end = match attempt.task().tool.as_str() {
            "panics" => panic!("the runner itself panics"),
            "hangs" => std::future::pending().await,
            "meets" => {
                self.meeting.wait().await;
                completed()
            }
            "pairs" => {
                self.pair.wait().await;
                completed()
            }
            "held" => {
                self.gate.acquire().await.unwrap().forget();
                completed()
            }
            _ => {
                tokio::task::yield_now().await;
                completed()
            }
        };
        self.running.fetch_sub(1, Ordering::SeqCst);
        end
    }
}

pub(super) fn worker(world: &World, runner: &Arc<Scripted>, concurrency: usize) -> Worker {
    let dead_letters = DeadLetters::new(
        Arc::clone(&world.dead_letters) as _,
        "https://sqs.us-east-1.amazonaws.com/111122223333/longhaul-dead-letters",
    );
    Worker::new(world.engine.clone(), Arc::clone(runner) as _, dead_letters, concurrency)
}

/// The function's answer, as Lambda gets it.
pub(super) async fn answer(worker: &Worker, event: &Value, deadline_in_ms: u64, world: &World) -> Value {
    let event: SqsEvent = serde_json::from_value(event.clone()).unwrap();
    let deadline = world.clock.now().plus_ms(deadline_in_ms);
    serde_json::to_value(worker.run_batch(event, deadline).await).unwrap()
}

/// The tasks that an event's records name; `None` for records that cannot be read.
pub(super) fn keys(event: &Value) -> Vec<Option<TaskKey>> {
    let records = event["Records"].as_array().unwrap().iter();
    records.map(|record| read_message(record["body"].as_str().unwrap(), None).ok().map(|read| read.task)).collect()
}

pub(super) fn message_id(event: &Value, record: usize) -> Value {
    event["Records"][record]["messageId"].clone()
}

pub(super) fn receipt(event: &Value, record: usize) -> String {
    event["Records"][record]["receiptHandle"].as_str().unwrap().to_owned()
}

pub(super) fn failed(ids: &[Value]) -> Value {
    let failures: Vec<_> = ids.iter().map(|id| json!({"itemIdentifier": id})).collect();
    json!({"batchItemFailures": failures})
}

/// A batch of messages of tasks of this tool.
async fn batch_of(tool: &str) -> (World, Arc<Scripted>, Value) {
    let (world, event) = (World::new(), event("worker-batch"));
    for key in keys(&event).into_iter().flatten() {
        world.accepted(key, tool).await;
    }
    (world, Arc::default(), event)
}

#[tokio::test]
async fn a_batch_of_finished_attempts_has_no_failures() {
    let (world, runner, event) = batch_of("completes").await;
    assert_eq!(answer(&worker(&world, &runner, 3), &event, LONG_MS, &world).await, failed(&[]));
    for key in keys(&event).into_iter().flatten() {
        assert_eq!(world.task(&key).await.status(), Status::Completed);
    }
}

#[tokio::test]
async fn as_many_attempts_of_a_batch_run_concurrently_as_the_setting_allows() {
    for (tool, concurrency) in [("meets", MEETING), ("completes", 1)] {
        let (world, runner, event) = batch_of(tool).await;
        assert_eq!(answer(&worker(&world, &runner, concurrency), &event, LONG_MS, &world).await, failed(&[]));
        assert_eq!(runner.running_max.load(Ordering::SeqCst), concurrency);
    }
}

/// A world in which an owner may run so many attempts at a time.
fn limited(attempts_max: u32) -> World {
    let mut world = World::new();
    world.engine = world.engine.clone().limited_by(AttemptLimit::new(Arc::<FakePermits>::default(), attempts_max));
    world
}

#[tokio::test]
async fn of_a_batch_of_one_owner_as_many_attempts_run_as_it_may_have_and_the_rest_is_sent_again() {
    let (world, runner, event) = (limited(2), Arc::<Scripted>::default(), event("worker-batch"));
    let keys: Vec<TaskKey> = keys(&event).into_iter().flatten().collect();
    for key in &keys {
        world.accepted(*key, "held").await;
    }
    let worker = worker(&world, &runner, 3);
    // No attempt gives back its permit before two of them run, and one delivery had to wait for a third permit.
    let is_full = || {
        let waits = world.queue.asked().iter().any(|asked| matches!(asked, Asked::Send { .. }));
        waits && runner.running.load(Ordering::SeqCst) == 2
    };
    let open_gate = async {
        let mut turns = 0;
        while !is_full() && turns < 100_000 {
            turns += 1;
            tokio::task::yield_now().await;
        }
        runner.gate.add_permits(keys.len());
    };
    let (answered, ()) = tokio::join!(answer(&worker, &event, LONG_MS, &world), open_gate);
    assert_eq!(answered, failed(&[]), "waiting is not a failed delivery");
    assert_eq!(runner.running_max.load(Ordering::SeqCst), 2);
    let mut waiting = Vec::new();
    for (record, key) in keys.iter().enumerate() {
        let asked = world.queue.asked();
        let is_sent = |asked: &Asked| matches!(asked, Asked::Send { task, .. } if *task == key.id);
        let sent = asked.iter().position(is_sent);
        let deleted = asked.iter().position(|asked| *asked == Asked::Delete { receipt: receipt(&event, record) });
        let Some(sent) = sent else { continue };
        assert!(deleted.is_none_or(|deleted| sent < deleted), "at any time there is a message: {asked:?}");
        assert_eq!(world.task(key).await.attempt, 0, "it was not claimed");
        waiting.push(record);
    }
    let [record] = waiting[..] else { panic!("{waiting:?} wait") };
    let mut again = event.clone();
    again["Records"] = json!([event["Records"][record]]);
    assert_eq!(answer(&worker, &again, LONG_MS, &world).await, failed(&[]));
    for key in &keys {
        assert_eq!(world.task(key).await.status(), Status::Completed);
    }
}

#[tokio::test]
async fn a_panic_does_not_keep_the_place_of_its_attempt() {
    let (world, runner, event) = (limited(1), Arc::default(), event("worker-batch"));
    let keys: Vec<TaskKey> = keys(&event).into_iter().flatten().collect();
    for (key, tool) in keys.iter().zip(["panics", "completes", "completes"]) {
        world.accepted(*key, tool).await;
    }
    // One after the other.
    assert_eq!(answer(&worker(&world, &runner, 1), &event, LONG_MS, &world).await, failed(&[message_id(&event, 0)]));
    assert_eq!(world.task(&keys[1]).await.status(), Status::Completed);
    assert_eq!(world.task(&keys[2]).await.status(), Status::Completed);
}

#[tokio::test]
async fn a_record_that_comes_twice_takes_one_place() {
    let (world, runner, event) = (limited(2), Arc::<Scripted>::default(), event("worker-batch"));
    let keys: Vec<TaskKey> = keys(&event).into_iter().flatten().collect();
    for key in &keys {
        world.accepted(*key, "pairs").await;
    }
    let mut twice = event.clone();
    twice["Records"] = json!([event["Records"][0], event["Records"][0], event["Records"][1]]);
    answer(&worker(&world, &runner, 3), &twice, LONG_MS, &world).await;
    assert_eq!(runner.running_max.load(Ordering::SeqCst), 2, "the second place is the other task's");
    assert_eq!(world.task(&keys[0]).await.status(), Status::Completed);
    assert_eq!(world.task(&keys[1]).await.status(), Status::Completed);
}

#[tokio::test]
async fn a_message_is_hidden_for_one_lease_as_soon_as_it_arrives() {
    let (world, runner, event) = (World::new(), Arc::default(), event("worker-batch"));
    answer(&worker(&world, &runner, 1), &event, LONG_MS, &world).await;
    let lease_ms = world.engine.settings().lease_ms;
    for record in 0..3 {
        assert_eq!(world.queue.extensions_of(&receipt(&event, record)).first(), Some(&lease_ms), "record {record}");
    }
}

#[tokio::test]
async fn finished_messages_are_deleted_while_the_rest_of_the_batch_runs() {
    let (world, runner, event) = (World::new(), Arc::default(), event("worker-batch"));
    answer(&worker(&world, &runner, 3), &event, LONG_MS, &world).await;
    let deleted = world.queue.asked().into_iter().filter(|asked| matches!(asked, Asked::Delete { .. })).count();
    assert_eq!(deleted, 2, "SQS deletes the last one when the function answers");
}

/// The queue of a class has its own receipts: a message is hidden and deleted where it came from.
#[tokio::test]
async fn what_comes_from_the_queue_of_a_class_is_handled_there() {
    let (world, runner, mut event) = (World::new(), Arc::default(), event("worker-batch"));
    let of_class = Arc::new(Spy::default());
    for record in event["Records"].as_array_mut().unwrap() {
        record["eventSourceARN"] = json!("arn:aws:sqs:us-east-1:111122223333:longhaul-heavy");
    }
    for key in keys(&event).into_iter().flatten() {
        world.accepted(key, "completes").await;
    }
    let url = "https://sqs.us-east-1.amazonaws.com/111122223333/longhaul-heavy";
    let worker = worker(&world, &runner, 3).and_takes_from(url, Arc::clone(&of_class) as _);
    assert_eq!(answer(&worker, &event, LONG_MS, &world).await, failed(&[]));
    assert_eq!(world.queue.asked(), []);
    let deleted = of_class.asked().into_iter().filter(|asked| matches!(asked, Asked::Delete { .. })).count();
    assert_eq!(deleted, 2, "SQS deletes the last one when the function answers");
    assert!(!of_class.extensions_of(&receipt(&event, 0)).is_empty());
}

#[tokio::test]
async fn a_record_that_cannot_be_read_fails_alone_and_is_not_deleted() {
    let (world, runner, event) = (World::new(), Arc::default(), event("worker-poison"));
    for key in keys(&event).into_iter().flatten() {
        world.accepted(key, "completes").await;
    }
    assert_eq!(answer(&worker(&world, &runner, 3), &event, LONG_MS, &world).await, failed(&[message_id(&event, 1)]));
    assert!(!world.queue.asked().contains(&Asked::Delete { receipt: receipt(&event, 1) }));
    for key in keys(&event).into_iter().flatten() {
        assert_eq!(world.task(&key).await.status(), Status::Completed);
    }
}

#[tokio::test]
async fn a_panic_fails_its_own_record_only() {
    let (world, runner, event) = (World::new(), Arc::default(), event("worker-batch"));
    for (key, tool) in keys(&event).into_iter().flatten().zip(["completes", "panics", "completes"]) {
        world.accepted(key, tool).await;
    }
    assert_eq!(answer(&worker(&world, &runner, 3), &event, LONG_MS, &world).await, failed(&[message_id(&event, 1)]));
}

#[tokio::test]
async fn a_message_of_a_task_that_another_worker_holds_is_hidden_until_the_lease_ends() {
    let (world, runner, event) = (World::new(), Arc::default(), event("worker-batch"));
    let key = keys(&event)[0].unwrap();
    world.accepted(key, "completes").await;
    let claim = TaskEvent::Claim {
        token: given_token(),
        lease_until: world.clock.now().plus_ms(12_345),
        admission: Admission::Free,
    };
    world.store.apply(&key, &claim, world.clock.now()).await.unwrap();
    assert_eq!(answer(&worker(&world, &runner, 3), &event, LONG_MS, &world).await, failed(&[message_id(&event, 0)]));
    assert_eq!(world.queue.extensions_of(&receipt(&event, 0)).last(), Some(&12_345));
}

#[tokio::test]
async fn an_attempt_ends_before_the_function_does() {
    let (world, runner, event) = (World::new(), Arc::default(), event("worker-batch"));
    let key = keys(&event)[0].unwrap();
    world.accepted(key, "hangs").await;
    let deadline = world.clock.now().plus_ms(20_000);
    let worker = worker(&world, &runner, 3);
    let batch = answer(&worker, &event, 20_000, &world);
    let time_passes = async {
        loop {
            tokio::task::yield_now().await;
            world.clock.next_wake().into_iter().for_each(|moment| world.clock.advance_to(moment));
        }
    };
    let answered = tokio::select! {
        answered = batch => answered,
        () = time_passes => unreachable!("time passes for ever"),
    };
    assert!(world.clock.now() < deadline, "there was time left to record it");
    assert_eq!(answered, failed(&[]), "the next attempt has a message of its own");
    assert!(matches!(world.task(&key).await.state, State::Sleeping { .. }), "it will be retried");
}

#[tokio::test]
async fn a_deadline_in_the_past_is_ignored() {
    let (world, runner, event) = (World::new(), Arc::default(), event("worker-batch"));
    let key = keys(&event)[0].unwrap();
    world.accepted(key, "completes").await;
    let worker = worker(&world, &runner, 3);
    let constant = longhaul_core::Timestamp::from_ms(600_000);
    worker.run_batch(serde_json::from_value(event.clone()).unwrap(), constant).await;
    assert_eq!(world.task(&key).await.status(), Status::Completed);
}
