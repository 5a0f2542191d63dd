//! Branches that are passed to a race by reference, and continue after they have lost.
#![expect(clippy::excessive_nesting, reason = "a tool with branches consists of futures in futures")]

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use longhaul_core::ports::TaskStore;
use longhaul_core::{Entry, EntryKind, Payload, State};
use longhaul_engine::Attempt;
use longhaul_testkit::{Fault, StoreCall, given};

use super::compensation::Log;
use super::races::{MINUTE_MS, result_of};
use super::races_lost::nap;
use super::world::{Tool, World, answers, completed, tool};

#[tokio::test]
async fn work_that_is_passed_by_reference_continues_through_two_timeouts() {
    let ((world, key), log) = (World::with_key().await, Log::default());
    let noted = log.clone();
    let tool = tool(move |attempt| {
        let log = noted.clone();
        async move {
            let work = async {
                log.step(&attempt, "a").await;
                nap(&attempt, "pause", 3).await;
                attempt.race("inner", [nap(&attempt, "long", 9).boxed(), nap(&attempt, "short", 2).boxed()]).await;
                log.step(&attempt, "b").await;
            };
            let mut work = pin!(work);
            for number in 1..10 {
                if attempt.timeout(&format!("part {number}"), 2 * MINUTE_MS, &mut work).await.is_some() {
                    nap(&attempt, "pause", 1).await;
                    return completed(&number.to_string());
                }
                nap(&attempt, "between", 0).await;
            }
            completed("0")
        }
    });
    world.work_until_ended(&key, &tool, MINUTE_MS, 20).await;
    assert_eq!(result_of(&world, &key).await, "3");
    assert_eq!((log.take(), world.now()), (vec!["a".to_owned(), "b".to_owned()], given::NOW.plus_ms(6 * MINUTE_MS)));
}

/// Its step `slow` hangs the first time.
async fn slow(attempt: &Attempt, hangs: &AtomicBool) -> String {
    let work = async || {
        if hangs.swap(false, Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        Ok::<_, Infallible>("1".to_owned())
    };
    let Ok(text) = attempt.step("slow", work).await;
    text
}

/// A tool that asks when its step takes longer than a second, and then continues with the step.
fn asks_when_it_is_slow() -> Tool {
    let hangs = Arc::new(AtomicBool::new(true));
    tool(move |attempt| {
        let hangs = Arc::clone(&hangs);
        async move {
            let mut step = pin!(slow(&attempt, &hangs));
            match attempt.timeout("second", 1_000, &mut step).await {
                Some(_) => completed("0"),
                None => {
                    attempt.ask("ok", "{}".to_owned()).await;
                    completed(&step.await)
                }
            }
        }
    })
}

#[tokio::test]
async fn a_step_that_nobody_polls_does_not_keep_a_question_from_the_client() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    let tool = asks_when_it_is_slow();
    let mut attempt = world.begun(&delivery, &tool);
    world.clock.advance_ms(1_000);
    assert!(attempt.as_mut().now_or_never().is_some(), "the attempt waits for the step");
    drop(attempt);
    let state = world.on_record(&key).await.state.clone();
    assert!(matches!(state, State::InputRequired { .. }), "{state:?}");
    world.engine.answer(&key, &answers("ok", "1")).await.unwrap();
    world.work_until_ended(&key, &tool, MINUTE_MS, 5).await;
    assert_eq!(result_of(&world, &key).await, "1");
}

/// While the step hangs, an attempt that lost its lease records that it was in time.
#[tokio::test]
async fn an_attempt_yields_to_the_recorded_winner_while_a_step_of_a_branch_runs() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    let tool = asks_when_it_is_slow();
    let value = Payload::Inline(r#"{"won":0}"#.to_owned());
    let entry = Entry { kind: EntryKind::Step, name: "second".to_owned(), value, recording: None };
    let fake = Arc::clone(&world.fake);
    world.store.follow(move |call| {
        if matches!(call, StoreCall::Record(_, entry) if entry.kind == EntryKind::Step && entry.name == "second") {
            fake.record(&key, &entry).now_or_never().unwrap().unwrap();
        }
        Fault::None
    });
    let mut attempt = world.begun(&delivery, &tool);
    world.clock.advance_ms(1_000);
    assert!(attempt.as_mut().now_or_never().is_some(), "the attempt waits for the step");
    drop(attempt);
    world.work_until_ended(&key, &tool, MINUTE_MS, 5).await;
    assert_eq!(result_of(&world, &key).await, "0");
}
