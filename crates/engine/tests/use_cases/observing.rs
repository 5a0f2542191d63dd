//! An observer is told once about each thing that happens.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use longhaul_core::{MailboxId, Task};
use longhaul_engine::{Engine, Observer, PollError, WorkerSignals};
use longhaul_testkit::{Fault, StoreCall};

use super::world::{World, call_with_key, completed, crashing, quick, tool};

#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Log {
    fn note(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Observer for Log {
    fn accepted(&self, _task: &Task) {
        self.note("accepted".to_owned());
    }

    fn attempt_began(&self, task: &Task, waited_ms: Option<u64>) {
        self.note(format!("attempt {} began after {waited_ms:?}", task.attempt));
    }

    fn attempt_ended(&self, task: &Task, ran_ms: u64) {
        self.note(format!("attempt {} ended after {ran_ms}", task.attempt));
    }

    fn ended(&self, task: &Task) {
        self.note(format!("ended {}", task.status().as_str()));
    }

    fn recovered(&self, task: &Task) {
        self.note(format!("recovered {}", task.status().as_str()));
    }

    fn unavailable(&self) {
        self.note("unavailable".to_owned());
    }
}

fn observed() -> (World, Arc<Log>) {
    let mut world = World::new();
    let log = Arc::<Log>::default();
    world.engine =
        Engine::new(world.engine.ports().clone(), *world.engine.settings()).observed_by(Arc::clone(&log) as _);
    (world, log)
}

#[tokio::test]
async fn a_call_is_reported_once_and_its_life_in_order() {
    let (world, log) = observed();
    let task = world.accept(call_with_key("k", 1)).await;
    world.accept(call_with_key("k", 1)).await;
    assert_eq!(log.take(), ["accepted"]);
    world.clock.advance_ms(70);
    let clock = Arc::clone(&world.clock);
    let slow = tool(move |_attempt| {
        let clock = Arc::clone(&clock);
        async move {
            clock.advance_ms(200);
            completed("1")
        }
    });
    world.work(&slow).await;
    assert_eq!(log.take(), ["attempt 1 began after Some(70)", "ended completed", "attempt 1 ended after 200"]);
    world.engine.cancel(&task.key()).await.unwrap();
    world.engine.extend_retention(&task.key(), 7_200_000).await.unwrap();
    world.engine.forget(&task.key()).await.unwrap();
    assert_eq!(log.take(), Vec::<String>::new(), "it ended once");
}

#[tokio::test]
async fn later_attempts_are_reported_without_the_time_that_they_waited() {
    let (world, log) = observed();
    world.accepted().await;
    world.work(&crashing()).await;
    world.clock.advance_ms(1_000);
    world.work(&quick()).await;
    let told = log.take();
    let expected = [
        "accepted",
        "attempt 1 began after Some(0)",
        "attempt 1 ended after 0",
        "attempt 2 began after None",
        "ended completed",
        "attempt 2 ended after 0",
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_worker_that_takes_over_from_a_dead_one_is_reported_as_a_recovery() {
    let (world, log) = observed();
    world.accepted().await;
    let delivery = world.receive().await.unwrap();
    world.killed_in_the_tool(&delivery).await;
    world.clock.advance_ms(world.engine.settings().lease_ms);
    log.take();
    world.engine.run_delivery(&delivery, &quick(), &WorkerSignals::default()).await;
    assert_eq!(log.take().first().map(String::as_str), Some("recovered working"));
}

#[tokio::test]
async fn what_a_poll_recovers_is_reported() {
    let (world, log) = observed();
    let task = world.accepted().await;
    world.clock.advance_ms(world.engine.settings().resend_ms - 1);
    world.engine.poll(&task.key()).await.unwrap();
    assert_eq!(log.take(), ["accepted"]);
    world.clock.advance_ms(1);
    world.engine.poll(&task.key()).await.unwrap();
    assert_eq!(log.take(), ["recovered working"]);
    world.clock.advance_to(task.deadline());
    world.engine.poll(&task.key()).await.unwrap();
    assert_eq!(log.take(), ["ended failed", "recovered failed"]);
    world.engine.poll(&task.key()).await.unwrap();
    assert_eq!(log.take(), Vec::<String>::new());
}

#[tokio::test]
async fn a_cancelled_task_is_reported_as_ended_once() {
    let (world, log) = observed();
    let task = world.accepted().await;
    for _ in 0..2 {
        world.engine.cancel(&task.key()).await.unwrap();
    }
    assert_eq!(log.take(), ["accepted", "ended cancelled"]);
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_reported_by_every_use_case() {
    let (world, log) = observed();
    let task = world.accepted().await;
    log.take();
    world.store.follow(|_| Fault::Before);
    let (key, engine) = (task.key(), &world.engine);
    let mailbox = MailboxId::of(&[b"one"]);
    let asks = async {
        assert!(matches!(engine.poll(&key).await, Err(PollError::Unavailable(_))));
        assert!(matches!(engine.list(&key.owner, None, 10).await, Err(PollError::Unavailable(_))));
        assert!(matches!(engine.cancel(&key).await, Err(PollError::Unavailable(_))));
        assert!(matches!(engine.forget(&key).await, Err(PollError::Unavailable(_))));
        assert!(engine.answer(&key, &BTreeMap::new()).await.is_err());
        assert!(engine.extend_retention(&key, 7_200_000).await.is_err());
        assert!(engine.collect(&key.owner, &mailbox).await.is_err());
        assert!(engine.leave(&key.owner, &mailbox, "text", task.deadline()).await.is_err());
        assert!(engine.accept(call_with_key("another", 1)).await.is_err());
    };
    world.while_time_passes(100, asks).await;
    assert_eq!(log.take(), ["unavailable"; 9]);
}

#[tokio::test]
async fn an_end_is_reported_although_the_store_did_not_answer() {
    for cancels in [true, false] {
        let (world, log) = observed();
        let key = world.accepted().await.key();
        log.take();
        let mut is_lost = false;
        world.store.follow(move |call| match call {
            StoreCall::Apply(_, event) if event.ends_task() && !is_lost => {
                is_lost = true;
                Fault::After
            }
            _ => Fault::None,
        });
        if cancels {
            world.while_time_passes(10, world.engine.cancel(&key)).await.unwrap();
            assert_eq!(log.take(), ["ended cancelled"]);
            world.engine.cancel(&key).await.unwrap();
            assert_eq!(log.take(), Vec::<String>::new(), "an end that was there before is no news");
        } else {
            world.while_time_passes(10, world.work(&quick())).await;
            assert!(log.take().contains(&"ended completed".to_owned()));
        }
    }
}
