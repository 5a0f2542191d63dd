//! The limit of running attempts per owner, over all workers: it holds while workers are killed, others get through,
//! and every task ends.

use std::collections::HashSet;
use std::time::Duration;

use harness::caller::{Caller, structured};
use harness::gate::{Call, Gate};
use harness::runtime_host::Idle;
use harness::runtime_host::front_door::Mode;
use harness::runtime_host::mapping::Worker;
use serde_json::{Value, json};

use super::ground::Resources;
use super::inside::{messages_in, until};
use super::process::{endpoint, key_of};

/// How the item of an owner's permits is named in a call.
const ITS_KEY: &str = r#""sk":{"S":"legs"}"#;

/// The same of the item of an owner's counts, in which the end of one task in four is counted, for all.
const OF_COUNTS: &str = r#""sk":{"S":"-"}"#;

/// What only writes of heartbeats and progress mention.
const OF_PROGRESS: &str = "heard_at";

const ATTEMPTS_MAX: usize = 2;

fn limited_worker(resources: &Resources, gate: Option<&Gate>, attempts_max: Option<usize>) -> Worker {
    let mut mapping = resources.mapping(gate);
    if let Some(attempts_max) = attempts_max {
        mapping.env.push(("LONGHAUL_OWNER_CONCURRENCY".to_owned(), attempts_max.to_string()));
    }
    Worker::start(mapping, Idle::Frozen)
}

#[tokio::test]
async fn an_attempt_costs_two_writes_more_if_attempts_are_limited_and_none_if_they_are_not() {
    let mut writes = Vec::new();
    for attempts_max in [None, Some(ATTEMPTS_MAX)] {
        let (resources, gate) = (Resources::new().await, Gate::open(endpoint()).await);
        let frontend = resources.frontend(Mode::Buffered).await;
        let caller = Caller::new(frontend.url());
        let _worker = limited_worker(&resources, Some(&gate), attempts_max);
        let id = caller.call_task("countdown", json!({"seconds": 0, "steps": 2})).await;
        caller.until(&id, "completed").await;
        // The message is deleted when the permit has been given back.
        until("the queue is empty", async || messages_in(&resources.clients, &resources.queue_url).await == 0).await;
        assert_eq!(gate.calls_of("UpdateItem", ITS_KEY), if attempts_max.is_some() { 2 } else { 0 });
        assert_eq!(gate.calls().iter().filter(|call| call.body.contains(ITS_KEY)).count(), writes.len() * 2);
        let is_write = |operation: &str| ["UpdateItem", "PutItem"].contains(&operation);
        // Whether progress is written apart from the end depends on how long the attempt takes.
        let is_left_out = |body: &str| [OF_PROGRESS, OF_COUNTS].iter().any(|what| body.contains(what));
        let is_counted = |call: &&Call| is_write(&call.operation) && !is_left_out(&call.body);
        writes.push(gate.calls().iter().filter(is_counted).count());
    }
    assert_eq!(writes[1], writes[0] + 2);
}

/// The tasks of an owner that run now.
async fn running(resources: &Resources, ids: &[String]) -> HashSet<String> {
    let scanned =
        resources.clients.dynamo.scan().table_name(&resources.table).consistent_read(true).send().await.unwrap();
    let runs = |id: &&String| {
        let id = key_of(id).id.to_string();
        scanned.items().iter().any(|item| {
            item["sk"].as_s().is_ok_and(|sk| *sk == id)
                && item.get("state").is_some_and(|state| state.as_s().is_ok_and(|state| state == "running"))
        })
    };
    ids.iter().filter(runs).cloned().collect()
}

async fn call_tasks(caller: &Caller, count: usize, arguments: &Value) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(caller.call_task("countdown", arguments.clone()).await);
    }
    ids
}

#[tokio::test]
async fn the_tasks_of_one_owner_take_turns_while_those_of_another_get_through_and_a_worker_dies() {
    let resources = Resources::new().await;
    let anns = resources.frontend(Mode::Buffered).await;
    let bobs = resources.frontend_with(Mode::Buffered, &[("LONGHAUL_AUTH", "iam")]).await;
    let (ann, bob) = (Caller::new(anns.url()), Caller::new(bobs.url()));
    let workers: Vec<Worker> = (0..4).map(|_| limited_worker(&resources, None, Some(ATTEMPTS_MAX))).collect();
    let ids = call_tasks(&ann, 6, &json!({"seconds": 3, "steps": 6})).await;
    let watch = async {
        let (mut most, mut seen) = (0, HashSet::new());
        while seen.len() < ids.len() {
            let running = running(&resources, &ids).await;
            most = most.max(running.len());
            seen.extend(running);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        most
    };
    let others = async {
        until("two of Ann's run", async || running(&resources, &ids).await.len() == ATTEMPTS_MAX).await;
        // Both of her permits are taken, and workers are free.
        let id = bob.call_task("countdown", json!({"seconds": 0, "steps": 1})).await;
        let done = bob.until(&id, "completed").await;
        assert_eq!(structured(&done["result"])["attempts"], 1);
        let left = running(&resources, &ids).await.len();
        // One of the workers that have a permit dies, and one that has none may die too.
        for worker in &workers[..2] {
            worker.sandbox().await.kill().await;
        }
        left
    };
    let (most, _left) = tokio::join!(watch, others);
    assert_eq!(most, ATTEMPTS_MAX, "no more than that, and no fewer");
    let mut attempts = Vec::new();
    for id in &ids {
        let done = ann.until(id, "completed").await;
        assert_eq!(structured(&done["result"])["steps"], 6);
        attempts.push(structured(&done["result"])["attempts"].as_u64().unwrap());
    }
    assert!(attempts.iter().all(|attempts| *attempts <= 3), "waiting is no attempt: {attempts:?}");
    assert_eq!(messages_in(&resources.clients, &resources.dead_letter_url).await, 0);
}

#[tokio::test]
async fn the_permit_of_a_killed_worker_goes_to_the_next_attempt_of_its_task() {
    let resources = Resources::new().await;
    let frontend = resources.frontend(Mode::Buffered).await;
    let caller = Caller::new(frontend.url());
    let worker = limited_worker(&resources, None, Some(1));
    let first = caller.call_task("countdown", json!({"seconds": 3, "steps": 6})).await;
    caller.until_it(&first, "a step", |task| task["statusMessage"].is_string()).await;
    let second = caller.call_task("countdown", json!({"seconds": 0, "steps": 1})).await;
    worker.sandbox().await.kill().await;
    let done = caller.until(&first, "completed").await;
    assert_eq!(structured(&done["result"])["attempts"], 2);
    let done = caller.until(&second, "completed").await;
    assert_eq!(structured(&done["result"])["attempts"], 1, "it waited, and was not claimed meanwhile");
}
