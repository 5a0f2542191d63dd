//! The limit of running attempts per owner, over all workers: it holds while workers are killed, others get through,
//! and every task ends.

use std::collections::HashSet;
use std::time::Duration;

use harness::caller::{Caller, structured};
use harness::runtime_host::Idle;
use harness::runtime_host::front_door::Mode;
use harness::runtime_host::mapping::Worker;
use serde_json::{Value, json};

use super::ground::Resources;
use super::inside::{messages_in, until};
use super::process::key_of;

const ATTEMPTS_MAX: usize = 2;

fn limited_worker(resources: &Resources) -> Worker {
    let mut mapping = resources.mapping(None);
    mapping.env.push(("LONGHAUL_OWNER_CONCURRENCY".to_owned(), ATTEMPTS_MAX.to_string()));
    Worker::start(mapping, Idle::Frozen)
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
    let workers: Vec<Worker> = (0..4).map(|_| limited_worker(&resources)).collect();
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
