//! Failed attempts are retried after growing delays; writes are retried a few times and then abandoned.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use longhaul_core::{Clock, State, Status, TaskEvent, Timestamp};
use longhaul_engine::{AcceptError, Attempt, AttemptEnd, Disposition};
use longhaul_testkit::StoreCall;

use super::world::{Tool, World, call, completed, crashing, quick, tool};

#[tokio::test]
async fn a_failed_attempt_is_retried_after_a_delay_that_doubles() {
    let (world, task) = World::with_task().await;
    world.delays();
    for delay_ms in [1_000, 2_000] {
        world.work(&crashing()).await;
        assert_eq!(world.delays(), [delay_ms]);
        let until = world.now().plus_ms(delay_ms);
        assert_eq!(world.on_record(&task.key()).await.state, State::Sleeping { until });
        world.clock.advance_ms(delay_ms);
    }
    world.work(&crashing()).await;
    assert_eq!(world.on_record(&task.key()).await.status(), Status::Failed);
}

/// Runs so many steps.
async fn steps(attempt: &Attempt, count: usize) {
    for step in 0..count {
        let Ok(_text) = attempt.step(&format!("step {step}"), async || Ok::<_, Infallible>("1".to_owned())).await;
    }
}

#[tokio::test]
async fn an_attempt_that_records_a_step_before_it_fails_restarts_the_count() {
    let (world, task) = World::with_task().await;
    let attempts = Arc::new(AtomicUsize::new(0));
    let tool = tool(move |attempt| {
        let number = attempts.fetch_add(1, Ordering::Relaxed);
        async move {
            steps(&attempt, number + 1).await;
            match number {
                0..6 => AttemptEnd::Crashed { reason: "it panicked".to_owned() },
                _ => completed("1"),
            }
        }
    });
    for _ in 0..6 {
        world.delays();
        world.work(&tool).await;
        assert_eq!(world.on_record(&task.key()).await.failures, 1);
        assert_eq!(world.delays(), [1_000]);
        world.clock.advance_ms(1_000);
    }
    world.work(&tool).await;
    assert_eq!(world.on_record(&task.key()).await.status(), Status::Completed);
}

#[tokio::test]
async fn the_reason_of_a_failure_is_cut_to_its_limit() {
    let (world, task) = World::with_task().await;
    world.work(&tool(|_attempt| async { AttemptEnd::Crashed { reason: "x".repeat(2_000) } })).await;
    let reason = world.on_record(&task.key()).await.last_failure.clone().unwrap();
    assert_eq!((reason.len(), reason.chars().last()), (1_024, Some('…')));
}

/// The pauses before the tries of a call that the store never answers.
async fn pauses_of_a_refused_call(world: &World) -> Vec<u64> {
    let (clock, tried_at) = (Arc::clone(&world.clock), Arc::<Mutex<Vec<Timestamp>>>::default());
    let noted = Arc::clone(&tried_at);
    world.store_fails(move |_call| {
        noted.lock().unwrap().push(clock.now());
        true
    });
    let refused = world.while_time_passes(1, world.engine.accept(call())).await;
    assert!(matches!(refused, Err(AcceptError::Unavailable(_))));
    let tried_at = tried_at.lock().unwrap();
    tried_at.iter().zip(tried_at.iter().skip(1)).map(|(before, after)| after.since_ms(*before)).collect()
}

#[tokio::test]
async fn a_write_is_tried_four_times_with_growing_random_delays() {
    let world = World::new();
    let mut all = Vec::new();
    for _ in 0..3 {
        let pauses = pauses_of_a_refused_call(&world).await;
        assert_eq!(world.took(), ["create"; 4]);
        for (pause, longest) in pauses.iter().zip([50, 100, 200]) {
            assert!((longest / 2..=longest).contains(pause), "{pauses:?}");
        }
        all.push(pauses);
    }
    assert!(all[0] != all[1] && all[1] != all[2], "writers come back at the same times: {all:?}");
}

async fn deliver_next(world: &World, tool: &Tool) {
    if let Some(delivery) = world.receive().await {
        world.while_time_passes(100, world.deliver(&delivery, tool)).await;
    }
}

#[tokio::test]
async fn an_end_is_tried_eight_times_before_the_work_is_done_again() {
    for (failures, runs) in [(7, 1), (8, 2)] {
        let (world, key) = World::with_key().await;
        let mut left = failures;
        world.store_fails(move |call| match call {
            StoreCall::Apply(_, TaskEvent::Finish { .. }) if left > 0 => {
                left -= 1;
                true
            }
            _ => false,
        });
        let tool = quick();
        for _ in 0..2 {
            deliver_next(&world, &tool).await;
            world.clock.advance_ms(world.engine.settings().lease_ms);
        }
        assert_eq!(tool.runs(), runs, "after {failures} failures");
        assert_eq!(world.on_record(&key).await.status(), Status::Completed);
    }
}

#[tokio::test]
async fn a_write_that_succeeds_at_its_last_try_is_a_success() {
    let world = World::new();
    let mut left = 3;
    world.store_fails(move |_call| {
        left -= 1;
        left >= 0
    });
    world.while_time_passes(10, world.engine.accept(call())).await.unwrap();
    assert_eq!(world.took(), ["create", "create", "create", "create", "send"]);
}

#[tokio::test]
async fn a_poll_that_cannot_recover_still_answers() {
    let (world, task) = World::with_task().await;
    world.clock.advance_to(task.deadline());
    world.store_fails(|call| matches!(call, StoreCall::Apply(..)));
    assert_eq!(world.while_time_passes(50, world.engine.poll(&task.key())).await.unwrap(), task);
}

#[tokio::test]
async fn a_claim_that_cannot_be_written_is_left_to_the_next_delivery() {
    let (world, _task, delivery) = World::with_delivery().await;
    world.store_fails(|_call| true);
    let disposition = world.while_time_passes(50, world.deliver(&delivery, &quick())).await;
    assert_eq!(disposition, Disposition::RetryAfter { after_ms: world.engine.settings().retry_ms });
}

#[tokio::test]
async fn an_attempt_whose_journal_cannot_be_read_releases_the_task_without_a_failure() {
    let (world, key, delivery) = World::after_a_crash().await;
    world.store_fails(|call| matches!(call, StoreCall::Journal(_)));
    world.delays();
    let tool = quick();
    assert_eq!(world.while_time_passes(50, world.deliver(&delivery, &tool)).await, Disposition::Acknowledge);
    assert_eq!(tool.runs(), 0);
    assert_eq!(world.delays(), [world.engine.settings().retry_ms]);
    assert_eq!(world.on_record(&key).await.state, State::Queued);
}

/// A worker that stood still meanwhile may read the journal of a task that another one has ended, and its client has
/// forgotten: nothing of it may be left.
#[tokio::test]
async fn an_attempt_whose_lease_is_over_before_its_tool_runs_does_not_run_it() {
    let (world, key, delivery) = World::after_a_crash().await;
    let (clock, lease_ms) = (Arc::clone(&world.clock), world.engine.settings().lease_ms);
    world.store_fails(move |call| {
        if matches!(call, StoreCall::Journal(_)) {
            clock.advance_ms(lease_ms);
        }
        false
    });
    let tool = quick();
    assert_eq!(world.deliver(&delivery, &tool).await, Disposition::Acknowledge);
    assert_eq!(tool.runs(), 0);
    assert_eq!(world.on_record(&key).await.state, State::Queued);
}

#[tokio::test]
async fn a_message_that_cannot_be_replaced_stays() {
    let (world, _task, delivery) = World::with_delivery().await;
    world.sends_fail(1);
    let disposition = world.engine.run_delivery(&delivery, &crashing(), &Default::default()).await;
    assert_eq!(disposition, Disposition::RetryAfter { after_ms: 1_000 });
}
