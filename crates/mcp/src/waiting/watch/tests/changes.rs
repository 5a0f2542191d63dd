//! Changes that this process makes itself.

use futures::FutureExt;
use longhaul_core::Clock;
use longhaul_testkit::given;

use super::*;
use super::{PAUSE_MS, WAIT_MS, World, name};

#[tokio::test]
async fn a_change_that_this_process_makes_ends_the_pause() {
    let (world, task, mut watch) = World::watched().await;
    // No time passes, so no look was due.
    let key = task.key();
    let (event, cancelled) = tokio::join!(watch.next(), world.engine.cancel(&key));
    assert!(cancelled.unwrap().has_ended());
    assert_eq!(event.as_ref().map(name).as_deref(), Some("changed"));
    world.expect_events(&mut watch, &["cancelled", "ended", "close with 0"]).await;
    assert_eq!(world.now_ms(), 0);
}

#[tokio::test]
async fn a_change_between_the_first_read_and_the_watch_is_not_missed() {
    let world = World::new();
    let key = world.running().await.key();
    let mut listener = world.engine.listener();
    let read = listener.poll(&key).await.unwrap();
    world.engine.cancel(&key).await.unwrap();
    let tasks = [(read, Reported::default())];
    let mut watch = TaskWatch::new(listener, &world.settings, &world.closing, WAIT_MS, tasks);
    world.expect_events(&mut watch, &["changed", "working", "changed", "cancelled", "ended"]).await;
    assert_eq!(world.now_ms(), 0);
}

#[tokio::test]
async fn a_change_while_nobody_waits_is_remembered() {
    let (world, task, mut watch) = World::watched().await;
    assert_eq!(watch.next().now_or_never(), None, "it waits, and is dropped");
    world.engine.cancel(&task.key()).await.unwrap();
    world.expect_events(&mut watch, &["changed", "cancelled", "ended", "close with 0"]).await;
    assert_eq!(world.now_ms(), 0);
}

#[tokio::test]
async fn a_wake_up_reads_only_the_task_that_changed_and_delays_no_look_at_the_others() {
    let world = World::new();
    let (busy, other) = (world.running().await, world.running().await);
    let mut watch = world.watch(&[&busy, &other]);
    world.expect_events(&mut watch, &["changed", "working", "changed", "working"]).await;
    // Another process ends it, so that only a look can find that.
    world.apply(&other, given::finish(1, "{}")).await;
    assert_eq!(watch.next().now_or_never(), None, "the pause begins");
    world.counting(|_| false);
    for number in 1_u32..=2 {
        world.clock.advance_ms(100);
        world.apply(&busy, given::progress(1, world.clock.now(), f64::from(number))).await;
        world.engine.extend_retention(&busy.key(), 40_000_000 * u64::from(number)).await.unwrap();
        world.expect_events(&mut watch, &["changed", &format!("progress {number}")]).await;
        assert_eq!(world.now_ms(), 100 * u64::from(number), "no look was due");
    }
    assert!(world.looks.lock().unwrap().iter().all(|(_, id)| *id == busy.id), "the other task is not read");
    world.expect_events(&mut watch, &["changed", "completed", "ended"]).await;
    assert_eq!(world.now_ms(), PAUSE_MS, "the pause began before the first change");
}

#[tokio::test]
async fn an_end_that_this_process_wrote_is_reported_without_a_look() {
    let (world, task, mut watch) = World::watched().await;
    world.engine.cancel(&task.key()).await.unwrap();
    world.counting(|_| true);
    world.expect_events(&mut watch, &["changed", "cancelled", "ended", "close with 0"]).await;
    assert_eq!(world.looked_ms(), [0; 0]);
}

#[tokio::test]
async fn a_look_that_is_dropped_is_made_again_at_once() {
    let world = World::new();
    // Seldom, the store's thread answers before the look can be dropped.
    for _ in 0..1_000 {
        let task = world.running().await;
        let mut watch = world.watch(&[&task]);
        world.expect_events(&mut watch, &["changed", "working"]).await;
        world.apply(&task, given::progress(1, world.clock.now(), 1.0)).await;
        world.engine.extend_retention(&task.key(), 40_000_000).await.unwrap();
        if watch.next().now_or_never().is_none() {
            world.expect_events(&mut watch, &["changed", "progress 1"]).await;
            assert_eq!(world.now_ms(), 0);
            return;
        }
    }
    panic!("no look was dropped");
}
