//! What is published of which task, under which name, and that it is passed on at least once.

use std::sync::Mutex;

use async_trait::async_trait;
use longhaul_core::ports::{Outbox, StoreError};
use longhaul_core::{
    Notification, NotificationKind, RequestedTerms, Status, Task, TaskEvent, TaskKey, Terms, WEBHOOK_DELIVERY_TOOL,
};
use longhaul_engine::{Settings, WebhookDeliveries, WebhookDelivery};
use longhaul_testkit::{SeededIds, given};

use crate::world::{World, ann, call};

/// An outbox in memory, which may forget to remove what it was told to.
#[derive(Default)]
struct Kept {
    notifications: Mutex<Vec<Notification>>,
    removes: bool,
}

#[async_trait]
impl Outbox for Kept {
    async fn notifications(&self, max: usize, _wait_ms: u64) -> Result<Vec<Notification>, StoreError> {
        Ok(self.notifications.lock().unwrap().iter().take(max).cloned().collect())
    }

    async fn remove(&self, gone: &[Notification]) -> Result<(), StoreError> {
        if self.removes {
            self.notifications.lock().unwrap().retain(|notification| !gone.contains(notification));
            return Ok(());
        }
        Err(StoreError::Unavailable("planted".into()))
    }
}

/// Tells these endpoints of everything.
struct Everything(&'static [&'static str]);

impl WebhookDeliveries for Everything {
    fn of(&self, notification: &Notification) -> Vec<WebhookDelivery> {
        let terms = Terms::negotiate(&given::policy(), RequestedTerms::default());
        let webhook_delivery =
            |endpoint: &&str| WebhookDelivery { endpoint: (*endpoint).to_owned(), request: notification.id(), terms };
        self.0.iter().map(webhook_delivery).collect()
    }
}

fn notification(seed: u64) -> Notification {
    let task = given::task(&SeededIds::new(seed), ann(), given::NOW);
    Notification::of(&task.apply(&TaskEvent::Cancel, given::NOW).unwrap()).unwrap()
}

#[tokio::test]
async fn each_notification_becomes_a_task_for_each_endpoint_and_leaves_the_outbox() {
    let world = World::new();
    let outbox = Kept { notifications: Mutex::new(vec![notification(1), notification(2)]), removes: true };
    let published = world.engine.publish(&outbox, &Everything(&["a", "b"]), 0).await.unwrap();
    assert_eq!((published, outbox.notifications.lock().unwrap().len()), (2, 0));
    for (notification, endpoint) in [(1, "a"), (1, "b"), (2, "a"), (2, "b")] {
        let id = notification_key(notification, endpoint);
        let webhook_delivery = world.on_record(&id).await;
        assert!(webhook_delivery.is_webhook_delivery());
    }
}

fn notification_key(seed: u64, endpoint: &str) -> TaskKey {
    TaskKey::new(ann(), notification(seed).webhook_delivery_id(endpoint))
}

#[tokio::test]
async fn who_dies_before_the_notification_is_removed_makes_no_second_task() {
    let world = World::new();
    let outbox = Kept { notifications: Mutex::new(vec![notification(1)]), removes: false };
    for _ in 0..2 {
        let told = world.engine.publish(&outbox, &Everything(&["a"]), 0);
        world.while_time_passes(100, told).await.unwrap_err();
    }
    let listed = world.engine.list(&ann(), None, 9).await.unwrap().tasks;
    assert_eq!(listed.len(), 1);
    assert_eq!(world.delays().len(), 2, "its message may be the one that was lost: it is sent again");
}

#[tokio::test]
async fn no_limit_of_the_owner_refuses_a_webhook_delivery() {
    let world = World::with(Settings { open_tasks_max: 1, new_tasks_max: Some(1), ..Settings::default() });
    world.engine.accept(call()).await.unwrap();
    world.engine.accept(call()).await.unwrap_err();
    world.engine.tell(&notification(1), &Everything(&["a", "b"])).await.unwrap();
    assert_eq!(world.engine.list(&ann(), None, 9).await.unwrap().tasks.len(), 3);
}

fn task(events: &[TaskEvent]) -> (Task, Task) {
    let first = given::task(&SeededIds::new(1), given::owner("alice"), given::NOW);
    let mut last = [first.clone(), first];
    for event in events {
        let [_, before] = last;
        let after = before.apply(event, given::NOW).expect("it applies");
        last = [before, after];
    }
    let [before, after] = last;
    (before, after)
}

#[test]
fn each_end_and_each_question_is_published_once() {
    let claimed = || given::claim(1, given::NOW);
    for (events, what) in [
        (vec![claimed()], None),
        (vec![claimed(), given::finish(1, "{}")], Some(NotificationKind::Completed)),
        (vec![claimed(), given::fail(1)], Some(NotificationKind::Failed)),
        (vec![TaskEvent::Cancel], Some(NotificationKind::Cancelled)),
        (vec![claimed(), given::asks(1, &["a", "b"], None)], Some(NotificationKind::InputRequired)),
        (vec![claimed(), given::asks(1, &["a", "b"], None), TaskEvent::Answer { keys: vec!["a".to_owned()] }], None),
    ] {
        let (before, after) = task(&events);
        assert_eq!(Notification::between(&before, &after).map(|notification| notification.what), what, "{events:?}");
    }
}

#[test]
fn two_rounds_of_questions_are_two_notifications() {
    let round = |attempt| {
        let (_, mut after) = task(&[given::claim(1, given::NOW), given::asks(1, &["a"], None)]);
        let mut record = after.into_record();
        record.attempt = attempt;
        after = Task::restore(record);
        Notification::of(&after).expect("it is published")
    };
    assert_ne!(round(1).id(), round(2).id());
    assert_ne!(round(1).webhook_delivery_id("a"), round(2).webhook_delivery_id("a"));
    assert_ne!(round(1).webhook_delivery_id("a"), round(1).webhook_delivery_id("b"));
    assert_eq!(round(1).webhook_delivery_id("a"), round(1).webhook_delivery_id("a"));
}

#[test]
fn nothing_that_a_tool_says_is_published() {
    let (_, failed) = task(&[given::claim(1, given::NOW), given::fail(1)]);
    let notification = Notification::of(&failed).expect("it is published");
    assert_eq!(notification.message, None);
    assert_eq!(failed.status(), Status::Failed);
}

#[test]
fn no_webhook_delivery_is_published() {
    let (_, ended) = task(&[TaskEvent::Cancel]);
    let mut record = ended.into_record();
    record.tool = WEBHOOK_DELIVERY_TOOL.to_owned();
    let webhook_delivery = Task::restore(record);
    assert!(webhook_delivery.is_webhook_delivery());
    assert_eq!(Notification::of(&webhook_delivery), None);
}
