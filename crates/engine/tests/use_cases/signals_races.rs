//! Signals that race with other branches, and many of them.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::{Either, join_all, select};
use longhaul_core::ports::{TaskStore, WorkQueue};
use longhaul_core::{State, Status, TaskEvent, limits};
use longhaul_engine::SignalRecorded;

use super::signals::{MINUTE_MS, messages, result, waiting, waits_until};
use super::world::{Tool, World, answers, completed, tool};

#[tokio::test]
async fn a_question_stays_open_while_a_signal_is_found() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let since = attempt.task().created_at;
        let (signal, answer) =
            futures::future::join(attempt.signal("a", since, None), attempt.ask("q", "{}".to_owned())).await;
        completed(&format!("{} {answer}", signal.unwrap()))
    });
    world.work(&tool).await;
    world.engine.record_signal(&key, "a", "1").await.unwrap();
    assert_eq!(world.on_record(&key).await.state.asks().len(), 1);
    world.work(&tool).await;
    let state = world.on_record(&key).await.state.clone();
    assert!(matches!(&state, State::InputRequired { until: None, .. }), "{state:?}");
    world.engine.answer(&key, &answers("q", "2")).await.unwrap();
    world.work(&tool).await;
    assert_eq!(result(&world, &key).await, "1 2");
}

#[tokio::test]
async fn a_branch_that_lost_its_race_waits_for_its_signal_no_more() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let since = attempt.task().created_at;
        {
            let (one, other) = (pin!(attempt.signal("a", since, None)), pin!(attempt.signal("b", since, None)));
            assert!(matches!(select(one, other).await, Either::Right(_)));
        }
        completed(&attempt.ask("q", "{}".to_owned()).await)
    });
    world.work(&tool).await;
    world.engine.record_signal(&key, "b", "1").await.unwrap();
    world.took();
    world.work(&tool).await;
    // An attempt that waits for no signal looks for none.
    assert_eq!(world.took(), ["claim", "journal", "suspend", "send"]);
}

#[tokio::test]
async fn a_wait_that_is_over_stays_over() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let since = attempt.task().created_at;
        let signal = attempt.signal("a", since, Some(since.plus_ms(90_000))).await;
        attempt.sleep_ms(5 * MINUTE_MS).await;
        completed(&format!("{signal:?}"))
    });
    world.work(&tool).await;
    world.clock.advance_ms(MINUTE_MS);
    world.work(&tool).await;
    // The second wait ends with the time for it.
    assert_eq!(waits_until(&world, &key).await.since_ms(world.now()), 30_000);
    world.clock.advance_ms(30_000);
    world.work(&tool).await;
    assert_eq!(world.engine.record_signal(&key, "a", "1").await.unwrap(), SignalRecorded::TooLate);
    let ended = world.work_until_ended(&key, &tool, MINUTE_MS, 10).await;
    assert_eq!(ended.status(), Status::Completed);
    assert_eq!(result(&world, &key).await, "None");
}

/// A tool that waits for so many signals at once, and counts how many were there in all attempts together.
fn waits_for_many(count: usize, replayed: &Arc<AtomicUsize>) -> Tool {
    let replayed = Arc::clone(replayed);
    tool(move |attempt| {
        let replayed = Arc::clone(&replayed);
        async move {
            let since = attempt.task().created_at;
            let waits = (0..count).map(async |number| {
                let signal = attempt.signal(&number.to_string(), since, None).await;
                replayed.fetch_add(1, Ordering::Relaxed);
                signal
            });
            completed(&join_all(waits).await.len().to_string())
        }
    })
}

#[tokio::test]
async fn a_thousand_signals_within_moments_cost_tens_of_attempts_and_leave_no_messages() {
    let (world, key) = World::with_key().await;
    let replayed = Arc::default();
    let tool = waits_for_many(1_000, &replayed);
    world.work(&tool).await;
    for number in 0..1_000 {
        world.engine.record_signal(&key, &number.to_string(), "1").await.unwrap();
        world.work(&tool).await;
        world.clock.advance_ms(10);
    }
    world.clock.advance_ms(limits::WAKE_DELAY_MS_MAX);
    world.work(&tool).await;
    assert_eq!(result(&world, &key).await, "1000");
    assert!(tool.runs() < 70, "{} attempts", tool.runs());
    assert!(replayed.load(Ordering::Relaxed) < 40_000, "{replayed:?} signals were replayed");
    let left = messages(&world).await;
    assert!(left <= tool.runs(), "{left} messages are left of {} attempts", tool.runs());
}

#[tokio::test]
async fn the_messages_of_earlier_waits_are_gone_when_their_time_comes() {
    let world = World::new();
    let mut call = super::world::call();
    call.terms.run_ms = 24 * 60 * MINUTE_MS;
    call.terms.ttl_ms = 48 * 60 * MINUTE_MS;
    let key = world.accept(call).await.key();
    let replayed = Arc::default();
    let tool = waits_for_many(1_000, &replayed);
    world.work(&tool).await;
    for number in 0..300 {
        world.engine.record_signal(&key, &number.to_string(), "1").await.unwrap();
        world.clock.advance_ms(limits::WAKE_DELAY_MS_MAX);
        world.work(&tool).await;
    }
    // The longest wait until the next poll.
    world.clock.advance_ms(limits::SIGNAL_POLL_MS_MAX);
    world.work(&tool).await;
    assert_eq!(messages(&world).await, 1);
}

#[tokio::test]
async fn a_message_that_is_not_needed_stays_while_a_worker_holds_the_task() {
    let (world, key, tool) = waiting().await;
    world.engine.record_signal(&key, "a", "1").await.unwrap();
    let woken = world.receive().await.unwrap();
    world.killed_in_the_tool(&woken).await;
    world.queue.delete(&woken.receipt).await.unwrap();
    // The message of the suspension comes, finds the task held, and again when its worker is dead.
    world.clock.advance_ms(MINUTE_MS - 1_000);
    let lease = TaskEvent::Heartbeat {
        attempt: 2,
        lease_until: world.now().plus_ms(60_000),
        progress: None,
        labels: None,
        advance: longhaul_core::Advance::NotYet,
    };
    world.store.apply(&key, &lease, world.now()).await.unwrap();
    world.clock.advance_ms(1_000);
    world.work(&tool).await;
    assert_eq!(tool.runs(), 1);
    world.clock.advance_ms(60_000);
    world.work(&tool).await;
    assert_eq!(world.on_record(&key).await.status(), Status::Completed);
}
