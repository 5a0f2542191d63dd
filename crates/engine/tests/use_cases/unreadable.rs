//! A record that cannot be read costs its own task only, and one of a newer version is left to that version.

use std::sync::Mutex;

use async_trait::async_trait;
use longhaul_core::ports::{Outbox, StoreError};
use longhaul_core::{EntryKind, FailureKind, Notification, RequestedTerms, State, Task, TaskEvent, Terms};
use longhaul_engine::{Disposition, PollError, SignalError, WebhookDeliveries, WebhookDelivery};
use longhaul_testkit::{Damage, SeededIds, given};

use crate::world::{World, ann, answers, asks, quick, sleeps, tool};

fn failure(task: &Task) -> (FailureKind, &str) {
    let State::Failed { failure } = &task.state else { panic!("the task has not failed: {task:?}") };
    (failure.kind, &failure.message)
}

#[tokio::test]
async fn a_damaged_task_is_done_with_and_its_message_does_not_come_again() {
    for damage in Damage::LOST {
        let (world, task, delivery) = World::with_delivery().await;
        world.fake.damage(&task.key(), damage);
        let tool = quick();
        assert_eq!(world.deliver(&delivery, &tool).await, Disposition::Acknowledge, "{damage:?}");
        assert_eq!(world.engine.run_dead_letter(&delivery).await, Disposition::Acknowledge, "{damage:?}");
        let polled = world.engine.poll(&task.key()).await.unwrap();
        assert_eq!(failure(&polled), (FailureKind::Corrupt, "the stored record of this task cannot be read"));
        assert_eq!(failure(&world.engine.cancel(&task.key()).await.unwrap()).0, FailureKind::Corrupt);
        assert_eq!((tool.runs(), world.receive().await), (0, None));
    }
}

#[tokio::test]
async fn an_attempt_whose_task_is_damaged_ends() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    let fake = std::sync::Arc::clone(&world.fake);
    let damages = tool(move |attempt| {
        fake.damage(&attempt.task().key(), Damage::CutShort);
        std::future::pending()
    });
    let run = world.deliver(&delivery, &damages);
    assert_eq!(world.while_time_passes(1_000, run).await, Disposition::Acknowledge);
    assert_eq!(failure(&world.engine.poll(&key).await.unwrap()).0, FailureKind::Corrupt);
}

#[tokio::test]
async fn a_task_of_a_newer_version_is_left_to_a_worker_of_that_version() {
    let (world, task, delivery) = World::with_delivery().await;
    world.fake.damage(&task.key(), Damage::NewerVersion);
    let before = world.fake.record_of(&task.key());
    let (tool, mut delivery) = (quick(), Some(delivery));
    // More often than a message may be delivered.
    for _ in 0..12 {
        let received = delivery.take().unwrap();
        assert_eq!(received.receives, 1, "its delivery does not count");
        world.deliver(&received, &tool).await;
        assert_eq!(world.receive().await, None, "it comes later");
        world.clock.advance_ms(world.engine.settings().lease_ms);
        delivery = world.receive().await;
    }
    let polled = world.engine.poll(&task.key()).await;
    assert!(matches!(polled, Err(PollError::Unavailable(StoreError::NewerVersion(_)))), "{polled:?}");
    assert_eq!((tool.runs(), world.fake.record_of(&task.key())), (0, before));
    let letter = delivery.unwrap();
    assert!(matches!(world.engine.run_dead_letter(&letter).await, Disposition::RetryAfter { .. }));
}

#[tokio::test]
async fn a_task_whose_journal_is_damaged_fails_and_says_so() {
    let (world, key) = World::with_key().await;
    world.work(&asks("a")).await;
    world.engine.answer(&key, &answers("a", "1")).await.unwrap();
    world.fake.damage_entry(&key, EntryKind::Answer, "a");
    world.work(&asks("a")).await;
    let failed = world.on_record(&key).await;
    assert_eq!(failure(&failed), (FailureKind::Corrupt, "what is stored of the call or its steps cannot be read"));
}

#[tokio::test]
async fn a_step_that_was_recorded_and_cannot_be_read_fails_its_task() {
    let (world, key) = World::with_key().await;
    world.fake.damage_entry(&key, EntryKind::Step, "a");
    let steps = tool(async |attempt| {
        let step = attempt.step("a", async || Ok::<_, String>("1".to_owned())).await;
        crate::world::completed(&step.unwrap())
    });
    world.work(&steps).await;
    assert_eq!(failure(&world.on_record(&key).await).0, FailureKind::Corrupt);
}

#[tokio::test]
async fn a_callback_into_a_damaged_journal_is_no_passing_fault() {
    let (world, key) = World::with_key().await;
    world.work(&sleeps(600_000)).await;
    world.fake.damage_entry(&key, EntryKind::Token, "hash");
    let recorded = world.engine.record_signal_by_token(&key, "hash", "1").await;
    let Err(SignalError::Unavailable(error)) = recorded else { panic!("it was recorded: {recorded:?}") };
    assert!(!error.may_pass(), "{error:?}");
}

#[derive(Default)]
struct Kept(Mutex<Vec<Notification>>);

#[async_trait]
impl Outbox for Kept {
    async fn notifications(&self, max: usize, _wait_ms: u64) -> Result<Vec<Notification>, StoreError> {
        Ok(self.0.lock().unwrap().iter().take(max).cloned().collect())
    }

    async fn remove(&self, gone: &[Notification]) -> Result<(), StoreError> {
        self.0.lock().unwrap().retain(|notification| !gone.contains(notification));
        Ok(())
    }
}

/// Tells one endpoint, with a request of this many bytes of the first notification.
struct Large(usize);

impl WebhookDeliveries for Large {
    fn of(&self, notification: &Notification) -> Vec<WebhookDelivery> {
        let terms = Terms::negotiate(&given::policy(), RequestedTerms::default());
        let bytes = if *notification == notification_of(1) { self.0 } else { 1 };
        vec![WebhookDelivery { endpoint: "a".to_owned(), request: "1".repeat(bytes), terms }]
    }
}

fn notification_of(seed: u64) -> Notification {
    let task = given::task(&SeededIds::new(seed), ann(), given::NOW);
    Notification::of(&task.apply(&TaskEvent::Cancel, given::NOW).unwrap()).unwrap()
}

#[tokio::test]
async fn a_notification_that_cannot_be_passed_on_keeps_no_other_one_waiting() {
    let world = World::new();
    let outbox = Kept(Mutex::new([1, 2, 3].map(notification_of).to_vec()));
    let published = world.engine.publish(&outbox, &Large(8 * 1024 * 1024), 0).await.unwrap();
    assert_eq!((published, outbox.0.lock().unwrap().len()), (3, 0));
    assert_eq!(world.engine.list(&ann(), None, 9).await.unwrap().tasks.len(), 2);
}

#[tokio::test]
async fn a_notification_that_is_not_passed_on_yet_stays_alone() {
    let world = World::new();
    let outbox = Kept(Mutex::new([1, 2, 3].map(notification_of).to_vec()));
    let first = notification_of(1).webhook_delivery_id("a");
    world.store_fails(move |call| matches!(call, longhaul_testkit::StoreCall::Create(new) if new.task.id == first));
    let publish = world.engine.publish(&outbox, &Large(1), 0);
    world.while_time_passes(100, publish).await.unwrap_err();
    assert_eq!(*outbox.0.lock().unwrap(), [notification_of(1)]);
}
