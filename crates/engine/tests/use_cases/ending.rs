//! A task ends once; a task always ends; a cancel request reaches the worker; expiry is exact.

use longhaul_core::ports::Delivery;
use longhaul_core::{FailureKind, State, Status, limits};
use longhaul_engine::{Cancelled, Disposition, PollError, WorkerSignals};

use super::world::{World, call, completed, crashing, hangs, quick, tool};

#[tokio::test]
async fn a_task_ends_once_however_often_it_is_delivered() {
    let (world, task, delivery) = World::with_delivery().await;
    let tool = quick();
    let signals = WorkerSignals::default();
    assert_eq!(world.engine.run_delivery(&delivery, &tool, &signals).await, Disposition::Acknowledge);
    let ended = world.on_record(&task.key()).await;
    assert_eq!(world.engine.run_delivery(&delivery, &tool, &signals).await, Disposition::Acknowledge);
    assert_eq!(world.on_record(&task.key()).await, ended);
    assert_eq!(tool.runs(), 1);
}

#[tokio::test]
async fn a_late_worker_cannot_end_a_task_that_another_one_has() {
    let (world, task, delivery) = World::with_delivery().await;
    world.killed_in_the_tool(&delivery).await;
    world.clock.advance_ms(world.engine.settings().lease_ms);
    world.work(&quick()).await;
    let ended = world.on_record(&task.key()).await;
    assert_eq!((ended.attempt, ended.status()), (2, Status::Completed));
    let late = longhaul_testkit::given::finish(1, "\"late\"");
    let refused =
        longhaul_core::ports::TaskStore::apply(&*world.store, &task.key(), &late, longhaul_testkit::given::NOW).await;
    assert!(refused.is_err());
    assert_eq!(world.on_record(&task.key()).await, ended);
}

#[tokio::test]
async fn a_task_whose_tool_panics_every_time_fails_when_retries_are_exhausted_and_says_so() {
    let (world, task) = World::with_task().await;
    let tool = crashing();
    let ended = world.work_until_ended(&task.key(), &tool, 1_000, 300).await;
    assert_eq!(tool.runs(), 3);
    let State::Failed { failure } = &ended.state else { panic!("{:?}", ended.state) };
    assert_eq!(failure.kind, FailureKind::RetriesExhausted);
    assert!(
        failure.message.contains("3 failures in a row") && failure.message.contains("it panicked"),
        "{}",
        failure.message
    );
}

#[tokio::test]
async fn a_delivery_of_a_task_that_a_living_worker_has_waits_and_is_no_failure() {
    let (world, task, delivery) = World::with_delivery().await;
    world.killed_in_the_tool(&delivery).await;
    for receives in 2..4 {
        let again = Delivery { receives, ..delivery.clone() };
        let disposition = world.engine.run_delivery(&again, &quick(), &WorkerSignals::default()).await;
        assert_eq!(disposition, Disposition::RetryAfter { after_ms: world.engine.settings().lease_ms });
    }
    assert_eq!(world.on_record(&task.key()).await.failures, 0);
}

#[tokio::test]
async fn cancel_is_on_record_at_once_and_reaches_the_worker_within_a_heartbeat() {
    let (world, task, delivery) = World::with_delivery().await;
    let (hang, signals) = (hangs(), WorkerSignals::default());
    let attempt = world.engine.run_delivery(&delivery, &hang, &signals);
    let cancel = async {
        assert!(matches!(world.on_record(&task.key()).await.state, State::Running { .. }));
        for _ in 0..2 {
            assert_eq!(world.engine.cancel(&task.key()).await.unwrap().status(), Status::Cancelled);
        }
    };
    let began = longhaul_core::Clock::now(&*world.clock);
    let both = futures::future::join(attempt, cancel);
    let (disposition, ()) = world.while_time_passes(500, both).await;
    assert_eq!(disposition, Disposition::Acknowledge);
    let took_ms = longhaul_core::Clock::now(&*world.clock).since_ms(began);
    // Two heartbeats: the claim may have been in the middle of one.
    assert!(took_ms <= 2 * world.engine.settings().heartbeat_ms, "{took_ms} ms");
    assert_eq!(world.on_record(&task.key()).await.status(), Status::Cancelled);
}

#[tokio::test]
async fn a_result_over_the_limit_ends_the_task_with_a_small_clear_error() {
    let (world, task) = World::with_task().await;
    world.work(&tool(|_attempt| async { completed(&"x".repeat(limits::RESULT_BYTES_MAX + 1)) })).await;
    let ended = world.on_record(&task.key()).await;
    let State::Failed { failure } = &ended.state else { panic!("{:?}", ended.status()) };
    assert_eq!(failure.kind, FailureKind::TooLarge);
    assert!(failure.message.len() < 200, "{}", failure.message);
}

#[tokio::test]
async fn a_result_at_the_limit_comes_back_whole() {
    let (world, task) = World::with_task().await;
    let whole = "ü".repeat(limits::RESULT_BYTES_MAX / 2);
    let result = whole.clone();
    world
        .work(&tool(move |_attempt| {
            let result = result.clone();
            async move { completed(&result) }
        }))
        .await;
    let State::Completed { result, .. } = world.on_record(&task.key()).await.state.clone() else { panic!() };
    for _ in 0..2 {
        assert_eq!(world.engine.load(&task.key(), &result).await.unwrap(), whole);
    }
}

#[tokio::test]
async fn work_past_its_deadline_is_stopped_and_its_result_is_retained_as_agreed() {
    let (world, task, delivery) = World::with_delivery().await;
    let (hang, signals) = (hangs(), WorkerSignals::default());
    let attempt = world.engine.run_delivery(&delivery, &hang, &signals);
    world.while_time_passes(task.terms.run_ms / 20, attempt).await;
    let ended = world.on_record(&task.key()).await;
    let State::Failed { failure } = &ended.state else { panic!("{:?}", ended.state) };
    assert_eq!(failure.kind, FailureKind::TimedOut);
    assert!(ended.expires_at >= ended.ended_at.unwrap().plus_ms(ended.terms.retention_ms));
}

#[tokio::test]
async fn a_task_past_its_time_to_live_is_not_found_by_anyone() {
    let world = World::new();
    let task = world.accept(call()).await;
    world.clock.advance_to(task.expires_at);
    for _ in 0..2 {
        assert!(matches!(world.engine.poll(&task.key()).await, Err(PollError::NotFound)));
        assert!(matches!(world.engine.cancel(&task.key()).await, Err(PollError::NotFound)));
    }
    let tool = quick();
    world.work(&tool).await;
    assert_eq!(tool.runs(), 0);
}

#[tokio::test]
async fn whoever_wants_to_cancel_learns_whether_the_task_had_ended_and_writes_nothing_then() {
    let world = World::new();
    let (completed, cancelled) = (world.accepted().await.key(), world.accepted().await.key());
    assert!(matches!(world.engine.cancel_unfinished(&cancelled).await.unwrap(), Cancelled::Now(_)));
    assert_eq!(world.on_record(&cancelled).await.status(), Status::Cancelled);
    world.work(&quick()).await;
    world.took();
    for key in [completed, cancelled] {
        assert!(matches!(world.engine.cancel_unfinished(&key).await.unwrap(), Cancelled::Not(_)));
        assert_eq!(world.took(), ["get"]);
    }
}
