//! What would outlast a task fails when it begins, and says both times.

use std::time::Duration;

use longhaul::rmcp::ErrorData;
use longhaul::testing::{self, Call};
use longhaul::{Every, TaskContext, TaskPolicy};
use serde_json::Value;

const HOUR: Duration = Duration::from_secs(3_600);

async fn sleeps(task: TaskContext) -> String {
    task.step("before", async || ()).await;
    task.sleep("too long", 25 * HOUR).await;
    "slept".to_owned()
}

async fn calls_back(task: TaskContext) -> Result<String, ErrorData> {
    let value: Option<Value> = task.callback("approval", 24 * HOUR, |_token| async { Ok::<_, ErrorData>(()) }).await?;
    Ok(format!("{value:?}"))
}

async fn polls(task: TaskContext) -> Result<String, ErrorData> {
    task.sleep("a while", 20 * HOUR).await;
    task.poll_until("report", Every::fixed(5 * HOUR), || async { Ok::<Option<String>, ErrorData>(None) }).await
}

fn failing() -> [(Call, &'static str, u64); 3] {
    [
        (testing::tool(sleeps), "the sleep `too long` would take 90000000 ms, and the task has 86400000 ms left", 0),
        (testing::tool(calls_back), "the callback `approval` would take 86400000 ms, and the task has 86400000 ms", 0),
        (testing::tool(polls), "the pause before the second poll of `report` would take 18000000 ms", 20 * 3_600),
    ]
}

#[tokio::test]
async fn a_wait_that_would_outlast_its_task_fails_when_it_is_called() {
    for (call, said, seconds) in failing() {
        let run = call.expect_failure().to_end().await.unwrap();
        run.assert_error(said);
        run.assert_error("`TaskPolicy::run_at_most`");
        assert_eq!(run.elapsed().as_secs(), seconds, "{}", run.report());
    }
}

#[tokio::test]
async fn the_same_waits_fit_into_a_longer_task() {
    let longer = || TaskPolicy::optional().run_at_most(100 * HOUR);
    testing::tool(sleeps).policy(longer()).to_end().await.unwrap().assert_text("slept");
    testing::tool(calls_back).policy(longer()).to_end().await.unwrap().assert_text("None");
    // It polls until the end: it had time when it began.
    let run = testing::tool(polls).policy(longer()).expect_failure().to_end().await.unwrap();
    assert_eq!(run.elapsed(), 100 * HOUR);
    assert_eq!(run.times("report"), 16, "{}", run.report());
}

/// A sleep that is recorded is not measured again: what is left of it fits.
#[tokio::test]
async fn a_recorded_sleep_is_finished_after_a_crash() {
    async fn sleeps(task: TaskContext) -> String {
        task.sleep("long", 20 * HOUR).await;
        task.step("after", async || "slept".to_owned()).await
    }
    let run = testing::tool(sleeps).crash_after("after").to_end().await.unwrap();
    run.assert_text("slept");
    assert!(run.elapsed() < 21 * HOUR, "{}", run.report());
}
