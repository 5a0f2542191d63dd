//! A tool that waits for a signal which somebody else records: nothing runs meanwhile, and no wake is lost.

use std::pin::pin;
use std::sync::Arc;

use longhaul_core::ports::{Delivery, Message, Purpose, TaskStore, WorkQueue};
use longhaul_core::{Entry, EntryKind, State, Status, TaskEvent, TaskKey, Timestamp, limits};
use longhaul_engine::{Disposition, Engine, Ports, Settings, SignalError, SignalRecorded, Woken, WorkerSignals};
use longhaul_testkit::{Fault, ManualClock, StoreCall, given};

use super::world::{Tool, World, completed, quick, tool};

pub(super) const MINUTE_MS: u64 = 60_000;

/// A tool that waits for the signal `name`, and returns it.
fn waits_for(name: &'static str) -> Tool {
    tool(move |attempt| async move {
        let since = attempt.task().created_at;
        completed(&attempt.signal(name, since, None).await.unwrap())
    })
}

/// A task that waits for the signal `a`, and its tool.
pub(super) async fn waiting() -> (World, TaskKey, Tool) {
    let (world, key) = World::with_key().await;
    let tool = waits_for("a");
    world.work(&tool).await;
    (world, key, tool)
}

/// A tool that waits for the signal `a` until a minute and a half after its call.
fn waits_in_vain() -> Tool {
    tool(|attempt| async move {
        let since = attempt.task().created_at;
        let signal = attempt.signal("a", since, Some(since.plus_ms(90_000))).await;
        completed(&format!("{signal:?}"))
    })
}

/// Records a signal as one does who dies before the wake.
async fn record_only(world: &World, key: &TaskKey, name: &str) {
    let entry = Entry { kind: EntryKind::Signal, name: name.to_owned(), value: given::inline("1"), recording: None };
    world.store.record(key, &entry).await.unwrap();
}

pub(super) async fn waits_until(world: &World, key: &TaskKey) -> Timestamp {
    let State::Sleeping { until } = world.on_record(key).await.state else { panic!("the task does not wait") };
    until
}

pub(super) async fn result(world: &World, key: &TaskKey) -> String {
    let State::Completed { result, .. } = &world.on_record(key).await.state else { panic!("the task has no result") };
    let longhaul_core::Payload::Inline(text) = result else { panic!("the result is large") };
    text.clone()
}

/// How many messages there are, visible or not.
pub(super) async fn messages(world: &World) -> usize {
    world.clock.advance_ms(24 * 60 * MINUTE_MS);
    let mut count = 0;
    while let Some(delivery) = world.receive().await {
        world.queue.delete(&delivery.receipt).await.unwrap();
        count += 1;
    }
    count
}

#[tokio::test]
async fn whoever_records_a_signal_starts_the_next_attempt_at_once() {
    let (world, key, tool) = waiting().await;
    assert_eq!(tool.runs(), 1);
    let recorded = world.engine.record_signal(&key, "a", r#"{"yes":1}"#).await.unwrap();
    assert_eq!(recorded, SignalRecorded::First);
    world.work(&tool).await;
    assert_eq!((result(&world, &key).await.as_str(), tool.runs()), (r#"{"yes":1}"#, 2));
}

#[tokio::test]
async fn a_wait_costs_one_poll_more_than_a_sleep_and_a_signal_two_writes() {
    let (world, key) = World::with_key().await;
    world.took();
    world.work(&waits_for("a")).await;
    assert_eq!(world.took(), ["claim", "suspend", "journal", "send"]);
    world.engine.record_signal(&key, "a", "1").await.unwrap();
    assert_eq!(world.took(), ["get", "record", "wake", "send"]);
    world.work(&waits_for("a")).await;
    assert_eq!(world.took(), ["claim", "journal", "finish"]);
}

#[tokio::test]
async fn a_signal_that_comes_before_the_first_attempt_is_found_when_it_suspends() {
    let (world, key) = World::with_key().await;
    world.engine.record_signal(&key, "a", "1").await.unwrap();
    let tool = waits_for("a");
    world.work(&tool).await;
    assert_eq!((result(&world, &key).await.as_str(), tool.runs()), ("1", 2));
}

#[tokio::test]
async fn a_signal_that_comes_while_the_attempt_runs_is_found_when_it_suspends() {
    let (world, key) = World::with_key().await;
    let engine = world.engine.clone();
    let tool = tool(move |attempt| {
        let engine = engine.clone();
        async move {
            // Nothing is waiting yet, so this wakes nobody.
            let recorded = engine.record_signal(&attempt.task().key(), "a", "1").await;
            assert!(recorded.is_ok());
            completed(&attempt.signal("a", attempt.task().created_at, None).await.unwrap())
        }
    });
    world.work(&tool).await;
    assert_eq!((result(&world, &key).await.as_str(), tool.runs()), ("1", 2));
}

#[tokio::test]
async fn the_task_finds_a_signal_whose_recorder_died_before_the_wake() {
    let (world, key, tool) = waiting().await;
    record_only(&world, &key, "a").await;
    world.work(&tool).await;
    assert_eq!(tool.runs(), 1);
    world.clock.advance_ms(MINUTE_MS);
    world.work(&tool).await;
    assert_eq!((world.on_record(&key).await.status(), tool.runs()), (Status::Completed, 2));
}

#[tokio::test]
async fn the_waits_between_polls_grow_from_one_minute_to_fifteen() {
    let world = World::with(Settings { lease_ms: 30_000, ..Settings::default() });
    let mut call = super::world::call();
    call.terms.run_ms = 24 * 60 * MINUTE_MS;
    call.terms.ttl_ms = 48 * 60 * MINUTE_MS;
    let key = world.accept(call).await.key();
    let tool = waits_for("a");
    let mut waits = Vec::new();
    for _ in 0..12 {
        world.work(&tool).await;
        waits.push(waits_until(&world, &key).await.since_ms(world.now()) / 1_000);
        world.clock.advance_ms(waits_until(&world, &key).await.since_ms(world.now()));
    }
    assert_eq!(waits, [60, 60, 60, 90, 135, 202, 303, 455, 683, 900, 900, 900]);
}

#[tokio::test]
async fn the_first_record_wins() {
    let (world, key) = World::with_key().await;
    world.work(&waits_for("a")).await;
    assert_eq!(world.engine.record_signal(&key, "a", "1").await.unwrap(), SignalRecorded::First);
    assert_eq!(world.engine.record_signal(&key, "a", "2").await.unwrap(), SignalRecorded::Earlier("1".to_owned()));
    world.work(&waits_for("a")).await;
    assert_eq!(result(&world, &key).await, "1");
}

#[tokio::test]
async fn a_repeated_record_wakes_a_task_whose_first_recorder_could_not() {
    let (world, key, tool) = waiting().await;
    world.store_fails(|call| matches!(call, StoreCall::Apply(_, TaskEvent::Wake { .. })));
    let failed = world.while_time_passes(1_000, world.engine.record_signal(&key, "a", "1")).await;
    assert!(matches!(failed, Err(SignalError::Unavailable(_))));
    world.store_fails(|_call| false);
    assert_eq!(world.engine.record_signal(&key, "a", "1").await.unwrap(), SignalRecorded::Earlier("1".to_owned()));
    world.work(&tool).await;
    assert_eq!(world.on_record(&key).await.status(), Status::Completed);
}

#[tokio::test]
async fn a_wake_whose_answer_was_lost_is_followed_by_its_message() {
    let (world, key, tool) = waiting().await;
    let mut lost = false;
    world.store.follow(move |call| match call {
        StoreCall::Apply(_, TaskEvent::Wake { .. }) if !lost => {
            lost = true;
            Fault::After
        }
        _ => Fault::None,
    });
    world.while_time_passes(1_000, world.engine.record_signal(&key, "a", "1")).await.unwrap();
    world.work(&tool).await;
    assert_eq!(world.on_record(&key).await.status(), Status::Completed);
}

#[tokio::test]
async fn a_wake_is_not_lost_if_an_attempt_ran_before_it_and_the_next_worker_has_a_clock_that_is_behind() {
    let (world, key, tool) = waiting().await;
    // Who records has read the task when it had one attempt, and has to try again; meanwhile it has another one.
    world.store_fails(|call| matches!(call, StoreCall::Record(_, entry) if entry.kind == EntryKind::Signal));
    let mut recorder = pin!(world.engine.record_signal(&key, "a", "1"));
    assert!(futures::poll!(recorder.as_mut()).is_pending());
    assert_eq!(world.engine.wake(&key).await.unwrap(), Woken::Now);
    world.work(&tool).await;
    world.store_fails(|_call| false);
    world.while_time_passes(1_000, recorder).await.unwrap();
    // It is too early for a worker that believes that it is still the beginning.
    let delivery = world.receive().await.unwrap();
    let ports = Ports { clock: Arc::new(ManualClock::at(given::NOW)), ..world.engine.ports().clone() };
    let behind = Engine::new(ports, Settings::default());
    let disposition = behind.run_delivery(&delivery, &tool, &WorkerSignals::default()).await;
    if disposition == Disposition::Acknowledge {
        world.queue.delete(&delivery.receipt).await.unwrap();
    }
    assert_eq!(tool.runs(), 2);
    world.clock.advance_ms(limits::WAKE_DELAY_MS_MAX);
    world.work(&tool).await;
    assert_eq!(world.on_record(&key).await.status(), Status::Completed);
}

#[tokio::test]
async fn a_task_whose_wake_was_not_sent_goes_on_by_the_message_of_its_suspension() {
    let (world, key, tool) = waiting().await;
    world.sends_fail(1);
    world.engine.record_signal(&key, "a", "1").await.unwrap();
    world.work(&tool).await;
    assert_eq!(tool.runs(), 1);
    world.clock.advance_ms(MINUTE_MS);
    world.work(&tool).await;
    assert_eq!(world.on_record(&key).await.status(), Status::Completed);
}

#[tokio::test]
async fn a_poll_that_fails_leaves_the_signal_to_the_next_one() {
    let (world, key) = World::with_key().await;
    world.engine.record_signal(&key, "a", "1").await.unwrap();
    let tool = waits_for("a");
    world.store_fails(|call| matches!(call, StoreCall::Journal(_)));
    world.while_time_passes(10, world.work(&tool)).await;
    world.store_fails(|_call| false);
    world.clock.advance_ms(MINUTE_MS);
    world.work(&tool).await;
    assert_eq!((world.on_record(&key).await.status(), tool.runs()), (Status::Completed, 2));
}

#[tokio::test]
async fn a_signal_that_is_there_counts_even_if_the_task_comes_late() {
    let (world, key) = World::with_key().await;
    world.work(&waits_in_vain()).await;
    record_only(&world, &key, "a").await;
    world.clock.advance_ms(10 * MINUTE_MS);
    world.work(&waits_in_vain()).await;
    assert_eq!(result(&world, &key).await, "Some(\"1\")");
}

#[tokio::test]
async fn a_signal_that_nobody_can_wait_for_is_an_error() {
    let world = World::new();
    let (engine, ended) = (&world.engine, world.accepted().await.key());
    world.work(&quick()).await;
    let refused = |name: &'static str, text: String| async move {
        let key = world_key(engine).await;
        engine.record_signal(&key, name, &text).await.unwrap_err()
    };
    assert!(matches!(engine.record_signal(&ended, "a", "1").await, Err(SignalError::Ended)));
    let unknown = given::task(&longhaul_testkit::SeededIds::new(99), given::owner("ann"), given::NOW).key();
    assert!(matches!(engine.record_signal(&unknown, "a", "1").await, Err(SignalError::NotFound)));
    assert!(matches!(refused("a", String::new()).await, SignalError::Empty));
    assert!(matches!(refused("", "1".to_owned()).await, SignalError::Name));
    let large = "1".repeat(limits::ENTRY_BYTES_MAX + 1);
    assert!(matches!(refused("a", large).await, SignalError::TooLarge { .. }));
}

async fn world_key(engine: &Engine) -> TaskKey {
    engine.accept(super::world::call()).await.unwrap().into_task().key()
}

#[tokio::test]
async fn only_a_task_that_waits_is_woken() {
    let (world, key) = World::with_key().await;
    assert_eq!(world.engine.wake(&key).await.unwrap(), Woken::NotWaiting);
    let tool = waits_for("a");
    world.work(&tool).await;
    assert_eq!(world.engine.wake(&key).await.unwrap(), Woken::Now);
    world.clock.advance_ms(1);
    assert_eq!(world.engine.wake(&key).await.unwrap(), Woken::NotWaiting);
    world.work(&tool).await;
    assert_eq!((world.on_record(&key).await.status(), tool.runs()), (Status::Working, 2));
    world.engine.cancel(&key).await.unwrap();
    assert_eq!(world.engine.wake(&key).await.unwrap(), Woken::NotWaiting);
}

#[tokio::test]
async fn a_message_of_somebody_else_only_wakes_the_task() {
    let (world, key) = World::with_key().await;
    let tool = waits_for("a");
    let message = |key| Message { task: key, trace: None, attempt: None };
    let wake = |key| Delivery {
        message: message(key),
        receipt: "of somebody else".to_owned(),
        receives: 1,
        purpose: Purpose::Wake,
    };
    // A task that has not begun is not begun by it, and one that waits goes on.
    assert_eq!(world.deliver(&wake(key), &tool).await, Disposition::Acknowledge);
    assert_eq!((tool.runs(), world.on_record(&key).await.attempt), (0, 0));
    world.work(&tool).await;
    record_only(&world, &key, "a").await;
    assert_eq!(world.deliver(&wake(key), &tool).await, Disposition::Acknowledge);
    world.work(&tool).await;
    assert_eq!((world.on_record(&key).await.status(), tool.runs()), (Status::Completed, 2));
    let unknown = given::task(&longhaul_testkit::SeededIds::new(99), given::owner("ann"), given::NOW).key();
    assert_eq!(world.engine.run_dead_letter(&wake(unknown)).await, Disposition::Acknowledge);
    world.store_fails(|_call| true);
    let disposition = world.while_time_passes(1_000, world.deliver(&wake(key), &tool)).await;
    assert!(matches!(disposition, Disposition::RetryAfter { .. }));
}
