//! No unfinished task needs a client that polls it: what has no message is found by a sweep, and what has one is ended
//! by it at its deadline.

use async_trait::async_trait;
use longhaul_core::ports::{StoreError, UnfinishedTasks};
use longhaul_core::{FailureKind, State, Status, Task, TaskEvent, TaskKey, Timestamp};
use longhaul_engine::{Attempt, AttemptEnd, Settings, Swept};
use longhaul_testkit::FakeUnfinished;

use crate::world::{Tool, World, asks, call, crashing, hangs, sleeps, tool};

const HOUR_MS: u64 = 3_600_000;

/// A world with a task whose message was lost.
async fn with_a_lost_message() -> (World, Task) {
    let (world, task, delivery) = World::with_delivery().await;
    longhaul_core::ports::WorkQueue::delete(&*world.queue, &delivery.receipt).await.unwrap();
    world.delays();
    (world, task)
}

async fn swept(world: &World) -> Swept {
    world.engine.sweep(&world.unfinished).await.unwrap()
}

#[tokio::test]
async fn a_sweep_sends_a_message_that_may_be_lost_again_and_leaves_young_tasks_alone() {
    let (world, task) = with_a_lost_message().await;
    assert_eq!(swept(&world).await, Swept { seen: 1, recovered: 0 });
    world.clock.advance_ms(world.engine.settings().resend_ms);
    assert_eq!(swept(&world).await, Swept { seen: 1, recovered: 1 });
    assert_eq!(world.delays().len(), 1);
    assert_eq!(world.on_record(&task.key()).await.resends, 1);
    assert_eq!(swept(&world).await, Swept::default(), "it has its message");
}

#[tokio::test]
async fn a_sweep_ends_what_is_past_its_deadline() {
    let (world, task) = with_a_lost_message().await;
    world.clock.advance_to(task.deadline());
    assert_eq!(swept(&world).await, Swept { seen: 1, recovered: 1 });
    assert_eq!(world.on_record(&task.key()).await.status(), Status::Failed);
    assert_eq!(swept(&world).await, Swept::default());
}

#[tokio::test]
async fn a_sweep_sees_more_tasks_than_a_page_has() {
    let world = World::new();
    for _ in 0..70 {
        world.engine.accept(call()).await.unwrap();
    }
    while let Some(delivery) = world.receive().await {
        longhaul_core::ports::WorkQueue::delete(&*world.queue, &delivery.receipt).await.unwrap();
    }
    let swept = world.engine.sweep(&InPages(&world.unfinished)).await.unwrap();
    assert_eq!(swept.seen, 70);
}

/// The same in small pages.
struct InPages<'a>(&'a FakeUnfinished);

#[async_trait]
impl UnfinishedTasks for InPages<'_> {
    async fn unfinished(&self, after: Option<TaskKey>, max: usize, now: Timestamp) -> Result<Vec<Task>, StoreError> {
        self.0.unfinished(after, max.min(16), now).await
    }
}

/// The task of `tool` after its deadline, if nobody polls it: its messages come when they are due, and the server
/// sweeps.
async fn left_alone(world: &World, tool: &Tool) -> Task {
    let task = world.accepted().await;
    world.work(tool).await;
    world.clock.advance_to(task.deadline().minus_ms(1));
    world.work(tool).await;
    swept(world).await;
    assert!(!world.on_record(&task.key()).await.has_ended());
    world.clock.advance_ms(1);
    world.work(tool).await;
    swept(world).await;
    Task::clone(&world.on_record(&task.key()).await)
}

/// The kind of a task's failure, and when it failed.
fn failure(task: &Task) -> Option<(FailureKind, Timestamp)> {
    let State::Failed { failure } = &task.state else { return None };
    Some((failure.kind, task.ended_at?))
}

#[tokio::test]
async fn a_task_that_waits_past_its_deadline_fails_then_although_nobody_polls() {
    let asks_or_sleeps = || {
        tool(|attempt| async move {
            let (ask, sleep) = (Box::pin(attempt.ask("a", "{}".to_owned())), Box::pin(attempt.sleep_ms(10 * HOUR_MS)));
            futures::future::select(ask, sleep).await;
            AttemptEnd::NoSuchTool
        })
    };
    let polls = || {
        tool(|attempt: Attempt| async move {
            let every = longhaul_engine::Every::fixed(std::time::Duration::from_secs(5 * 3_600));
            let Ok(_) = attempt.poll_until("l", every, async || Ok::<_, std::convert::Infallible>(None)).await;
            AttemptEnd::NoSuchTool
        })
    };
    let lacks = || tool(|_attempt| async { AttemptEnd::NoSuchTool });
    for (what, tool) in [
        ("sleeps", sleeps(10 * HOUR_MS)),
        ("asks", asks("a")),
        ("asks or sleeps", asks_or_sleeps()),
        ("polls", polls()),
        ("has no tool", lacks()),
    ] {
        let world = World::new();
        let task = left_alone(&world, &tool).await;
        assert_eq!(failure(&task), Some((FailureKind::TimedOut, task.deadline())), "{what}");
    }
}

/// A delay before a retry may be as long as a result is retained.
#[tokio::test]
async fn a_retry_that_would_come_after_the_deadline_comes_at_the_deadline() {
    let settings = Settings { retry_ms: 10 * HOUR_MS, retry_ms_max: 10 * HOUR_MS, ..Settings::default() };
    let world = World::with(settings);
    let task = left_alone(&world, &crashing()).await;
    assert_eq!(failure(&task), Some((FailureKind::TimedOut, task.deadline())));
}

/// As an earlier version has left it.
#[tokio::test]
async fn a_task_on_record_that_sleeps_past_its_deadline_ends_when_its_message_comes() {
    let (world, task, delivery) = World::with_delivery().await;
    drop(world.begun(&delivery, &hangs()));
    let suspension = longhaul_core::Suspension::Timer(task.deadline().plus_ms(HOUR_MS));
    let sleeps = TaskEvent::Suspend { attempt: 1, suspension, progress: None, labels: None };
    world.engine.ports().store.apply(&task.key(), &sleeps, world.now()).await.unwrap();
    world.clock.advance_to(task.deadline());
    world.work(&hangs()).await;
    assert_eq!(failure(&world.on_record(&task.key()).await), Some((FailureKind::TimedOut, task.deadline())));
}
