//! Whoever hears of each task that waits for a worker can see to it that it has a message, without coming back.

use longhaul_core::{Cleanup, TaskKey};
use longhaul_engine::{Call, EnsureError, Ensured};

use crate::world::{World, call, completed, tool};

async fn ensured(world: &World, key: &TaskKey) -> Ensured {
    world.engine.ensure_message(key).await.unwrap()
}

#[tokio::test]
async fn a_task_whose_message_was_never_sent_gets_one_and_runs() {
    let world = World::new();
    world.sends_fail(1);
    let key = world.accepted().await.key();
    let resend_ms = world.engine.settings().resend_ms;
    world.clock.advance_ms(2 * resend_ms);
    assert_eq!(ensured(&world, &key).await, Ensured::Sent { delay_ms: 0 });
    world.work(&tool(|_attempt| async { completed("17") })).await;
    assert!(world.on_record(&key).await.has_ended());
}

#[tokio::test]
async fn a_young_task_gets_its_message_for_when_others_would_send_one() {
    let (world, task) = World::with_task().await;
    let (key, resend_ms) = (task.key(), world.engine.settings().resend_ms);
    world.clock.advance_ms(1_000);
    world.delays();
    assert_eq!(ensured(&world, &key).await, Ensured::Sent { delay_ms: resend_ms - 1_000 });
    assert_eq!(world.delays(), [resend_ms - 1_000]);
    assert_eq!(world.on_record(&key).await.sent_at, task.sent_at.plus_ms(resend_ms));
    // A poll counts from the message that was sent for later.
    world.clock.advance_ms(2 * resend_ms);
    world.engine.poll(&key).await.unwrap();
    assert!(world.delays().is_empty());
}

#[tokio::test]
async fn a_message_that_somebody_else_noted_and_may_not_have_sent_is_sent_in_its_turn() {
    let (world, key) = World::with_key().await;
    let resend_ms = world.engine.settings().resend_ms;
    world.clock.advance_ms(resend_ms);
    world.sends_fail(1);
    world.engine.poll(&key).await.unwrap();
    world.delays();
    assert_eq!(ensured(&world, &key).await, Ensured::Sent { delay_ms: 2 * resend_ms });
}

#[tokio::test]
async fn a_task_that_a_worker_took_or_that_is_gone_needs_no_message() {
    let (world, key) = World::with_key().await;
    world
        .work(&tool(|attempt| async move {
            attempt.sleep_ms(3_600_000).await;
            completed("17")
        }))
        .await;
    world.took();
    assert_eq!(ensured(&world, &key).await, Ensured::NotNeeded);
    assert_eq!(world.took(), ["get"]);
    world.engine.cancel(&key).await.unwrap();
    assert_eq!(ensured(&world, &key).await, Ensured::NotNeeded);
    world.engine.forget(&key).await.unwrap();
    assert_eq!(ensured(&world, &key).await, Ensured::NotNeeded);
}

#[tokio::test]
async fn a_call_that_starts_later_and_whose_message_was_never_sent_gets_one_and_runs() {
    let world = World::new();
    world.sends_fail(1);
    let start = world.now().plus_ms(3_600_000);
    let key = world.accept(Call { not_before: Some(start), ..call() }).await.key();
    world.clock.advance_ms(60_000);
    world.delays();
    let delay_ms = 3_600_000 - 60_000 + world.engine.settings().resend_ms;
    assert_eq!(ensured(&world, &key).await, Ensured::Sent { delay_ms });
    assert_eq!(world.delays(), [delay_ms]);
    // Its record may come again: the message is there.
    let again_ms = delay_ms + world.engine.settings().resend_after_ms(1);
    assert_eq!(ensured(&world, &key).await, Ensured::Sent { delay_ms: again_ms });
    world.clock.advance_ms(delay_ms);
    world.work(&tool(|_attempt| async { completed("17") })).await;
    assert!(world.on_record(&key).await.has_ended());
}

#[tokio::test]
async fn a_task_that_sleeps_before_a_retry_needs_no_message() {
    let world = World::new();
    let start = world.now().plus_ms(3_600_000);
    let key = world.accept(Call { not_before: Some(start), ..call() }).await.key();
    world.clock.advance_ms(3_600_000);
    world
        .work(&tool(|attempt| async move {
            attempt.sleep_ms(3_600_000).await;
            completed("17")
        }))
        .await;
    assert_eq!(ensured(&world, &key).await, Ensured::NotNeeded);
}

#[tokio::test]
async fn the_message_for_the_cleanup_of_a_task_is_sent_too() {
    let world = World::new();
    let mut call = call();
    call.cleanup = Cleanup::ARMED;
    let key = world.accept(call).await.key();
    world.sends_fail(1);
    world.engine.cancel(&key).await.unwrap();
    assert!(matches!(ensured(&world, &key).await, Ensured::Sent { .. }));
}

#[tokio::test]
async fn a_message_that_cannot_be_sent_is_an_error_and_the_next_try_sends_it() {
    let (world, key) = World::with_key().await;
    world.clock.advance_ms(2 * world.engine.settings().resend_ms);
    world.sends_fail(1);
    assert!(matches!(world.engine.ensure_message(&key).await, Err(EnsureError::Queue(_))));
    assert!(matches!(ensured(&world, &key).await, Ensured::Sent { .. }));
}
