//! Schedules, callbacks and calls that start later, on functions that are killed around the times that count.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use harness::approval::{ENDED, counted, post, send_first, token_of};
use harness::caller::structured;
use serde_json::json;

use super::ground::Resources;
use super::inside::{messages_in, until};
use super::process::Setup;
use super::programs::CONFORMANCE;

const MINUTE_MS: u64 = 60_000;

fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

async fn until_moment(moment_ms: u64) {
    tokio::time::sleep(Duration::from_millis(moment_ms.saturating_sub(now_ms()))).await;
}

/// The times of which each tool has a task in the table, oldest first.
async fn times(clients: &longhaul_aws::clients::Clients, table: &str) -> BTreeMap<String, Vec<u64>> {
    let scanned = clients.dynamo.scan().table_name(table).consistent_read(true).send().await.unwrap();
    let mut times: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for item in scanned.items().iter().filter(|item| item["pk"].as_s().unwrap().starts_with("o#")) {
        let Some(tool) = item.get("tool") else { continue };
        let id = item["sk"].as_s().unwrap().replace('-', "");
        // A version 7 UUID begins with its time: here, that of the schedule.
        let time_ms = u64::from_str_radix(&id[..12], 16).unwrap();
        times.entry(tool.as_s().unwrap().clone()).or_default().push(time_ms);
    }
    times.values_mut().for_each(|times| times.sort_unstable());
    times
}

/// The message that EventBridge Scheduler sends every minute.
async fn tick(resources: &Resources) {
    let body = json!({"lookAtSchedules": "now"}).to_string();
    let send = resources.clients.sqs.send_message().queue_url(&resources.queue_url).message_body(body);
    send.send().await.unwrap();
}

/// Waits until the tasks of `time_ms` are in the table.
async fn until_made(resources: &Resources, time_ms: u64) {
    until("the tasks are made", async || {
        let times = times(&resources.clients, &resources.table).await;
        ["slow_compute", "eager"].iter().all(|tool| times.get(*tool).is_some_and(|times| times.contains(&time_ms)))
    })
    .await;
}

#[tokio::test]
async fn ticks_that_come_twice_late_or_to_workers_that_die_make_one_task_for_each_time() {
    let resources = Resources::of(&CONFORMANCE).await;
    let worker = resources.worker(None);
    tick(&resources).await;
    until("the first tick is handled", async || messages_in(&resources.clients, &resources.queue_url).await == 0).await;
    let first_ms = now_ms().next_multiple_of(MINUTE_MS);
    assert!(times(&resources.clients, &resources.table).await.is_empty(), "nothing begins in the past");
    let other = resources.worker(None);
    drop(other.sandbox().await);
    until_moment(first_ms + 50).await;
    for _ in 0..4 {
        tick(&resources).await;
    }
    tokio::time::sleep(Duration::from_millis(150)).await;
    worker.sandbox().await.kill().await;
    until_made(&resources, first_ms).await;
    // No tick comes for a while: the first one that does catches up on the latest time.
    let second_ms = first_ms + MINUTE_MS;
    until_moment(second_ms + 5_000).await;
    tick(&resources).await;
    tick(&resources).await;
    until_made(&resources, second_ms).await;
    tick(&resources).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let times = times(&resources.clients, &resources.table).await;
    assert_eq!(times["slow_compute"], [first_ms, second_ms]);
    assert_eq!(times["eager"], [first_ms, second_ms], "these run side by side");
    assert_eq!(times["patient"], [first_ms], "the second is left out, because the first has not ended");
}

#[tokio::test]
async fn a_callback_survives_the_death_of_the_functions_before_while_and_after_it_is_sent() {
    let setup = Setup::of(&CONFORMANCE, &[]);
    let (caller, base) = (setup.start().caller(), setup.start().url().trim_end_matches("/mcp").to_owned());
    for round in 0..4_u64 {
        let id = caller.call_task("approval", json!({})).await;
        let url = format!("{base}/callbacks/{}", token_of(&caller, &id).await);
        setup.kill_all_of("WorkerFunction");
        let sending = send_first(&url);
        // In the first round the answer is waited for.
        if round > 0 {
            tokio::time::sleep(Duration::from_millis(4 * round)).await;
            setup.kill_all_of("ApiFunction");
        }
        let first = sending.await.unwrap();
        setup.kill_all_of("WorkerFunction");
        let mut second = post(&url, &json!("second")).await;
        while second.is_none() {
            second = post(&url, &json!("second")).await;
        }
        let result = structured(&caller.until(&id, "completed").await["result"]);
        assert_eq!(result, json!({"decision": counted(first, second), "noted": 1}), "round {round}");
        assert_eq!(post(&url, &json!("third")).await, Some(ENDED));
    }
}

#[tokio::test]
async fn a_call_starts_at_its_moment_whatever_dies_or_comes_too_early() {
    let setup = Setup::of(&CONFORMANCE, &[]);
    let caller = setup.start().caller();
    let start_ms = now_ms() + 8_000;
    let start = jiff::Timestamp::from_millisecond(i64::try_from(start_ms).unwrap()).unwrap().to_string();
    let call = json!({"name": "slow_compute", "arguments": {}, "_meta": {"dev.longhaul/notBefore": start}});
    let created = caller.result("tools/call", call).await;
    let id = created["taskId"].as_str().unwrap();
    assert!(created["statusMessage"].as_str().unwrap().starts_with("starts at 20"), "{created}");
    // As each message of a wait that is longer than the queue's longest delay.
    setup.send_again(id).await;
    setup.kill_all_of("ApiFunction");
    setup.kill_all_of("WorkerFunction");
    let record = caller.result("dev.longhaul/tasks/inspect", json!({"taskId": id})).await;
    assert!(record["startedAt"].is_null() || now_ms() >= start_ms, "{record}");
    caller.until(id, "completed").await;
    let record = caller.result("dev.longhaul/tasks/inspect", json!({"taskId": id})).await;
    let started: jiff::Timestamp = record["startedAt"].as_str().unwrap().parse().unwrap();
    // The clocks are the same here.
    assert!(u64::try_from(started.as_millisecond()).unwrap() >= start_ms, "{record}");
}
