//! Schedules of every minute, while the server is killed around their times, and away at one of them: each time is one
//! task.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::process::{Setup, now_ms, until};

const MINUTE_MS: u64 = 60_000;

/// The times of which each tool has a task, oldest first.
async fn times(setup: &Setup) -> BTreeMap<String, Vec<u64>> {
    let listed = setup.caller().result("dev.longhaul/tasks/list", json!({})).await;
    let mut times: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for task in listed["tasks"].as_array().unwrap() {
        let id: String = task["taskId"].as_str().unwrap().replace('-', "");
        // A version 7 UUID begins with its time: here, that of the schedule.
        let time_ms = u64::from_str_radix(&id[..12], 16).unwrap();
        times.entry(task["tool"].as_str().unwrap().to_owned()).or_default().push(time_ms);
    }
    times.values_mut().for_each(|times| times.sort_unstable());
    times
}

/// Waits until the server has made the tasks of `time_ms`.
async fn until_made(setup: &Setup, time_ms: u64) {
    let begun_ms = now_ms();
    let has_it =
        |times: &BTreeMap<String, Vec<u64>>, tool: &str| times.get(tool).is_some_and(|times| times.contains(&time_ms));
    loop {
        let times = times(setup).await;
        if has_it(&times, "slow_compute") && has_it(&times, "eager") {
            return;
        }
        assert!(now_ms() < begun_ms + MINUTE_MS / 2, "the tasks of {time_ms} are missing: {times:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn each_time_is_one_task_although_the_server_is_killed_around_it_or_away() {
    let setup = Setup::new();
    // A time that is seconds away would be in doubt: the schedules are known once the server has started.
    if now_ms() % MINUTE_MS > MINUTE_MS - 5_000 {
        until(now_ms().next_multiple_of(MINUTE_MS)).await;
    }
    let mut server = setup.start();
    let first_ms = now_ms().next_multiple_of(MINUTE_MS);
    until(first_ms - 400).await;
    for round in 0..8 {
        server.kill();
        server = setup.start();
        tokio::time::sleep(Duration::from_millis(40 * round)).await;
    }
    until_made(&setup, first_ms).await;
    server.kill();
    // Away at the next time, which is caught up.
    let second_ms = first_ms + MINUTE_MS;
    until(second_ms + 1_500).await;
    let server = setup.start();
    until_made(&setup, second_ms).await;
    server.kill();
    let _again = setup.start();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let times = times(&setup).await;
    assert_eq!(times["slow_compute"], [first_ms, second_ms]);
    assert_eq!(times["eager"], [first_ms, second_ms], "these run side by side");
    assert_eq!(times["patient"], [first_ms], "the second is left out, because the first has not ended");
}
