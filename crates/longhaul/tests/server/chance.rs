//! Time and chance that every attempt of a task sees in the same way.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use longhaul::TaskContext;
use longhaul::testing;

const HALF_A_DAY: Duration = Duration::from_secs(43_200);

/// What an attempt saw, in its order.
type Seen = Arc<Mutex<Vec<Vec<String>>>>;

async fn draws(task: TaskContext, seen: Seen) -> String {
    let began = task.now();
    seen.lock().unwrap().push(Vec::new());
    let note = |text: String| seen.lock().unwrap().last_mut().unwrap().push(text);
    let drawn = |task: &TaskContext| {
        let since = task.now().duration_since(began).unwrap().as_millis();
        format!("{since} {} {}", task.random(), task.uuid())
    };
    note(drawn(&task));
    note(drawn(&task));
    // A name that depends on chance is one that a replay finds.
    let first = task.step(&format!("a {}", task.random()), async || task.random()).await;
    note(drawn(&task));
    task.sleep("half a day", HALF_A_DAY).await;
    assert!(task.now() >= began + HALF_A_DAY);
    note(drawn(&task));
    let last = task.step("b", async || 2).await;
    note(drawn(&task));
    format!("{first} {last} {}", task.uuid())
}

#[tokio::test]
async fn every_attempt_sees_the_same_time_and_draws_the_same_numbers() {
    let seen = Seen::default();
    let (noted, tool) = (Arc::clone(&seen), |noted: &Seen| {
        let noted = Arc::clone(noted);
        testing::tool(move |task| draws(task, Arc::clone(&noted)))
    });
    let run = tool(&noted).crash_after("b").to_end().await.unwrap();
    assert_eq!(run.journal().len(), 3, "two steps and a sleep, and nothing for what was drawn: {run:?}");
    let attempts = seen.lock().unwrap().clone();
    assert_eq!(attempts.len(), 3, "{attempts:?}");
    let last = attempts.last().unwrap();
    assert_eq!(last.len(), 5);
    assert_eq!(last.iter().collect::<BTreeSet<_>>().len(), 5, "no number is drawn twice: {last:?}");
    for attempt in &attempts {
        assert!(last.starts_with(attempt), "{attempts:?}");
    }
    tool(&Seen::default()).crash_everywhere().await.unwrap();
}

/// Versions of UUIDs that look random have these digits at these places.
#[tokio::test]
async fn a_uuid_has_the_version_that_it_claims() {
    let run = testing::tool(async |task: TaskContext| task.uuid()).to_end().await.unwrap();
    let uuid = run.text();
    assert_eq!((uuid.len(), uuid.get(14..15)), (36, Some("4")), "{uuid}");
}

#[tokio::test]
async fn two_tasks_draw_different_numbers() {
    let call = || testing::tool(async |task: TaskContext| task.uuid());
    let (one, other) = (call().by("tests", "alice", serde_json::Map::new(), []), call());
    assert_ne!(one.to_end().await.unwrap().text(), other.to_end().await.unwrap().text());
}

#[tokio::test]
async fn the_clock_goes_on_while_the_time_of_a_task_stands_still_between_two_entries() {
    async fn tool(task: TaskContext) -> String {
        let late = |task: &TaskContext| task.clock_time().duration_since(task.now()).unwrap_or_default();
        let before = late(&task);
        let now: SystemTime = task.now();
        task.step("here", async || ()).await;
        assert!(task.now() >= now);
        format!("{} {}", before.as_secs(), late(&task).as_secs())
    }
    let mut task = testing::tool(tool).begin().await.unwrap();
    task.pass(Duration::from_secs(60));
    // A worker takes it a minute after the call.
    task.work().await.unwrap();
    assert_eq!(task.to_end().await.unwrap().text(), "60 0");
}
