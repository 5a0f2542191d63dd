//! Races in later attempts: the outcome stays, and what lost comes no further than it had come.
#![expect(clippy::excessive_nesting, reason = "a tool with branches consists of futures in futures")]

use std::convert::Infallible;

use futures::future::{BoxFuture, join_all};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use longhaul_core::{Cleanup, EntryKind};
use longhaul_engine::{Attempt, Retry};
use longhaul_testkit::{Fault, StoreCall, given};

use super::compensation::{Log, armed, cleanup, compensating, failed};
use super::races::{MINUTE_MS, entries, result_of, step};
use super::world::{Tool, World, answers, completed, tool};

const LEASE_MS: u64 = 30_000;

/// Sleeps so many minutes.
pub(super) async fn nap(attempt: &Attempt, name: &str, minutes: u64) {
    attempt.named_sleep_until(name, attempt.now().plus_ms(minutes * MINUTE_MS)).await;
}

/// Two suppliers that answer after three minutes and after two. Their sleeps have the same name.
fn suppliers() -> Tool {
    tool(|attempt| async move {
        let branches = [("\"north\"", 3), ("\"south\"", 2)].map(|(supplier, minutes)| {
            let attempt = attempt.clone();
            async move {
                nap(&attempt, "answer", minutes).await;
                supplier
            }
        });
        let supplier = attempt.race("supplier", branches).await;
        nap(&attempt, "answer", 10).await;
        completed(supplier)
    })
}

#[tokio::test]
async fn sleeps_of_one_name_in_two_branches_and_after_the_race_are_three() {
    let (world, key) = World::with_key().await;
    world.work_until_ended(&key, &suppliers(), MINUTE_MS, 20).await;
    assert_eq!(result_of(&world, &key).await, "\"south\"");
    assert_eq!(world.now(), given::NOW.plus_ms(12 * MINUTE_MS));
}

#[tokio::test]
async fn sleeps_that_are_the_branches_keep_their_numbers() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let sleep = |minutes: u64| attempt.named_sleep_until("pause", attempt.now().plus_ms(minutes * MINUTE_MS));
        attempt.race("first", [3, 2].map(sleep)).await;
        sleep(10).await;
        completed("1")
    });
    world.work_until_ended(&key, &tool, MINUTE_MS, 20).await;
    assert_eq!(world.now(), given::NOW.plus_ms(12 * MINUTE_MS));
    let expected = ["step first", "timer pause#1", "timer pause#2", "timer pause#3"];
    assert_eq!(entries(&world, &key).await, expected);
}

#[tokio::test]
async fn a_worker_that_dies_after_it_recorded_the_winner_changes_nothing() {
    let (world, key) = World::with_key().await;
    let tool = suppliers();
    world.work(&tool).await;
    world.clock.advance_ms(2 * MINUTE_MS);
    let mut dies = true;
    world.store.follow(move |call| match call {
        StoreCall::Record(_, entry) if entry.kind == EntryKind::Step && std::mem::take(&mut dies) => Fault::DiesAfter,
        _ => Fault::None,
    });
    let delivery = world.receive().await.unwrap();
    drop(world.begun(&delivery, &tool));
    // By then, the first branch in the list would be ready too.
    world.clock.advance_ms(2 * MINUTE_MS);
    world.work_until_ended(&key, &tool, MINUTE_MS, 20).await;
    assert_eq!(result_of(&world, &key).await, "\"south\"");
}

/// The store has a branch's recorded text, and another attempt its own.
#[tokio::test]
async fn an_attempt_whose_winner_came_second_yields_to_the_recorded_one() {
    let (world, key) = World::with_key().await;
    let tool = suppliers();
    world.work(&tool).await;
    world.clock.advance_ms(2 * MINUTE_MS);
    let entry = longhaul_core::Entry {
        kind: EntryKind::Step,
        name: "supplier".to_owned(),
        value: longhaul_core::Payload::Inline(r#"{"won":0}"#.to_owned()),
        recording: None,
    };
    let delivery = world.receive().await.unwrap();
    let (fake, task) = (std::sync::Arc::clone(&world.fake), key);
    let mut is_first = true;
    world.store.follow(move |call| {
        if matches!(call, StoreCall::Record(..)) && std::mem::take(&mut is_first) {
            let recorded = longhaul_core::ports::TaskStore::record(&*fake, &task, &entry).now_or_never();
            recorded.unwrap().unwrap();
        }
        Fault::None
    });
    world.deliver(&delivery, &tool).await;
    world.work_until_ended(&key, &tool, MINUTE_MS, 20).await;
    assert_eq!(result_of(&world, &key).await, "\"north\"");
}

/// A step that is due within a minute, and asks before.
fn charges(log: &Log) -> Tool {
    let log = log.clone();
    tool(move |attempt| {
        let log = log.clone();
        async move {
            let charged = async {
                let answer = attempt.ask("ok", "{}".to_owned()).await;
                log.step(&attempt, "charge").await;
                answer
            };
            let charged = attempt.timeout("minute", MINUTE_MS, charged).await;
            nap(&attempt, "pause", 1).await;
            completed(if charged.is_some() { "1" } else { "0" })
        }
    })
}

#[tokio::test]
async fn a_future_begins_no_step_when_the_deadline_has_passed_while_no_worker_ran() {
    let ((world, key), log) = (World::with_key().await, Log::default());
    let tool = charges(&log);
    world.work(&tool).await;
    world.clock.advance_ms(5 * MINUTE_MS);
    world.engine.answer(&key, &answers("ok", "1")).await.unwrap();
    world.work_until_ended(&key, &tool, MINUTE_MS, 5).await;
    assert_eq!((result_of(&world, &key).await.as_str(), log.take()), ("0", Vec::new()));
}

/// The recorded answer is loaded from elsewhere, while the deadline has passed already.
#[tokio::test]
async fn a_large_answer_counts_although_it_takes_longer_to_load_than_the_deadline_is_away() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let answer = attempt.timeout("minute", MINUTE_MS, attempt.ask("ok", "{}".to_owned())).await;
        completed(if answer.is_some() { "1" } else { "0" })
    });
    world.work(&tool).await;
    let large = format!("\"{}\"", "x".repeat(100_000));
    world.engine.answer(&key, &answers("ok", &large)).await.unwrap();
    world.clock.advance_ms(5 * MINUTE_MS);
    let mut fails = true;
    world.store_fails(move |call| matches!(call, StoreCall::Parts(..)) && std::mem::take(&mut fails));
    world.while_time_passes(10, world.work(&tool)).await;
    assert_eq!(result_of(&world, &key).await, "1");
}

#[tokio::test]
async fn races_inside_races_and_in_a_loop_have_the_same_winners_in_every_attempt() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let mut winners = Vec::new();
        for round in 0..3 {
            let branch = |number: u64| {
                let attempt = &attempt;
                async move {
                    let naps = [4, 2].map(|minutes| async move {
                        nap(attempt, "nap", minutes + number).await;
                        step(attempt, &format!("{round}.{number}.{minutes}"), &minutes.to_string()).await
                    });
                    let won = attempt.race(&format!("inner {round}.{number}"), naps).await;
                    nap(attempt, "more", number).await;
                    format!("{number}{won}")
                }
            };
            winners.push(attempt.race(&format!("outer {round}"), [3, 1, 2].map(branch)).await);
        }
        completed(&winners.join(""))
    });
    world.work_until_ended(&key, &tool, MINUTE_MS, 30).await;
    assert_eq!((result_of(&world, &key).await.as_str(), world.now()), ("121212", given::NOW.plus_ms(12 * MINUTE_MS)));
    let steps: Vec<_> = entries(&world, &key).await.into_iter().filter(|entry| entry.starts_with("step 0")).collect();
    assert_eq!(steps, ["step 0.1.2"], "the step of the third branch is due when the second one ends");
}

/// Both branches wait in containers that poll only what was woken.
#[tokio::test]
async fn branches_of_many_concurrent_steps_all_run() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let many = |branch: usize| {
            let attempt = &attempt;
            async move {
                let steps: FuturesUnordered<_> = (0..40)
                    .map(|number| async move {
                        step(attempt, &format!("{branch}.{number}"), "1").await;
                        nap(attempt, &format!("{number}"), branch as u64).await;
                    })
                    .collect();
                steps.count().await
            }
        };
        let count = attempt.race("first", [many(3), many(2)]).await;
        nap(&attempt, "pause", 10).await;
        completed(&count.to_string())
    });
    world.work_until_ended(&key, &tool, MINUTE_MS, 20).await;
    assert_eq!((result_of(&world, &key).await.as_str(), entries(&world, &key).await.len()), ("40", 162));
}

#[tokio::test]
async fn a_race_of_a_thousand_branches_fits_into_the_record() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let branches = (0..1_000).map(|number| {
            let minutes = if number == 999 { 1 } else { 9 };
            nap(&attempt, "nap", minutes).map(move |()| number)
        });
        let won = attempt.race("first", branches).await;
        nap(&attempt, "pause", 1).await;
        completed(&won.to_string())
    });
    world.work_until_ended(&key, &tool, MINUTE_MS, 5).await;
    assert_eq!(result_of(&world, &key).await, "999");
}

#[tokio::test]
async fn times_and_draws_in_a_branch_are_the_same_in_every_attempt() {
    let ((world, key), log) = (World::with_key().await, Log::default());
    let noted = log.clone();
    let tool = tool(move |attempt| {
        let log = noted.clone();
        async move {
            let branch = |number: u64| {
                let (attempt, log) = (&attempt, &log);
                async move {
                    nap(attempt, "nap", number).await;
                    let drawn = (attempt.recorded_now().as_ms() - given::NOW.as_ms(), attempt.next_draw());
                    log.note(&format!("{number} {drawn:?}"));
                    nap(attempt, "nap", number).await;
                }
            };
            attempt.race("first", [2, 1].map(branch)).await;
            nap(&attempt, "pause", 1).await;
            log.note(&attempt.next_draw());
            completed("1")
        }
    });
    world.work_until_ended(&key, &tool, MINUTE_MS, 9).await;
    let noted = log.take();
    let each: std::collections::BTreeSet<_> = noted.iter().cloned().collect();
    assert_eq!((noted.len(), each.len()), (6, 3), "{noted:?}");
}

/// A booking that has to be confirmed within a minute, and a task that fails ten minutes later.
fn books(log: &Log) -> Tool {
    let log = log.clone();
    compensating(move |attempt| {
        let log = log.clone();
        async move {
            let booking = async {
                log.step(&attempt, "hotel").await;
                log.undone_by(&attempt, "cancel hotel", 0, Retry::never()).await;
                attempt.ask("ok", "{}".to_owned()).await;
                log.undone_by(&attempt, "cancel train", 0, Retry::never()).await;
                log.step(&attempt, "train").await;
            };
            let hint = async {
                let Ok(hint) = attempt.step("hint", async || Ok::<_, Infallible>("1".to_owned())).await;
                log.undone_by(&attempt, "cancel hint", 0, Retry::never()).await;
                nap(&attempt, "nap", 1).await;
                hint
            };
            let branches: [BoxFuture<'_, ()>; 2] = [booking.boxed(), hint.map(drop).boxed()];
            attempt.race("first", branches).await;
            nap(&attempt, "pause", 10).await;
            log.undone_by(&attempt, "cancel all", 0, Retry::never()).await;
            failed()
        }
    })
}

#[tokio::test]
async fn the_steps_of_a_branch_that_lost_are_undone_and_no_others() {
    let (world, log) = (World::new(), Log::default());
    let (tool, key) = (books(&log), armed(&world).await);
    for answered in [false, false, true] {
        if answered {
            world.engine.answer(&key, &answers("ok", "1")).await.unwrap();
        }
        world.work(&tool).await;
        world.clock.advance_ms(MINUTE_MS);
    }
    world.work_until_ended(&key, &tool, MINUTE_MS, 20).await;
    for _ in 0..3 {
        world.clock.advance_ms(LEASE_MS);
        world.work(&tool).await;
    }
    assert_eq!(log.take(), ["hotel", "cancel all", "cancel hint", "cancel hotel"]);
    assert_eq!(cleanup(&world, &key).await, Cleanup::Done);
}

/// The last write of the step was under way when its branch lost.
#[tokio::test]
async fn a_step_whose_record_arrives_after_its_branch_has_lost_holds_nothing_up() {
    let (world, log) = (World::new(), Log::default());
    let noted = log.clone();
    let tool = compensating(move |attempt| {
        let log = noted.clone();
        async move {
            let steps = ["a", "b"].map(|name| {
                let (attempt, log) = (&attempt, &log);
                async move {
                    log.undone_by(attempt, &format!("cancel {name}"), 0, Retry::never()).await;
                    log.step(attempt, name).await;
                }
            });
            attempt.timeout("second", 1_000, join_all(steps)).await;
            nap(&attempt, "pause", 2).await;
            failed()
        }
    });
    let mut hangs = true;
    world.store.follow(move |call| match call {
        StoreCall::Record(_, entry) if entry.name == "a" && std::mem::take(&mut hangs) => Fault::HangsAfter,
        _ => Fault::None,
    });
    let key = armed(&world).await;
    world.while_time_passes(100, world.work_until_ended(&key, &tool, MINUTE_MS, 5)).await;
    for _ in 0..3 {
        world.clock.advance_ms(LEASE_MS);
        world.while_time_passes(100, world.work(&tool)).await;
    }
    assert_eq!(log.take(), ["a", "b", "cancel b", "cancel a"]);
    assert_eq!(cleanup(&world, &key).await, Cleanup::Done);
}
