//! Which queue work goes to, and what a worker does with work that is not for it.

use std::sync::Arc;

use longhaul_core::ports::WorkQueue;
use longhaul_core::{State, Status};
use longhaul_engine::{AttemptEnd, WorkerSignals};
use longhaul_testkit::FakeQueue;

use super::world::{World, call, completed, quick, tool};

fn queue(world: &World) -> Arc<dyn WorkQueue> {
    let clock: Arc<dyn longhaul_core::Clock> = Arc::clone(&world.clock) as _;
    Arc::new(FakeQueue::new(clock, 10))
}

#[tokio::test]
async fn the_work_of_a_tool_goes_to_its_own_queue_in_every_attempt() {
    let world = World::new();
    let own = queue(&world);
    let of_tool = Arc::clone(&own);
    let queue_of = move |tool: &str| (tool == "tool").then(|| Arc::clone(&of_tool));
    let engine = world.engine.clone().with_own_queues(queue_of);
    let task = engine.accept(call()).await.unwrap().into_task();
    assert!(world.receive().await.is_none(), "nothing is in the queue that the others share");
    // A worker for both queues: it runs what comes from either, and sends to the queue of the tool.
    let sleeper = tool(|attempt| async move {
        attempt.sleep_ms(60_000).await;
        completed("1")
    });
    for _attempt in 0..2 {
        let [delivery] = own.receive(1, 30_000, 0).await.unwrap().try_into().unwrap();
        let worker = engine.clone().delivered_by(Arc::clone(&own));
        worker.run_delivery(&delivery, &sleeper, &WorkerSignals::default()).await;
        own.delete(&delivery.receipt).await.unwrap();
        assert!(world.receive().await.is_none());
        world.clock.advance_ms(60_000);
    }
    assert_eq!(world.on_record(&task.key()).await.status(), Status::Completed);
    // Every other tool shares a queue.
    let other = longhaul_engine::Call { tool: "other".to_owned(), ..call() };
    engine.clone().delivered_by(own).accept(other).await.unwrap();
    assert!(world.receive().await.is_some(), "and not the queue that deliveries come from");
}

#[tokio::test]
async fn a_worker_without_the_tool_leaves_the_task_and_counts_no_failure() {
    let (world, key) = World::with_key().await;
    let lacks = tool(|_attempt| async { AttemptEnd::NoSuchTool });
    let lease_ms = world.engine.settings().lease_ms;
    world.delays();
    for _ in 0..10 {
        world.work(&lacks).await;
        assert_eq!(world.delays(), [lease_ms], "it is left alone for a while");
        let task = world.on_record(&key).await;
        assert_eq!((task.status(), task.failures), (Status::Working, 0));
        world.clock.advance_ms(lease_ms);
    }
    world.work(&quick()).await;
    assert_eq!(world.on_record(&key).await.status(), Status::Completed);
}

#[tokio::test]
async fn a_worker_without_memory_gives_the_task_back_and_counts_no_failure() {
    let (world, key) = World::with_key().await;
    let full = tool(|_attempt| async { AttemptEnd::NoMemory });
    world.delays();
    for _ in 0..10 {
        world.work(&full).await;
        let [delay_ms] = world.delays().try_into().unwrap();
        assert!((2_500..=5_000).contains(&delay_ms), "{delay_ms} ms");
        let task = world.on_record(&key).await;
        assert_eq!((task.status(), task.failures), (Status::Working, 0));
        assert!(!matches!(task.state, State::Running { .. }), "{:?}", task.state);
        world.clock.advance_ms(delay_ms);
    }
    world.work(&quick()).await;
    assert_eq!(world.on_record(&key).await.status(), Status::Completed);
}

#[tokio::test]
async fn a_task_whose_tool_no_worker_has_times_out() {
    let (world, key) = World::with_key().await;
    let lacks = tool(|_attempt| async { AttemptEnd::NoSuchTool });
    let task = world.work_until_ended(&key, &lacks, world.engine.settings().lease_ms, 200).await;
    assert_eq!(task.status(), Status::Failed);
}
