//! Steps happen at least once and are recorded once; a replay returns what was recorded.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use longhaul_core::ports::{Left, Recorded, TaskStore};
use longhaul_core::{Clock as _, Entry, EntryKind, FailureKind, MailboxId, Recording, State, TaskKey};
use longhaul_engine::{Attempt, AttemptEnd, LeaveError};
use longhaul_testkit::{Fault, FaultyStore, ManualClock, given};

use super::world::{World, ann, completed, tool};

async fn pay_and_crash_twice(attempt: Attempt, bodies: Arc<AtomicUsize>, crashes: Arc<AtomicUsize>) -> AttemptEnd {
    let body = || async {
        let number = bodies.fetch_add(1, Ordering::Relaxed);
        Ok::<_, Infallible>(format!("\"run {number}\""))
    };
    let Ok(text) = attempt.step("pay", body).await;
    if crashes.fetch_add(1, Ordering::Relaxed) < 2 {
        return AttemptEnd::Crashed { reason: "it panicked".to_owned() };
    }
    completed(&text)
}

#[tokio::test]
async fn a_recorded_step_is_not_run_again_after_a_crash() {
    let (world, task) = World::with_task().await;
    let (bodies, crashes) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (bodies_in, crashes_in) = (Arc::clone(&bodies), Arc::clone(&crashes));
    let tool = tool(move |attempt| pay_and_crash_twice(attempt, Arc::clone(&bodies_in), Arc::clone(&crashes_in)));
    let ended = world.work_until_ended(&task.key(), &tool, 1_000, 60).await;
    assert_eq!(bodies.load(Ordering::Relaxed), 1);
    assert_eq!(tool.runs(), 3);
    assert!(matches!(&ended.state, State::Completed { result, .. } if *result == given::inline("\"run 0\"")));
}

async fn crash_then_pay_and_ask(attempt: Attempt, clock: Arc<ManualClock>) -> AttemptEnd {
    if attempt.task().attempt == 1 {
        return AttemptEnd::Crashed { reason: "it panicked".to_owned() };
    }
    let work = || async {
        clock.advance_ms(412);
        Ok::<_, Infallible>("1".to_owned())
    };
    let Ok(text) = attempt.step("pay", work).await;
    attempt.ask("sure", "{}".to_owned()).await;
    completed(&text)
}

#[tokio::test]
async fn an_entry_says_when_it_was_recorded_by_which_attempt_and_how_long_its_step_took() {
    let (world, key) = World::with_key().await;
    let clock = Arc::clone(&world.clock);
    let tool = tool(move |attempt| crash_then_pay_and_ask(attempt, Arc::clone(&clock)));
    world.work(&tool).await;
    world.clock.advance_ms(10_000);
    world.work(&tool).await;
    let recorded_at = world.clock.now();
    world.clock.advance_ms(5_000);
    let answers = [("sure".to_owned(), "true".to_owned())].into();
    world.engine.answer(&key, &answers).await.unwrap();
    let mut journal = world.store.journal(&key).await.unwrap();
    journal.sort_by_key(|entry| entry.kind);
    let recordings: Vec<_> = journal.iter().map(|entry| entry.recording.unwrap()).collect();
    let step = Recording { at: recorded_at, took_ms: Some(412), attempt: 2, order: Some([0, 0]) };
    let answer = Recording { at: recorded_at.plus_ms(5_000), took_ms: None, attempt: 0, order: None };
    assert_eq!(recordings, [step, answer]);
}

async fn pay_too_late(attempt: Attempt, store: Arc<FaultyStore>, key: TaskKey) -> AttemptEnd {
    let body = || async {
        // A worker that was thought to be dead records the same step a moment earlier.
        let entry =
            Entry { kind: EntryKind::Step, name: "pay".to_owned(), value: given::inline("\"other\""), recording: None };
        assert_eq!(store.record(&key, &entry).await.unwrap(), Recorded::First);
        Ok::<_, Infallible>("\"mine\"".to_owned())
    };
    let Ok(text) = attempt.step("pay", body).await;
    completed(&text)
}

#[tokio::test]
async fn the_first_recorded_result_of_a_step_wins() {
    let (world, task) = World::with_task().await;
    let store = Arc::clone(&world.store);
    let key = task.key();
    let tool = tool(move |attempt| pay_too_late(attempt, Arc::clone(&store), key));
    world.work(&tool).await;
    let ended = world.on_record(&task.key()).await;
    assert!(matches!(&ended.state, State::Completed { result, .. } if *result == given::inline("\"other\"")));
}

#[tokio::test]
async fn a_name_that_stands_for_two_steps_ends_the_task_with_a_clear_error() {
    let (world, task) = World::with_task().await;
    world
        .work(&tool(|attempt| async move {
            for _ in 0..2 {
                let Ok(_text) = attempt.step("pay", || ready(Ok::<_, Infallible>("1".to_owned()))).await;
            }
            completed("1")
        }))
        .await;
    let ended = world.on_record(&task.key()).await;
    let State::Failed { failure } = &ended.state else { panic!("{:?}", ended.state) };
    assert_eq!(failure.kind, FailureKind::Misuse);
    assert!(failure.message.contains("pay"));
}

#[tokio::test]
async fn an_error_of_a_step_is_not_recorded() {
    let (world, task) = World::with_task().await;
    world
        .work(&tool(|attempt| async move {
            match attempt.step("pay", || async { Err::<String, _>("no") }).await {
                Ok(_) => completed("1"),
                Err(error) => AttemptEnd::Failed { message: error.to_owned(), detail: "{}".to_owned() },
            }
        }))
        .await;
    assert!(world.store.journal(&task.key()).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_text_that_is_left_is_collected_whatever_its_size_and_the_first_one_counts() {
    let world = World::new();
    let [city, street] = [b"city".as_slice(), b"street"].map(|name| MailboxId::of(&[name]));
    let expires_at = world.clock.now().plus_ms(1_000);
    assert_eq!(world.engine.collect(&ann(), &city).await.unwrap(), None);
    let long = format!("\"{}\"", "x".repeat(longhaul_core::limits::PART_BYTES));
    assert_eq!(world.engine.leave(&ann(), &city, &long, expires_at).await.unwrap(), Left::First);
    let late = world.engine.leave(&ann(), &city, "\"late\"", expires_at).await.unwrap();
    assert_eq!(late, Left::Earlier(long.clone()));
    assert_eq!(world.engine.collect(&ann(), &city).await.unwrap(), Some(long));
    assert_eq!(world.engine.collect(&ann(), &street).await.unwrap(), None);
    world.clock.advance_ms(1_000);
    assert_eq!(world.engine.collect(&ann(), &city).await.unwrap(), None);
}

#[tokio::test]
async fn a_text_may_be_as_large_as_an_answer_and_no_larger() {
    let world = World::new();
    let (mailbox, expires_at) = (MailboxId::of(&[b"city"]), world.clock.now().plus_ms(1_000));
    let too_long = "x".repeat(longhaul_core::limits::ENTRY_BYTES_MAX + 1);
    let refused = world.engine.leave(&ann(), &mailbox, &too_long, expires_at).await.unwrap_err();
    assert!(matches!(refused, LeaveError::TooLarge { .. }), "{refused}");
    assert_eq!(world.engine.collect(&ann(), &mailbox).await.unwrap(), None);
    world.engine.leave(&ann(), &mailbox, &too_long[1..], expires_at).await.unwrap();
}

#[tokio::test]
async fn a_mailbox_is_tried_again_if_the_store_does_not_answer() {
    let world = World::new();
    let (mailbox, expires_at) = (MailboxId::of(&[b"city"]), world.clock.now().plus_ms(60_000));
    let mut calls = 0;
    world.store.follow(move |_call| {
        calls += 1;
        if calls % 2 == 1 { Fault::After } else { Fault::None }
    });
    let left = world.while_time_passes(10, world.engine.leave(&ann(), &mailbox, "first", expires_at)).await;
    assert_eq!(left.unwrap(), Left::Earlier("first".to_owned()));
    let collected = world.while_time_passes(10, world.engine.collect(&ann(), &mailbox)).await;
    assert_eq!(collected.unwrap().as_deref(), Some("first"));
}
