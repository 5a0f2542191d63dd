//! Webhook deliveries against real receivers that misbehave. Only the clock of the engine is set by hand: so the pauses
//! between the tries take no time.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a broken promise shows as a panic")]

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use harness::receiver::{Receiver, Reply};
use longhaul_core::ports::{TaskStore, WorkQueue};
use longhaul_core::{Clock, Notification, NotificationKind, Status, Task, TaskKey, WEBHOOK_DELIVERY_TOOL};
use longhaul_engine::{
    Attempt, AttemptEnd, Disposition, Engine, Ports, Settings, ToolRunner, WebhookDeliveries, WorkerSignals,
};
use longhaul_http::webhooks::{Endpoints, Reach, WebhookDeliveryRunner};
use longhaul_testkit::{FakeQueue, FakeStore, ManualClock, SeededIds, given};
use serde_json::json;

const HOUR_MS: u64 = 3_600_000;

fn one_secret(_source: &str) -> Result<String, String> {
    Ok("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned())
}

/// Runs no tools.
struct NoTools;

#[async_trait]
impl ToolRunner for NoTools {
    async fn run(&self, _attempt: Attempt) -> AttemptEnd {
        AttemptEnd::NoSuchTool
    }
}

struct World {
    engine: Engine,
    clock: Arc<ManualClock>,
    store: Arc<FakeStore>,
    queue: Arc<FakeQueue>,
    runner: WebhookDeliveryRunner,
    endpoints: Endpoints,
}

fn endpoints(receiver: &Receiver, revision: u64) -> Endpoints {
    let endpoint = json!({"name": "ops", "url": receiver.url(), "secrets": ["env:A"], "revision": revision});
    let text = json!({"endpoints": [endpoint]}).to_string();
    longhaul_http::webhooks::read(&text, &one_secret, Reach::ThisMachineToo).unwrap()
}

impl World {
    fn new(endpoints: Endpoints, reach: Reach) -> Self {
        let clock = Arc::new(ManualClock::at(given::NOW));
        let store = Arc::<FakeStore>::default();
        let queue = Arc::new(FakeQueue::new(Arc::clone(&clock) as Arc<dyn Clock>, 10));
        let ports = Ports {
            store: Arc::clone(&store) as Arc<dyn TaskStore>,
            queue: Arc::clone(&queue) as Arc<dyn WorkQueue>,
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            ids: Arc::new(SeededIds::new(7)),
        };
        // The clock stands still while a receiver answers.
        let engine = Engine::new(ports, Settings { inline_sleep_ms_max: 0, ..Settings::default() });
        let runner = WebhookDeliveryRunner::new(Arc::new(NoTools), engine.clone(), endpoints.clone(), reach);
        Self { engine, clock, store, queue, runner, endpoints }
    }

    /// Publishes the end of a task; returns the key of the webhook delivery.
    async fn publish(&self, number: u64) -> TaskKey {
        let task = given::task(&SeededIds::new(number), given::owner("alice"), given::NOW);
        let mut record = task.into_record();
        record.state = longhaul_core::State::Cancelled;
        record.ended_at = Some(given::NOW);
        let notification = Notification::of(&Task::restore(record)).unwrap();
        self.engine.tell(&notification, &self.endpoints).await.unwrap();
        TaskKey::new(notification.task.owner, notification.webhook_delivery_id("ops"))
    }

    async fn get(&self, key: &TaskKey) -> Task {
        self.store.get(key, self.clock.now()).await.unwrap().expect("the webhook delivery is on record")
    }

    /// Runs one attempt of whatever is next, and jumps to it in time.
    async fn attempt(&self) {
        let delivery = loop {
            match self.queue.receive(1, 30_000, 0).await.unwrap().pop() {
                Some(delivery) => break delivery,
                None => self.clock.advance_ms(1_000),
            }
        };
        match self.engine.run_delivery(&delivery, &self.runner, &WorkerSignals::default()).await {
            Disposition::Acknowledge => self.queue.delete(&delivery.receipt).await.unwrap(),
            Disposition::RetryAfter { after_ms } => self.queue.extend(&delivery.receipt, after_ms).await.unwrap(),
        }
    }

    async fn until_it_ends(&self, key: &TaskKey) -> Task {
        for _ in 0..100 {
            self.attempt().await;
            let task = self.get(key).await;
            if task.has_ended() {
                return task;
            }
        }
        panic!("the webhook delivery did not end");
    }
}

#[tokio::test]
async fn an_endpoint_that_never_takes_it_is_tried_ten_times_over_three_days() {
    let receiver = Receiver::new(|_, _| Reply::Status(500, ""));
    let world = World::new(endpoints(&receiver, 1), Reach::ThisMachineToo);
    let key = world.publish(1).await;
    let ended = world.until_it_ends(&key).await;
    assert_eq!(ended.status(), Status::Failed);
    let hooks = receiver.hooks();
    assert_eq!(hooks.len(), 10);
    assert!(hooks.iter().all(|hook| hook.id() == hooks[0].id() && hook.body == hooks[0].body), "the same each time");
    let hours = world.clock.now().since_ms(given::NOW) / HOUR_MS;
    assert!((75..=85).contains(&hours), "{hours} h");
}

#[tokio::test]
async fn an_endpoint_that_recovers_is_told_and_then_left_alone() {
    let receiver = Receiver::new(|before, _| Reply::Status(if before < 2 { 503 } else { 200 }, ""));
    let world = World::new(endpoints(&receiver, 1), Reach::ThisMachineToo);
    let key = world.publish(1).await;
    assert_eq!(world.until_it_ends(&key).await.status(), Status::Completed);
    let hooks = receiver.until("three tries", |hooks| hooks.len() == 3).await;
    assert_eq!(hooks[0].json()["type"], "task.cancelled");
    let waited_ms = world.clock.now().since_ms(given::NOW);
    assert!((305_000..=345_000).contains(&waited_ms), "5 s and 5 min, and a tenth at most: {waited_ms} ms");
}

#[tokio::test]
async fn retry_after_is_heeded() {
    let receiver = Receiver::new(|before, _| match before {
        0 => Reply::Status(429, "retry-after: 600\r\n"),
        _ => Reply::Status(202, ""),
    });
    let world = World::new(endpoints(&receiver, 1), Reach::ThisMachineToo);
    let key = world.publish(1).await;
    assert_eq!(world.until_it_ends(&key).await.status(), Status::Completed);
    let waited_ms = world.clock.now().since_ms(given::NOW);
    assert!((600_000..=670_000).contains(&waited_ms), "{waited_ms} ms");
}

#[tokio::test]
async fn a_redirect_is_a_failure_and_is_not_followed() {
    let elsewhere = Receiver::that_takes_all();
    let to = Box::leak(format!("location: {}\r\n", elsewhere.url()).into_boxed_str());
    let receiver = Receiver::new(|before, _| if before == 0 { Reply::Status(307, to) } else { Reply::Status(200, "") });
    let world = World::new(endpoints(&receiver, 1), Reach::ThisMachineToo);
    let key = world.publish(1).await;
    assert_eq!(world.until_it_ends(&key).await.status(), Status::Completed);
    assert_eq!((receiver.hooks().len(), elsewhere.hooks().len()), (2, 0));
}

#[tokio::test]
async fn gone_switches_an_endpoint_off_until_its_revision_is_raised() {
    let receiver = Receiver::new(|before, _| Reply::Status(if before == 0 { 410 } else { 200 }, ""));
    let world = World::new(endpoints(&receiver, 1), Reach::ThisMachineToo);
    let first = world.publish(1).await;
    let ended = world.until_it_ends(&first).await;
    assert_eq!(ended.status(), Status::Completed, "it is no failure of the server");
    let second = world.publish(2).await;
    world.until_it_ends(&second).await;
    assert_eq!(receiver.hooks().len(), 1, "it is told nothing any more");
    let (engine, on) = (world.engine.clone(), endpoints(&receiver, 2));
    let world =
        World { runner: WebhookDeliveryRunner::new(Arc::new(NoTools), engine, on, Reach::ThisMachineToo), ..world };
    let third = world.publish(3).await;
    world.until_it_ends(&third).await;
    assert_eq!(receiver.hooks().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn receivers_that_hang_or_answer_byte_by_byte_cost_twenty_seconds() {
    let tried = async |reply: Reply| {
        let receiver = Receiver::new(move |before, _| if before == 0 { reply } else { Reply::Status(200, "") });
        let world = World::new(endpoints(&receiver, 1), Reach::ThisMachineToo);
        let key = world.publish(1).await;
        assert_eq!(world.until_it_ends(&key).await.status(), Status::Completed);
        assert_eq!(receiver.hooks().len(), 2, "{reply:?}");
        let journal = world.store.journal(&key).await.unwrap();
        assert!(journal.iter().any(|entry| format!("{entry:?}").contains("within 20 seconds")), "{journal:?}");
    };
    tokio::join!(tried(Reply::Hang), tried(Reply::Drip));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_hangs_keeps_four_workers_at_most() {
    let receiver = Receiver::new(|_, _| Reply::Hang);
    let world = World::new(endpoints(&receiver, 1), Reach::ThisMachineToo);
    for number in 1..=6 {
        world.publish(number).await;
    }
    let deliveries = world.queue.receive(6, 30_000, 0).await.unwrap();
    assert_eq!(deliveries.len(), 6);
    let signals = WorkerSignals::default();
    let mut attempts: futures::stream::FuturesUnordered<_> =
        deliveries.iter().map(|delivery| world.engine.run_delivery(delivery, &world.runner, &signals)).collect();
    for _ in 0..2 {
        // Those without a place are given back at once, and come again.
        let disposition = futures::StreamExt::next(&mut attempts).await;
        assert_eq!(disposition, Some(Disposition::Acknowledge));
    }
    let hooks = tokio::select! {
        hooks = receiver.until("four requests", |hooks| hooks.len() == 4) => hooks,
        other = futures::StreamExt::next(&mut attempts) => panic!("{other:?}"),
    };
    assert_eq!(hooks.iter().map(|hook| hook.id()).collect::<BTreeSet<_>>().len(), 4);
    let listed = world.store.list(&given::owner("alice"), None, 9, given::NOW).await.unwrap().tasks;
    let waiting = listed.iter().filter(|task| matches!(task.state, longhaul_core::State::Sleeping { .. })).count();
    assert_eq!(waiting, 2);
}

#[tokio::test]
async fn no_connection_goes_to_an_address_that_is_not_public() {
    let receiver = Receiver::that_takes_all();
    // The name is checked when it is resolved: the URL alone does not show where it leads.
    let named = receiver.url().replace("127.0.0.1", "localhost");
    let endpoint = json!({"name": "ops", "url": named, "secrets": ["env:A"]});
    let text = json!({"endpoints": [endpoint]}).to_string();
    let endpoints = longhaul_http::webhooks::read(&text, &one_secret, Reach::ThisMachineToo).unwrap();
    let world = World::new(endpoints, Reach::Public);
    let key = world.publish(1).await;
    world.attempt().await;
    let journal = world.store.journal(&key).await.unwrap();
    assert!(journal.iter().any(|entry| format!("{entry:?}").contains("not public")), "{journal:?}");
    assert_eq!(receiver.hooks().len(), 0);
}

#[tokio::test]
async fn a_webhook_delivery_for_an_endpoint_that_is_gone_from_the_configuration_ends() {
    let receiver = Receiver::that_takes_all();
    let world = World::new(endpoints(&receiver, 1), Reach::ThisMachineToo);
    let key = world.publish(1).await;
    let (engine, none) = (world.engine.clone(), Endpoints::default());
    let world = World { runner: WebhookDeliveryRunner::new(Arc::new(NoTools), engine, none, Reach::Public), ..world };
    assert_eq!(world.until_it_ends(&key).await.status(), Status::Completed);
    assert_eq!(receiver.hooks().len(), 0);
}

#[tokio::test]
async fn a_notification_that_is_told_twice_is_one_webhook_delivery_of_its_owner() {
    let receiver = Receiver::that_takes_all();
    let world = World::new(endpoints(&receiver, 1), Reach::ThisMachineToo);
    let key = world.publish(1).await;
    assert_eq!(world.publish(1).await, key);
    let listed = world.store.list(&given::owner("alice"), None, 9, given::NOW).await.unwrap().tasks;
    assert_eq!(listed.iter().map(|task| task.tool.as_str()).collect::<Vec<_>>(), [WEBHOOK_DELIVERY_TOOL]);
    world.until_it_ends(&key).await;
    world.attempt().await;
    assert_eq!(receiver.hooks().len(), 1, "the second message finds the webhook delivery ended");
}

#[test]
fn an_endpoint_is_told_of_what_it_wants() {
    let config = json!({"endpoints": [
        {"name": "ends", "url": "https://example.com/", "secrets": ["env:A"]},
        {"name": "asks", "url": "https://example.com/", "secrets": ["env:A"], "events": ["input_required"]},
        {"name": "some", "url": "https://example.com/", "secrets": ["env:A"], "tools": ["to*"], "events": ["failed"]},
    ]});
    let endpoints = longhaul_http::webhooks::read(&config.to_string(), &one_secret, Reach::Public).unwrap();
    let told = |what, tool: &str| {
        let task = given::task(&SeededIds::new(1), given::owner("alice"), given::NOW);
        let mut record = task.into_record();
        record.state = longhaul_core::State::Cancelled;
        let notification =
            Notification { what, tool: tool.to_owned(), ..Notification::of(&Task::restore(record)).unwrap() };
        let names: BTreeSet<String> =
            endpoints.of(&notification).into_iter().map(|webhook_delivery| webhook_delivery.endpoint).collect();
        names.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(told(NotificationKind::Completed, "tool"), ["ends"]);
    assert_eq!(told(NotificationKind::InputRequired, "tool"), ["asks"]);
    assert_eq!(told(NotificationKind::Failed, "tool"), ["ends", "some"]);
    assert_eq!(told(NotificationKind::Failed, "other"), ["ends"]);
}
