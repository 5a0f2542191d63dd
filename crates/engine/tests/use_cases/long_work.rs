//! Work may be longer than an attempt; waiting for input or for a timer costs nothing.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::{Either, select};
use longhaul_core::{State, Status};
use longhaul_engine::{Attempt, AttemptEnd, Round, Settings};
use longhaul_testkit::{ManualClock, given};

use super::world::{World, answers, asks, completed, sleeps, tool};

async fn ten_steps(attempt: Attempt, bodies: Arc<AtomicUsize>, clock: Arc<ManualClock>) -> AttemptEnd {
    for number in 0..10 {
        let body = || async {
            bodies.fetch_add(1, Ordering::Relaxed);
            clock.advance_ms(200);
            Ok::<_, Infallible>("1".to_owned())
        };
        let Ok(_text) = attempt.step(&format!("chunk {number}"), body).await;
    }
    completed("1")
}

#[tokio::test]
async fn work_longer_than_an_attempt_continues_in_the_next_one_and_no_step_is_run_twice() {
    let settings = Settings { attempt_ms_max: Some(1_000), attempt_margin_ms: 300, ..Settings::default() };
    let world = World::with(settings);
    let task = world.accepted().await;
    let bodies = Arc::new(AtomicUsize::new(0));
    let (bodies_in, clock) = (Arc::clone(&bodies), Arc::clone(&world.clock));
    let tool = tool(move |attempt| ten_steps(attempt, Arc::clone(&bodies_in), Arc::clone(&clock)));
    let ended = world.work_until_ended(&task.key(), &tool, 10, 50).await;
    assert_eq!(ended.status(), Status::Completed);
    assert_eq!(bodies.load(Ordering::Relaxed), 10);
    assert!(tool.runs() >= 3, "{} attempts", tool.runs());
    assert_eq!(ended.failures, 0);
}

async fn polls_at_the_clock(attempt: Attempt, clock: Arc<ManualClock>) -> AttemptEnd {
    let begun = attempt.left_ms();
    clock.advance_ms(200);
    let later = attempt.left_ms();
    clock.advance_ms(600);
    completed(&format!("{:?}", [begun, later, attempt.left_ms()]))
}

#[tokio::test]
async fn a_tool_sees_how_long_its_attempt_may_still_run() {
    for (attempt_ms_max, expected) in [(Some(1_000), "[Some(700), Some(500), Some(0)]"), (None, "[None, None, None]")] {
        let world = World::with(Settings { attempt_ms_max, attempt_margin_ms: 300, ..Settings::default() });
        let task = world.accepted().await;
        let clock = Arc::clone(&world.clock);
        let tool = tool(move |attempt| polls_at_the_clock(attempt, Arc::clone(&clock)));
        let ended = world.work_until_ended(&task.key(), &tool, 1, 50).await;
        assert!(matches!(&ended.state, State::Completed { result, .. } if *result == given::inline(expected)));
    }
}

#[tokio::test]
async fn waiting_for_an_answer_costs_nothing_and_the_answer_resumes_the_work() {
    let (world, task) = World::with_task().await;
    let tool = asks("color");
    world.work(&tool).await;
    assert_eq!(world.on_record(&task.key()).await.status(), Status::InputRequired);
    world.clock.advance_ms(60_000);
    assert!(world.receive().await.is_none(), "a message was sent although nobody answered");
    assert_eq!(world.clock.sleepers(), 0);

    // Two clients answer: the first answer counts.
    for answer in ["\"red\"", "\"blue\""] {
        world.engine.answer(&task.key(), &answers("color", answer)).await.unwrap();
    }
    world.work(&tool).await;
    let ended = world.on_record(&task.key()).await;
    assert!(matches!(&ended.state, State::Completed { result, .. } if *result == given::inline("\"red\"")));
    assert_eq!(tool.runs(), 2);
}

#[tokio::test]
async fn a_lost_message_after_an_answer_is_sent_again_by_a_poll() {
    let (world, task) = World::with_task().await;
    let tool = asks("color");
    world.work(&tool).await;
    world.sends_fail(1);
    world.engine.answer(&task.key(), &answers("color", "\"red\"")).await.unwrap();
    assert!(world.receive().await.is_none());
    world.clock.advance_ms(world.engine.settings().resend_ms);
    world.engine.poll(&task.key()).await.unwrap();
    world.work(&tool).await;
    assert_eq!(world.on_record(&task.key()).await.status(), Status::Completed);
}

#[tokio::test]
async fn a_long_sleep_ends_the_attempt_and_lasts_as_long_as_asked() {
    let (world, task) = World::with_task().await;
    let tool = sleeps(600_000);
    world.work(&tool).await;
    assert!(matches!(world.on_record(&task.key()).await.state, State::Sleeping { .. }));
    world.clock.advance_ms(599_999);
    world.work(&tool).await;
    assert_eq!(tool.runs(), 1);
    world.clock.advance_ms(1);
    world.work(&tool).await;
    assert_eq!(world.on_record(&task.key()).await.status(), Status::Completed);
    assert_eq!(tool.runs(), 2);
}

/// Found by the simulation (seed 1): the question ended the attempt before the concurrent sleep was recorded.
#[tokio::test]
async fn a_sleep_alongside_a_question_is_recorded() {
    let (world, task) = World::with_task().await;
    let tool = tool(|attempt| async move {
        let first = {
            let ask = std::pin::pin!(attempt.ask("color", "{}".to_owned()));
            let sleep = std::pin::pin!(attempt.sleep_ms(60_000));
            match select(ask, sleep).await {
                Either::Left((answer, _)) => answer,
                Either::Right(((), _)) => "\"nobody answered\"".to_owned(),
            }
        };
        let Ok(first) = attempt.step("first", || async { Ok::<_, Infallible>(first) }).await;
        completed(&first)
    });
    world.work(&tool).await;
    let waits = world.on_record(&task.key()).await;
    assert!(matches!(waits.state, State::InputRequired { until: Some(_), .. }), "{:?}", waits.state);
    world.clock.advance_ms(60_000);
    world.work(&tool).await;
    let ended = world.on_record(&task.key()).await;
    assert!(matches!(&ended.state, State::Completed { result, .. } if *result == given::inline("\"nobody answered\"")));
}

#[tokio::test]
async fn a_question_that_loses_a_race_takes_no_other_question_with_it() {
    let (world, task) = World::with_task().await;
    let tool = tool(|attempt| async move {
        let race = async {
            let ask = std::pin::pin!(attempt.ask("lost", "{}".to_owned()));
            select(ask, std::future::ready(())).await;
        };
        let (answer, ()) = futures::join!(attempt.ask("color", "{}".to_owned()), race);
        completed(&answer)
    });
    world.work(&tool).await;
    let waits = world.on_record(&task.key()).await;
    let State::InputRequired { asks, .. } = &waits.state else { panic!("{:?}", waits.state) };
    assert_eq!(asks.iter().map(|ask| ask.key.as_str()).collect::<Vec<_>>(), ["color"]);
}

/// Found by the simulation (seed 20): the sleep after a race took the number of the one that the race never polled.
#[tokio::test]
async fn a_sleep_keeps_its_moment_when_an_earlier_one_lost_to_an_answer() {
    let (world, task) = World::with_task().await;
    let tool = tool(|attempt| async move {
        {
            let ask = std::pin::pin!(attempt.ask("color", "{}".to_owned()));
            let sleep = std::pin::pin!(attempt.sleep_ms(60_000));
            drop(select(ask, sleep).await);
        }
        attempt.sleep_ms(600_000).await;
        completed("1")
    });
    world.work(&tool).await;
    world.engine.answer(&task.key(), &answers("color", "\"red\"")).await.unwrap();
    world.clock.advance_ms(120_000);
    world.work(&tool).await;
    world.clock.advance_ms(120_000);
    world.work(&tool).await;
    assert!(matches!(world.on_record(&task.key()).await.state, State::Sleeping { .. }), "it did not sleep");
}

/// Found by the simulation (seed 501): the attempt died between recording a round and asking it.
#[tokio::test]
async fn a_round_that_was_recorded_and_not_asked_is_asked_by_the_next_attempt() {
    let (world, task, delivery) = World::with_delivery().await;
    let round = tool(|attempt| async move {
        match attempt.last_round().await {
            None => {
                let asks = vec![given::ask("color")];
                attempt.ask_round(Round { asks, carry: "carried".to_owned() }).await
            }
            Some((carry, answers)) => {
                assert_eq!((carry.as_str(), answers.len()), ("carried", 1));
                completed("1")
            }
        }
    });
    world.store.follow(|call| match call {
        longhaul_testkit::StoreCall::Apply(_, longhaul_core::TaskEvent::Suspend { .. }) => {
            longhaul_testkit::Fault::Before
        }
        _ => longhaul_testkit::Fault::None,
    });
    world.while_time_passes(10, world.deliver(&delivery, &round)).await;
    world.store.follow(|_call| longhaul_testkit::Fault::None);
    world.clock.advance_ms(world.engine.settings().lease_ms);
    world.work(&round).await;
    assert_eq!(world.on_record(&task.key()).await.status(), Status::InputRequired);
    world.engine.answer(&task.key(), &answers("color", "\"red\"")).await.unwrap();
    world.work(&round).await;
    assert_eq!(world.on_record(&task.key()).await.status(), Status::Completed);
}

/// Found by the simulation (seed 54): the message for the timer alongside a question was deleted when it came early.
#[tokio::test]
async fn an_early_message_of_a_question_with_a_timer_is_sent_again() {
    let (world, task, delivery) = World::with_delivery().await;
    let tool = tool(|attempt| async move {
        let ask = std::pin::pin!(attempt.ask("color", "{}".to_owned()));
        let sleep = std::pin::pin!(attempt.sleep_ms(60_000));
        drop(select(ask, sleep).await);
        completed("1")
    });
    world.deliver(&delivery, &tool).await;
    let mut delivery = delivery;
    delivery.message.attempt = Some(1);
    for _ in 0..2 {
        world.took();
        let signals = longhaul_engine::WorkerSignals::default();
        let early = world.engine.run_delivery(&delivery, &tool, &signals).await;
        assert_eq!(early, longhaul_engine::Disposition::Acknowledge);
        assert_eq!(world.took(), ["claim", "send"]);
    }
    assert_eq!(world.on_record(&task.key()).await.status(), Status::InputRequired);
}

/// Found by the simulation (seed 24808): a write whose answer was lost was applied after a later one, and undid it.
#[tokio::test]
async fn variables_are_not_set_again_while_an_earlier_write_may_still_land() {
    let (world, task, delivery) = World::with_delivery().await;
    let tool = tool(|attempt| async move {
        for number in 1..=2 {
            attempt.set_variable("n", serde_json::json!(number)).await.unwrap();
        }
        completed("1")
    });
    let mut lost = false;
    world.store.follow(move |call| match call {
        longhaul_testkit::StoreCall::Apply(_, longhaul_core::TaskEvent::SetVariables { .. }) if !lost => {
            lost = true;
            longhaul_testkit::Fault::Before
        }
        _ => longhaul_testkit::Fault::None,
    });
    world.while_time_passes(10, world.deliver(&delivery, &tool)).await;
    // The first value is on record, and its first write may still be under way: the next attempt fences it off.
    let given_back = world.on_record(&task.key()).await;
    assert_eq!((given_back.state.clone(), given_back.failures), (State::Queued, 0));
    world.work(&tool).await;
    let ended = world.on_record(&task.key()).await;
    assert_eq!((ended.attempt, ended.status()), (2, Status::Completed));
    assert_eq!(ended.variables, Some(given::inline(r#"{"n":2}"#)));
}
