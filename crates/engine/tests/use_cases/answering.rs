//! Answers that come while an attempt works beside the question, and answers that are refused.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::{Either, OptionFuture, select};
use longhaul_core::ports::TaskStore;
use longhaul_core::{Payload, State, Status, TaskEvent, TaskKey, limits};
use longhaul_engine::{AnswerError, Attempt, AttemptEnd, Engine, Every, SignalRecorded};
use longhaul_testkit::{Fault, StoreCall};

use super::world::{Tool, World, answers, completed, tool};

const EVERY_MS: u64 = 60_000;

/// A tool that asks `ok` beside polls that find nothing. While poll number `at` runs, `meanwhile` happens.
fn asks_beside_polls<F>(
    engine: &Engine,
    at: usize,
    meanwhile: impl Fn(Engine, Attempt) -> F + Send + Sync + 'static,
) -> Tool
where
    F: Future<Output = ()> + Send + 'static,
{
    let (engine, polls, meanwhile) = (engine.clone(), Arc::new(AtomicUsize::new(0)), Arc::new(meanwhile));
    tool(move |attempt| {
        let (engine, polls, meanwhile) = (engine.clone(), Arc::clone(&polls), Arc::clone(&meanwhile));
        let now = attempt.clone();
        let poll = move || {
            let is_due = polls.fetch_add(1, Ordering::Relaxed) + 1 == at;
            let happens = is_due.then(|| meanwhile(engine.clone(), now.clone()));
            async move {
                OptionFuture::from(happens).await;
                Ok(None)
            }
        };
        ask_or_poll(attempt, poll)
    })
}

async fn ask_or_poll<F>(attempt: Attempt, poll: impl FnMut() -> F + Send) -> AttemptEnd
where
    F: Future<Output = Result<Option<String>, Infallible>> + Send,
{
    let every = Every::fixed(Duration::from_millis(EVERY_MS));
    let ask = pin!(attempt.ask("ok", "{}".to_owned()));
    let never = pin!(attempt.poll_until("never", every, poll));
    match select(ask, never).await {
        Either::Left((answer, _)) => completed(&answer),
        Either::Right(_) => AttemptEnd::Crashed { reason: "a poll found something".to_owned() },
    }
}

async fn answer(engine: Engine, attempt: Attempt) {
    assert_eq!(attempt.task().state.asks(), []);
    engine.answer(&attempt.task().key(), &answers("ok", "1")).await.unwrap();
}

/// The next poll is due, and everything is done that follows from it.
async fn poll_again(world: &World, tool: &Tool) {
    world.clock.advance_ms(EVERY_MS);
    world.work(tool).await;
}

async fn result(world: &World, key: &TaskKey) -> String {
    match &world.on_record(key).await.state {
        State::Completed { result: Payload::Inline(text), .. } => text.clone(),
        other => panic!("the task has no result: {other:?}"),
    }
}

#[tokio::test]
async fn an_answer_that_comes_while_an_attempt_runs_beside_the_question_is_used_at_once() {
    let (world, key) = World::with_key().await;
    let tool = asks_beside_polls(&world.engine, 2, answer);
    world.work(&tool).await;
    assert_eq!(world.on_record(&key).await.status(), Status::InputRequired);
    poll_again(&world, &tool).await;
    assert_eq!((result(&world, &key).await.as_str(), tool.runs()), ("1", 3));
}

#[tokio::test]
async fn such_an_answer_costs_what_any_answer_costs() {
    let (world, key) = World::with_key().await;
    let tool = asks_beside_polls(&world.engine, 2, answer);
    world.work(&tool).await;
    world.clock.advance_ms(EVERY_MS);
    world.took();
    let delivery = world.receive().await.unwrap();
    world.deliver(&delivery, &tool).await;
    assert_eq!(world.took(), ["claim", "journal", "get", "record", "answer", "suspend", "send"]);
    assert_eq!(world.on_record(&key).await.state, State::Queued);
}

#[tokio::test]
async fn such_an_answer_is_not_lost_if_the_suspension_is_written_twice() {
    let (world, key) = World::with_key().await;
    let tool = asks_beside_polls(&world.engine, 2, answer);
    world.work(&tool).await;
    let mut left = 1;
    world.store.follow(move |call| match call {
        StoreCall::Apply(_, TaskEvent::Suspend { .. }) if left > 0 => {
            left -= 1;
            Fault::After
        }
        _ => Fault::None,
    });
    world.clock.advance_ms(EVERY_MS);
    world.while_time_passes(10, world.work(&tool)).await;
    assert_eq!((result(&world, &key).await.as_str(), tool.runs()), ("1", 3));
}

#[tokio::test]
async fn such_an_answer_survives_an_attempt_that_dies_or_fails() {
    for fails in [false, true] {
        let (world, key) = World::with_key().await;
        let tool = asks_beside_polls(&world.engine, 3, answer);
        world.work(&tool).await;
        world.clock.advance_ms(EVERY_MS);
        let delivery = world.receive().await.unwrap();
        if fails {
            world.deliver(&delivery, &super::world::crashing()).await;
        } else {
            world.killed_in_the_tool(&delivery).await;
        }
        world.engine.answer(&key, &answers("ok", "1")).await.unwrap();
        let ended = world.work_until_ended(&key, &tool, EVERY_MS, 10).await;
        assert_eq!((ended.status(), result(&world, &key).await.as_str()), (Status::Completed, "1"), "fails: {fails}");
    }
}

/// Asks `a` and `b` beside a sleep. The second attempt answers `a`.
async fn ask_two_and_answer_one(attempt: Attempt, engine: Engine) -> AttemptEnd {
    if attempt.task().attempt == 2 {
        engine.answer(&attempt.task().key(), &answers("a", "1")).await.unwrap();
    }
    let sleep = async {
        attempt.sleep_ms(EVERY_MS).await;
        std::future::pending::<()>().await;
    };
    let both = futures::future::join(attempt.ask("a", "{}".to_owned()), attempt.ask("b", "{}".to_owned()));
    match select(pin!(both), pin!(sleep)).await {
        Either::Left(((a, b), _)) => completed(&format!("[{a},{b}]")),
        Either::Right(_) => AttemptEnd::Crashed { reason: "a sleep without end is over".to_owned() },
    }
}

#[tokio::test]
async fn one_of_two_answers_that_come_while_an_attempt_runs_leaves_the_other_question_open() {
    let (world, key) = World::with_key().await;
    let engine = world.engine.clone();
    let tool = tool(move |attempt| ask_two_and_answer_one(attempt, engine.clone()));
    world.work(&tool).await;
    poll_again(&world, &tool).await;
    let asks: Vec<_> = world.on_record(&key).await.state.asks().iter().map(|ask| ask.key.clone()).collect();
    assert_eq!(asks, ["b"]);
    world.engine.answer(&key, &answers("b", "2")).await.unwrap();
    world.work(&tool).await;
    assert_eq!(result(&world, &key).await, "[1,2]");
}

#[tokio::test]
async fn while_an_attempt_runs_an_answer_to_what_was_never_asked_is_ignored() {
    let (world, key) = World::with_key().await;
    let tool = asks_beside_polls(&world.engine, 2, |engine, attempt| async move {
        engine.answer(&attempt.task().key(), &answers("other", "1")).await.unwrap();
    });
    world.work(&tool).await;
    poll_again(&world, &tool).await;
    assert!(!world.took().contains(&"record".to_owned()));
    assert_eq!(world.on_record(&key).await.status(), Status::InputRequired);
}

#[tokio::test]
async fn of_answers_of_which_one_is_too_large_none_is_recorded() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let (a, b) = futures::future::join(attempt.ask("a", "{}".to_owned()), attempt.ask("b", "{}".to_owned())).await;
        completed(&format!("[{a},{b}]"))
    });
    world.work(&tool).await;
    let both = |a: &str, b: String| BTreeMap::from([("a".to_owned(), a.to_owned()), ("b".to_owned(), b)]);
    let too_large = both("1", "x".repeat(limits::ENTRY_BYTES_MAX + 1));
    let refused = world.engine.answer(&key, &too_large).await;
    assert!(matches!(refused, Err(AnswerError::TooLarge { ref key, .. }) if key == "b"), "{refused:?}");
    assert_eq!(world.store.journal(&key).await.unwrap(), []);
    world.engine.answer(&key, &both("2", "3".to_owned())).await.unwrap();
    world.work(&tool).await;
    assert_eq!(result(&world, &key).await, "[2,3]");
}

#[tokio::test]
async fn a_value_for_a_callback_that_has_one_leaves_nothing() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let since = attempt.task().created_at;
        attempt.admit_token("hash", "callback", since.plus_ms(EVERY_MS)).await;
        let value = attempt.signal("callback", since, None).await.unwrap();
        // The task goes on, and may be sent values.
        attempt.sleep_ms(EVERY_MS).await;
        completed(&value)
    });
    world.work(&tool).await;
    let large = format!("\"{}\"", "x".repeat(limits::ENTRY_INLINE_BYTES_MAX));
    let first = world.engine.record_signal_by_token(&key, "hash", &large).await.unwrap();
    assert_eq!(first, SignalRecorded::First);
    world.work(&tool).await;
    world.took();
    for other in [&large, &large.replace('x', "y"), "1"] {
        let again = world.engine.record_signal_by_token(&key, "hash", other).await.unwrap();
        assert_eq!(again, SignalRecorded::Earlier(large.clone()));
    }
    let took = world.took();
    assert!(!took.iter().any(|call| call.contains("put")), "{took:?}");
}
