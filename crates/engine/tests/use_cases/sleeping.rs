//! Short sleeps stay in their attempt, long ones end it, and a sleep that is due does not wait.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt;
use longhaul_core::ports::{Message, TaskStore, WorkQueue};
use longhaul_core::{Entry, EntryKind, FailureKind, State, Status};
use longhaul_engine::{Disposition, Settings, WorkerSignals};
use longhaul_testkit::{ManualClock, given};

use super::world::{Tool, World, completed, sleeps, tool};

/// The state after the first attempt of a tool that sleeps, as far as it gets without time passing.
async fn state_after_first_attempt(world: &World, tool: &Tool) -> State {
    let key = world.accepted().await.key();
    let delivery = world.receive().await.unwrap();
    let signals = WorkerSignals::default();
    let _waits_or_ended = pin!(world.engine.run_delivery(&delivery, tool, &signals)).now_or_never();
    world.on_record(&key).await.state.clone()
}

#[tokio::test]
async fn a_sleep_of_at_most_the_limit_stays_in_its_attempt() {
    let world = World::new();
    assert!(matches!(state_after_first_attempt(&world, &sleeps(1_000)).await, State::Running { .. }));
    let world = World::new();
    let until = world.now().plus_ms(1_001);
    assert_eq!(state_after_first_attempt(&world, &sleeps(1_001)).await, State::Sleeping { until });
}

#[tokio::test]
async fn a_sleep_that_does_not_fit_into_its_attempt_ends_it() {
    let settings = Settings { attempt_ms_max: Some(1_000), attempt_margin_ms: 300, ..Settings::default() };
    let world = World::with(settings);
    assert!(matches!(state_after_first_attempt(&world, &sleeps(699)).await, State::Running { .. }));
    let world = World::with(settings);
    assert!(matches!(state_after_first_attempt(&world, &sleeps(700)).await, State::Sleeping { .. }));
}

#[tokio::test]
async fn a_sleep_in_its_attempt_lasts_as_long_as_asked() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    let tool = sleeps(500);
    let mut attempt = world.begun(&delivery, &tool);
    world.clock.advance_ms(499);
    assert!(attempt.as_mut().now_or_never().is_none());
    world.clock.advance_ms(1);
    assert!(attempt.as_mut().now_or_never().is_some());
    assert_eq!(world.on_record(&key).await.status(), Status::Completed);
}

#[tokio::test]
async fn a_sleep_that_is_due_does_not_end_the_attempt_however_near_its_end_is() {
    let settings = Settings { attempt_ms_max: Some(1_000), attempt_margin_ms: 300, ..Settings::default() };
    let world = World::with(settings);
    let key = world.accepted().await.key();
    let clock = Arc::clone(&world.clock);
    let tool = tool(move |attempt| {
        let clock = Arc::clone(&clock);
        async move {
            clock.advance_ms(900);
            attempt.sleep_ms(0).await;
            completed("1")
        }
    });
    world.work(&tool).await;
    assert_eq!((tool.runs(), world.on_record(&key).await.status()), (1, Status::Completed));
}

#[tokio::test]
async fn attempts_that_are_shorter_than_the_margin_do_one_step_each() {
    let settings = Settings { attempt_ms_max: Some(100), attempt_margin_ms: 300, ..Settings::default() };
    let world = World::with(settings);
    let key = world.accepted().await.key();
    let tool = tool(|attempt| async move {
        for name in ["a", "b", "c"] {
            let Ok(_text) = attempt.step(name, async || Ok::<_, Infallible>("1".to_owned())).await;
        }
        completed("1")
    });
    world.work(&tool).await;
    assert_eq!((tool.runs(), world.on_record(&key).await.status()), (3, Status::Completed));
}

/// A tool with a step that takes so long, and one that takes no time.
fn long_then_short(clock: Arc<ManualClock>, long_ms: u64) -> Tool {
    tool(move |attempt| {
        let clock = Arc::clone(&clock);
        async move {
            let long = async || {
                clock.advance_ms(long_ms);
                Ok::<_, Infallible>("1".to_owned())
            };
            let Ok(_text) = attempt.step("a", long).await;
            let Ok(_text) = attempt.step("b", async || Ok::<_, Infallible>("1".to_owned())).await;
            completed("1")
        }
    })
}

#[tokio::test]
async fn no_step_is_started_within_the_margin() {
    for (passed_ms, runs) in [(699, 1), (700, 2)] {
        let settings = Settings { attempt_ms_max: Some(1_000), attempt_margin_ms: 300, ..Settings::default() };
        let world = World::with(settings);
        world.accepted().await;
        let tool = long_then_short(Arc::clone(&world.clock), passed_ms);
        world.work(&tool).await;
        assert_eq!(tool.runs(), runs, "after {passed_ms} ms");
    }
}

#[tokio::test]
async fn the_earliest_of_several_sleeps_wakes_the_task() {
    let world = World::new();
    let until = world.now().plus_ms(60_000);
    let tool = tool(|attempt| async move {
        let sleeps = [90_000, 60_000, 120_000].map(|ms| Box::pin(attempt.sleep_ms(ms)));
        drop(futures::future::select_all(sleeps).await);
        completed("1")
    });
    assert_eq!(state_after_first_attempt(&world, &tool).await, State::Sleeping { until });
}

#[tokio::test]
async fn a_task_with_a_question_and_a_short_sleep_wakes_at_the_moment() {
    let world = World::new();
    let moment = world.now().plus_ms(500);
    let tool = tool(|attempt| async move {
        let ask = pin!(attempt.ask("a", "{}".to_owned()));
        let sleep = pin!(attempt.sleep_ms(500));
        drop(futures::future::select(ask, sleep).await);
        completed("1")
    });
    let state = state_after_first_attempt(&world, &tool).await;
    assert!(matches!(&state, State::InputRequired { until, .. } if *until == Some(moment)), "{state:?}");
}

/// A worker that died may have sent a message in place of the one that is delivered again.
#[tokio::test]
async fn a_message_that_comes_early_again_is_hidden_until_it_is_due_and_not_copied() {
    let world = World::new();
    let (key, tool) = (world.accepted().await.key(), sleeps(1_000_000));
    world.work(&tool).await;
    world.queue.send(&Message { task: key, trace: None, attempt: None }, 0).await.unwrap();
    world.delays();
    let early = world.receive().await.unwrap();
    world.queue.extend(&early.receipt, 0).await.unwrap();
    let again = world.receive().await.unwrap();
    assert_eq!(again.receives, 2);
    let signals = WorkerSignals::default();
    let hidden = world.engine.run_delivery(&again, &tool, &signals).await;
    assert_eq!((hidden, world.delays()), (Disposition::RetryAfter { after_ms: 1_000_000 }, Vec::new()));
}

/// A tool that sleeps for a minute under each of these names.
fn sleeps_named(names: &'static [&'static str]) -> Tool {
    tool(move |attempt| async move {
        for name in names {
            attempt.named_sleep_until(name, attempt.now().plus_ms(60_000)).await;
        }
        completed("1")
    })
}

#[tokio::test]
async fn sleeps_are_recorded_by_their_names_and_those_of_one_name_are_counted() {
    let (world, key) = World::with_key().await;
    world.work_until_ended(&key, &sleeps_named(&["a", "b", "a"]), 60_000, 60).await;
    let mut names: Vec<_> = world.store.journal(&key).await.unwrap().into_iter().map(|entry| entry.name).collect();
    names.sort();
    assert_eq!(names, ["a#1", "a#2", "b#1"]);
}

#[tokio::test]
async fn an_inserted_sleep_changes_no_other() {
    let (world, key) = World::with_key().await;
    let until = world.now().plus_ms(60_000);
    world.work(&sleeps_named(&["old"])).await;
    world.clock.advance_ms(30_000);
    let entries = world.store.journal(&key).await.unwrap();
    assert_eq!(entries[0].value, given::inline(&until.as_ms().to_string()));
    world.clock.advance_ms(30_000);
    world.work(&sleeps_named(&["new", "old"])).await;
    assert_eq!(world.on_record(&key).await.state, State::Sleeping { until: until.plus_ms(60_000) });
    world.clock.advance_ms(60_000);
    world.work(&sleeps_named(&["new", "old"])).await;
    assert_eq!(world.on_record(&key).await.status(), Status::Completed, "the old one is over");
}

#[tokio::test]
async fn a_sleep_that_was_recorded_without_a_name_is_the_same_sleep() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    world.killed_in_the_tool(&delivery).await;
    let until = world.now().plus_ms(600_000);
    let value = given::inline(&until.as_ms().to_string());
    let entry = Entry { kind: EntryKind::Timer, name: "0".to_owned(), value, recording: None };
    world.store.record(&key, &entry).await.unwrap();
    world.clock.advance_ms(world.engine.settings().lease_ms);
    world.work(&sleeps_named(&["named"])).await;
    assert_eq!(world.on_record(&key).await.state, State::Sleeping { until });
    assert_eq!(world.store.journal(&key).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_sleep_cannot_have_the_name_of_the_beginning_of_polls() {
    let (world, key) = World::with_key().await;
    world.work(&sleeps_named(&["since noon"])).await;
    let State::Failed { failure } = world.on_record(&key).await.state.clone() else { panic!("it did not fail") };
    assert_eq!(failure.kind, FailureKind::Misuse, "{}", failure.message);
}
