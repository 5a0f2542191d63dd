//! A call that asks to start later is a task at once, and its tool runs when the moment has come, whatever happens
//! before.

use std::collections::BTreeMap;

use longhaul_core::ports::WorkQueue;
use longhaul_core::{State, Status, Timestamp, limits};
use longhaul_engine::{AcceptError, Call, Settings, Woken};

use super::world::{Tool, World, call, call_with_key, completed, tool};

const HOUR_MS: u64 = 3_600_000;

fn call_at(start: Timestamp) -> Call {
    Call { not_before: Some(start), ..call() }
}

fn ends_at_once() -> Tool {
    tool(|_attempt| async { completed("1") })
}

#[tokio::test]
async fn a_call_that_starts_later_is_a_task_at_once_and_its_message_comes_then() {
    let world = World::new();
    let start = world.now().plus_ms(HOUR_MS);
    let task = world.accept(call_at(start)).await;
    assert_eq!((task.status(), task.awaited_start()), (Status::Working, Some(start)));
    assert_eq!(world.took(), ["create", "send"]);
    assert_eq!(world.delays(), [HOUR_MS]);
    assert_eq!(task.deadline(), start.plus_ms(task.terms.run_ms));
    assert_eq!(task.expires_at, start.plus_ms(task.terms.ttl_ms));
    world.clock.advance_ms(HOUR_MS - 1);
    assert!(world.receive().await.is_none());
    world.clock.advance_ms(1);
    world.work(&ends_at_once()).await;
    let ended = world.on_record(&task.key()).await;
    assert_eq!((ended.status(), ended.started_at), (Status::Completed, Some(start)));
}

#[tokio::test]
async fn a_message_that_comes_before_the_start_is_sent_again() {
    let world = World::new();
    let start = world.now().plus_ms(HOUR_MS);
    let task = world.accept(call_at(start)).await;
    let _first = world.delays();
    // As from a queue whose longest delay is shorter.
    let message = longhaul_core::ports::Message { task: task.key(), trace: None, attempt: Some(0) };
    world.queue.send(&message, 0).await.unwrap();
    world.work(&ends_at_once()).await;
    assert_eq!(world.delays(), [0, HOUR_MS]);
    assert_eq!(world.on_record(&task.key()).await.state, State::Sleeping { until: start });
}

#[tokio::test]
async fn a_later_start_whose_message_was_lost_is_recovered_by_a_poll_after_it() {
    let world = World::new();
    let start = world.now().plus_ms(HOUR_MS);
    // Each send is tried once.
    world.sends_fail(1);
    let key = world.accept(call_at(start)).await.key();
    world.clock.advance_ms(HOUR_MS);
    world.engine.poll(&key).await.unwrap();
    assert!(world.receive().await.is_none(), "a message is missed only when it is overdue");
    world.clock.advance_ms(Settings::default().resend_ms);
    world.engine.poll(&key).await.unwrap();
    world.work(&ends_at_once()).await;
    assert_eq!(world.on_record(&key).await.status(), Status::Completed);
}

#[tokio::test]
async fn a_task_is_cancelled_before_its_start_and_never_runs() {
    let world = World::new();
    let start = world.now().plus_ms(HOUR_MS);
    let key = world.accept(call_at(start)).await.key();
    assert_eq!(world.engine.cancel(&key).await.unwrap().status(), Status::Cancelled);
    world.clock.advance_ms(HOUR_MS);
    let never = tool(|_attempt| async { panic!("a cancelled task was begun") });
    world.work(&never).await;
    assert_eq!(world.on_record(&key).await.started_at, None);
    assert!(world.receive().await.is_none());
}

#[tokio::test]
async fn nothing_from_outside_brings_a_later_start_forward() {
    let world = World::new();
    let start = world.now().plus_ms(HOUR_MS);
    let key = world.accept(call_at(start)).await.key();
    assert_eq!(world.engine.wake(&key).await.unwrap(), Woken::NotWaiting);
    world.engine.record_signal(&key, "fact", "1").await.unwrap();
    world.engine.answer(&key, &BTreeMap::from([("a".to_owned(), "1".to_owned())])).await.unwrap();
    world.work(&ends_at_once()).await;
    assert_eq!(world.on_record(&key).await.state, State::Sleeping { until: start });
}

#[tokio::test]
async fn a_moment_that_is_past_starts_at_once() {
    let world = World::new();
    for start in [Timestamp::from_ms(0), world.now()] {
        let task = world.accept(call_at(start)).await;
        assert_eq!((&task.state, task.not_before), (&State::Queued, None));
    }
    assert_eq!(world.delays(), [0, 0]);
}

#[tokio::test]
async fn a_moment_too_far_ahead_is_refused_and_leaves_nothing() {
    let world = World::new();
    let latest = world.now().plus_ms(limits::START_AHEAD_MS_MAX);
    let refused = world.engine.accept(call_at(latest.plus_ms(1))).await.unwrap_err();
    assert!(matches!(refused, AcceptError::TooFarAhead));
    assert_eq!(refused.to_string(), "a call may ask to start at most 90 days ahead");
    assert_eq!(world.took(), [""; 0]);
    assert_eq!(world.accept(call_at(latest)).await.awaited_start(), Some(latest));
}

#[tokio::test]
async fn the_same_key_gives_the_same_task_whatever_moment_the_retry_asks_for() {
    let world = World::new();
    let start = world.now().plus_ms(HOUR_MS);
    let first = world.accept(Call { not_before: Some(start), ..call_with_key("key", 1) }).await;
    for not_before in [Some(start), Some(start.plus_ms(HOUR_MS)), None] {
        let again = world.accept(Call { not_before, ..call_with_key("key", 1) }).await;
        assert_eq!((again.id, again.awaited_start()), (first.id, Some(start)));
    }
}

#[tokio::test]
async fn a_task_may_run_as_long_after_a_later_start_as_after_an_early_one() {
    let world = World::new();
    let start = world.now().plus_ms(10 * HOUR_MS);
    let key = world.accept(call_at(start)).await.key();
    world.clock.advance_ms(10 * HOUR_MS);
    let delivery = world.receive().await.unwrap();
    world.killed_in_the_tool(&delivery).await;
    world.clock.advance_ms(HOUR_MS / 2 - 1);
    assert_eq!(world.engine.poll(&key).await.unwrap().status(), Status::Working);
    world.clock.advance_ms(1);
    assert_eq!(world.engine.poll(&key).await.unwrap().status(), Status::Failed);
}
