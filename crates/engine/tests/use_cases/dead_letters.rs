//! A dead letter ends a task only if its record says so; any other task that needs a message gets a new one.

use longhaul_core::ports::Delivery;
use longhaul_core::{FailureKind, State, Task, TaskKey};
use longhaul_engine::Disposition;
use longhaul_testkit::{StoreCall, given};

use super::world::{World, asks, quick, sleeps};

/// A task whose message was delivered.
async fn delivered(world: &World) -> (Task, Delivery) {
    let task = world.accepted().await;
    let delivery = world.receive().await.unwrap();
    world.took();
    world.delays();
    (task, delivery)
}

async fn failure_of(world: &World, key: &TaskKey) -> FailureKind {
    let State::Failed { failure } = &world.on_record(key).await.state else { panic!("the task has not failed") };
    failure.kind
}

#[tokio::test]
async fn a_task_that_has_ended_is_left_alone_even_past_its_deadline() {
    let world = World::new();
    let (task, delivery) = delivered(&world).await;
    world.deliver(&delivery, &quick()).await;
    world.clock.advance_to(task.deadline());
    world.took();
    assert_eq!(world.engine.run_dead_letter(&delivery).await, Disposition::Acknowledge);
    assert_eq!(world.took(), ["get"]);
}

#[tokio::test]
async fn a_task_gets_a_new_message_for_when_it_needs_one() {
    for (first, delay_ms) in [
        (sleeps(600_000), 500_000),
        // It waits for its client, until its deadline.
        (asks("a"), 1_700_000),
    ] {
        let world = World::new();
        let (_, delivery) = delivered(&world).await;
        world.deliver(&delivery, &first).await;
        world.delays();
        world.clock.advance_ms(100_000);
        assert_eq!(world.engine.run_dead_letter(&delivery).await, Disposition::Acknowledge);
        assert_eq!(world.delays(), [delay_ms]);
    }
    let world = World::new();
    let (_, delivery) = delivered(&world).await;
    assert_eq!(world.engine.run_dead_letter(&delivery).await, Disposition::Acknowledge);
    assert_eq!(world.delays(), [world.engine.settings().retry_ms], "it is queued");
}

#[tokio::test]
async fn a_running_task_gets_a_new_message_for_the_end_of_its_lease() {
    let world = World::new();
    let (task, delivery) = delivered(&world).await;
    world.killed_in_the_tool(&delivery).await;
    for (passes_ms, delay_ms) in [(0, 30_000), (10_000, 20_000), (20_000, 0), (5_000, 0)] {
        world.clock.advance_ms(passes_ms);
        assert_eq!(world.engine.run_dead_letter(&delivery).await, Disposition::Acknowledge);
        assert_eq!(world.delays(), [delay_ms]);
    }
    assert!(matches!(world.on_record(&task.key()).await.state, State::Running { .. }));
}

#[tokio::test]
async fn a_task_whose_last_attempt_is_dead_fails_when_its_lease_is_over() {
    let world = World::new();
    let (task, delivery) = delivered(&world).await;
    world.killed_in_the_tool(&delivery).await;
    for _ in 0..2 {
        world.clock.advance_ms(world.engine.settings().lease_ms);
        world.killed_in_the_tool(&delivery).await;
    }
    world.clock.advance_ms(world.engine.settings().lease_ms - 1);
    assert_eq!(world.engine.run_dead_letter(&delivery).await, Disposition::Acknowledge);
    assert_eq!(world.delays(), [1]);
    assert!(!world.on_record(&task.key()).await.has_ended());
    world.clock.advance_ms(1);
    assert_eq!(world.engine.run_dead_letter(&delivery).await, Disposition::Acknowledge);
    assert_eq!(failure_of(&world, &task.key()).await, FailureKind::RetriesExhausted);
    assert_eq!(world.delays(), Vec::<u64>::new());
}

#[tokio::test]
async fn a_task_past_its_deadline_is_timed_out() {
    let world = World::new();
    let (task, delivery) = delivered(&world).await;
    world.clock.advance_to(task.deadline().minus_ms(1));
    assert_eq!(world.engine.run_dead_letter(&delivery).await, Disposition::Acknowledge);
    assert!(!world.on_record(&task.key()).await.has_ended());
    world.clock.advance_ms(1);
    assert_eq!(world.engine.run_dead_letter(&delivery).await, Disposition::Acknowledge);
    assert_eq!(failure_of(&world, &task.key()).await, FailureKind::TimedOut);
}

#[tokio::test]
async fn a_dead_letter_of_a_missing_task_is_deleted() {
    let world = World::new();
    let (task, mut delivery) = delivered(&world).await;
    delivery.message.task = TaskKey::new(given::owner("bob"), task.id);
    assert_eq!(world.engine.run_dead_letter(&delivery).await, Disposition::Acknowledge);
    assert_eq!(world.took(), ["get"]);
}

#[tokio::test]
async fn a_dead_letter_stays_when_store_or_queue_do_not_answer() {
    let world = World::new();
    let (task, delivery) = delivered(&world).await;
    let later = Disposition::RetryAfter { after_ms: world.engine.settings().retry_ms };
    world.sends_fail(1);
    assert_eq!(world.engine.run_dead_letter(&delivery).await, later);

    world.store_fails(|call| matches!(call, StoreCall::Get(_)));
    assert_eq!(world.while_time_passes(50, world.engine.run_dead_letter(&delivery)).await, later);

    world.store_fails(|call| matches!(call, StoreCall::Apply(..)));
    world.clock.advance_to(task.deadline());
    assert_eq!(world.while_time_passes(50, world.engine.run_dead_letter(&delivery)).await, later);
}
