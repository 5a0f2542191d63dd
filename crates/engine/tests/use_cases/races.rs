//! Races and timeouts: every attempt takes the branch that came first, and waits hold no worker.
#![expect(clippy::excessive_nesting, reason = "a tool with branches consists of futures in futures")]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use longhaul_core::ports::TaskStore;
use longhaul_core::{FailureKind, State, Status, TaskKey};
use longhaul_engine::{Attempt, AttemptEnd};
use longhaul_testkit::given;

use super::world::{Tool, World, answers, completed, tool};

pub(super) const MINUTE_MS: u64 = 60_000;

/// A tool that asks for at most a minute, then sleeps for ten, and returns the answer, or that there was none.
fn asks_for_a_minute() -> Tool {
    tool(|attempt| async move {
        let answer = attempt.timeout("minute", MINUTE_MS, attempt.ask("ok", "{}".to_owned())).await;
        attempt.named_sleep_until("pause", attempt.now().plus_ms(10 * MINUTE_MS)).await;
        completed(&answer.unwrap_or_else(|| "0".to_owned()))
    })
}

pub(super) async fn result_of(world: &World, key: &TaskKey) -> String {
    let task = world.on_record(key).await;
    let State::Completed { result, .. } = &task.state else { panic!("it has not completed: {:?}", task.state) };
    world.engine.load(key, result).await.unwrap()
}

async fn failure_of(play: fn(Attempt) -> BoxFuture<'static, AttemptEnd>) -> (FailureKind, String) {
    let (world, key) = World::with_key().await;
    world.work(&tool(play)).await;
    let State::Failed { failure } = world.on_record(&key).await.state.clone() else { panic!("it did not fail") };
    (failure.kind, failure.message)
}

pub(super) async fn entries(world: &World, key: &TaskKey) -> Vec<String> {
    let journal = world.store.journal(key).await.unwrap();
    let mut names: Vec<_> =
        journal.into_iter().map(|entry| format!("{} {}", entry.kind.as_str(), entry.name)).collect();
    names.sort();
    names
}

/// Its step `name` records this number, which is JSON.
pub(super) async fn step(attempt: &Attempt, name: &str, value: &str) -> String {
    let Ok(text) = attempt.step(name, async || Ok::<_, Infallible>(value.to_owned())).await;
    text
}

#[tokio::test]
async fn a_task_that_waits_for_a_question_resumes_at_its_timeout_and_withdraws_it() {
    let (world, key) = World::with_key().await;
    let deadline = world.now().plus_ms(MINUTE_MS);
    let tool = asks_for_a_minute();
    world.work(&tool).await;
    let state = world.on_record(&key).await.state.clone();
    assert!(matches!(&state, State::InputRequired { until, .. } if *until == Some(deadline)), "{state:?}");
    world.clock.advance_ms(MINUTE_MS);
    world.work(&tool).await;
    let task = world.on_record(&key).await;
    assert!(matches!(task.state, State::Sleeping { .. }), "{:?}", task.state);
    assert!(task.state.asks().is_empty());
    // A client that saw the question before may still send its answer, which changes nothing.
    world.engine.answer(&key, &answers("ok", "1")).await.unwrap();
    world.clock.advance_ms(10 * MINUTE_MS);
    world.work(&tool).await;
    assert_eq!((result_of(&world, &key).await.as_str(), tool.runs()), ("0", 3));
    assert_eq!(entries(&world, &key).await, ["answer ok", "step minute", "timer minute#timeout", "timer pause#1"]);
}

#[tokio::test]
async fn an_answer_in_time_stays_in_time_in_every_later_attempt() {
    let (world, key) = World::with_key().await;
    let tool = asks_for_a_minute();
    world.work(&tool).await;
    world.clock.advance_ms(MINUTE_MS / 2);
    world.engine.answer(&key, &answers("ok", "1")).await.unwrap();
    world.work(&tool).await;
    assert!(matches!(world.on_record(&key).await.state, State::Sleeping { .. }), "long after the timeout");
    world.clock.advance_ms(10 * MINUTE_MS);
    world.work(&tool).await;
    assert_eq!((result_of(&world, &key).await.as_str(), tool.runs()), ("1", 3));
}

#[tokio::test]
async fn a_signal_that_comes_after_its_timeout_changes_nothing() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let signal = attempt.signal("paid", attempt.task().created_at, None);
        let paid = attempt.timeout("minute", MINUTE_MS, signal).await.flatten();
        attempt.named_sleep_until("pause", attempt.now().plus_ms(10 * MINUTE_MS)).await;
        completed(&paid.unwrap_or_else(|| "0".to_owned()))
    });
    world.work(&tool).await;
    world.clock.advance_ms(MINUTE_MS);
    world.work(&tool).await;
    world.engine.record_signal(&key, "paid", "1").await.unwrap();
    world.work_until_ended(&key, &tool, MINUTE_MS, 20).await;
    assert_eq!(result_of(&world, &key).await, "0");
}

#[tokio::test]
async fn a_step_that_takes_too_long_is_dropped_at_the_timeout() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    let tool = tool(|attempt| async move {
        let hangs = attempt.step("hangs", std::future::pending::<Result<String, Infallible>>);
        let in_time = attempt.timeout("second", 1_000, hangs).await;
        completed(if in_time.is_some() { "1" } else { "0" })
    });
    let mut attempt = world.begun(&delivery, &tool);
    world.clock.advance_ms(999);
    assert!(attempt.as_mut().now_or_never().is_none());
    world.clock.advance_ms(1);
    assert!(attempt.as_mut().now_or_never().is_some());
    assert_eq!((result_of(&world, &key).await.as_str(), tool.runs()), ("0", 1));
}

/// A question is asked for a minute, and for one more: its future goes on.
#[tokio::test]
async fn a_future_that_is_passed_by_reference_goes_on_after_its_timeout() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let mut question = Box::pin(attempt.ask("ok", "{}".to_owned()));
        if attempt.timeout("first", MINUTE_MS, &mut question).await.is_some() {
            return completed("1");
        }
        step(&attempt, "remind", "1").await;
        completed(&attempt.timeout("second", MINUTE_MS, &mut question).await.unwrap_or_else(|| "0".to_owned()))
    });
    world.work(&tool).await;
    world.clock.advance_ms(MINUTE_MS);
    world.work(&tool).await;
    let state = world.on_record(&key).await.state.clone();
    let until = world.now().plus_ms(MINUTE_MS);
    assert!(matches!(&state, State::InputRequired { until: at, .. } if *at == Some(until)), "{state:?}");
    world.engine.answer(&key, &answers("ok", "7")).await.unwrap();
    world.work(&tool).await;
    assert_eq!(result_of(&world, &key).await, "7");
}

#[tokio::test]
async fn a_branch_that_lost_comes_no_further_in_later_attempts() {
    let (world, key) = World::with_key().await;
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let tool = tool(move |attempt| {
        let runs = Arc::clone(&count);
        async move {
            let slow = async {
                runs.fetch_add(1, Ordering::Relaxed);
                step(&attempt, "order", "1").await;
                attempt.named_sleep_until("pause", attempt.now().plus_ms(2 * MINUTE_MS)).await;
                step(&attempt, "late", "1").await;
                "1"
            };
            let fast = async {
                attempt.named_sleep_until("fast", attempt.now().plus_ms(MINUTE_MS)).await;
                "2"
            };
            let first = attempt.race("first", [slow.boxed(), fast.boxed()]).await;
            // The sleep of the branch that lost has the same name.
            attempt.named_sleep_until("pause", attempt.now().plus_ms(10 * MINUTE_MS)).await;
            completed(first)
        }
    });
    world.work_until_ended(&key, &tool, MINUTE_MS, 20).await;
    assert_eq!((result_of(&world, &key).await.as_str(), runs.load(Ordering::Relaxed)), ("2", 3));
    let expected = ["step first", "step order", "timer fast#1@first.1", "timer pause#1", "timer pause#1@first.0"];
    assert_eq!(entries(&world, &key).await, expected);
    assert_eq!(world.now(), given::NOW.plus_ms(11 * MINUTE_MS), "the second pause was a whole one");
}

#[tokio::test]
async fn a_race_takes_one_write_in_addition_to_those_of_its_branches() {
    let (world, _key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let branches = ["a", "b"].map(|name| step(&attempt, name, "1"));
        completed(&attempt.race("first", branches).await)
    });
    world.took();
    world.work(&tool).await;
    // The fakes answer at once: the second branch begins nothing once the first one has ended.
    assert_eq!(world.took().iter().filter(|call| *call == "record").count(), 2);
}

#[tokio::test]
async fn two_of_one_name_no_branches_and_a_timeout_beyond_the_deadline_are_misuse() {
    let twice = "two of the tool's steps, races and timeouts have the name `a`; give each its own";
    let two_timeouts = failure_of(|attempt| {
        Box::pin(async move {
            for _ in 0..2 {
                attempt.timeout("a", 1_000, async {}).await;
            }
            completed("1")
        })
    });
    assert_eq!(two_timeouts.await, (FailureKind::Misuse, twice.to_owned()));
    let two_races = failure_of(|attempt| {
        Box::pin(async move {
            for _ in 0..2 {
                attempt.race("a", [async {}]).await;
            }
            completed("1")
        })
    });
    assert_eq!(two_races.await, (FailureKind::Misuse, twice.to_owned()));
    let empty = failure_of(|attempt| {
        Box::pin(async move {
            attempt.race("a", Vec::<BoxFuture<'static, ()>>::new()).await;
            completed("1")
        })
    });
    let message = "the race `a` has no branches: give it at least one";
    assert_eq!(empty.await, (FailureKind::Misuse, message.to_owned()));
    let named_so = failure_of(|attempt| {
        Box::pin(async move {
            attempt.timeout("since noon", 1_000, async {}).await;
            completed("1")
        })
    });
    assert_eq!(named_so.await.0, FailureKind::Misuse);
    let (kind, message) = failure_of(|attempt| {
        Box::pin(async move {
            attempt.timeout("a", u64::MAX / 2, async {}).await;
            completed("1")
        })
    })
    .await;
    assert_eq!(kind, FailureKind::TimedOut);
    assert!(message.starts_with("the timeout `a` would take "), "{message}");
}

#[tokio::test]
async fn a_tool_with_fewer_branches_than_the_recorded_race_fails() {
    let (world, key) = World::with_key().await;
    let of = |branches: usize| {
        tool(move |attempt| async move {
            let branches = (0..branches).map(|number| {
                let until = attempt.now().plus_ms(if number == 1 { 0 } else { 10 * MINUTE_MS });
                attempt.sleep_until(until)
            });
            attempt.race("first", branches).await;
            attempt.sleep_ms(MINUTE_MS).await;
            completed("1")
        })
    };
    world.work(&of(2)).await;
    assert_eq!(world.on_record(&key).await.status(), Status::Working);
    world.clock.advance_ms(MINUTE_MS);
    world.work(&of(1)).await;
    let State::Failed { failure } = world.on_record(&key).await.state.clone() else { panic!("it did not fail") };
    let message = "branch 2 of the race `first` is recorded as the first, and the tool has 1";
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Corrupt, message));
}
