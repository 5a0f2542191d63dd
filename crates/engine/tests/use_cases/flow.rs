//! Flow control: how many attempts of a tool and key run at a time, and how many of its tasks begin within a time,
//! whoever their owners are. A waiting task holds no worker.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use longhaul_core::ports::{Delivery, Message, WorkQueue};
use longhaul_core::{FlowControl, Rate, State, Status, Task, TaskKey, Terms};
use longhaul_engine::{Call, Resumption, Settings, WorkerSignals};
use longhaul_testkit::given;
use tokio::sync::Notify;

use super::permits::Permits;
use super::resuming::{Work, resumed};
use super::world::{Tool, World, call, completed, hangs, quick, tool};

const ATTEMPT_MS: u64 = 600_000;

fn one_at_a_time(key: &str) -> FlowControl {
    FlowControl { key: key.to_owned(), concurrency: Some(1), rate: None, priority: 0, attempt_ms: ATTEMPT_MS }
}

/// A world whose permits log what they are asked.
fn counted() -> (World, Arc<Permits>) {
    let mut world = World::with(Settings::default());
    let permits = Arc::<Permits>::default();
    world.engine = world.engine.clone().with_permits(Arc::clone(&permits) as _);
    (world, permits)
}

/// An accepted call of `who`'s.
async fn accepted(world: &World, who: &str, flow: &FlowControl) -> Task {
    world.accept(Call { owner: given::owner(who), flow: Some(flow.clone()), ..call() }).await
}

/// The task `key` once there was time for it.
async fn after_a_while(world: &World, key: &TaskKey) -> Task {
    world.work_until_ended(key, &quick(), 1_000, 120).await
}

#[tokio::test]
async fn a_task_without_flow_control_costs_no_call_more() {
    let (world, permits) = counted();
    world.accepted().await;
    world.took();
    world.work(&quick()).await;
    assert_eq!((world.took(), permits.asked()), (vec!["claim".to_owned(), "finish".to_owned()], vec![]));
}

#[tokio::test]
async fn an_attempt_takes_its_permits_before_its_claim_and_gives_back_that_of_the_concurrency() {
    let (world, permits) = counted();
    let flow = FlowControl { rate: Some(Rate { max: 1, per_ms: 1_000 }), ..one_at_a_time("") };
    let key = accepted(&world, "ann", &flow).await.key();
    world.took();
    world.work(&quick()).await;
    assert_eq!(world.on_record(&key).await.status(), Status::Completed);
    assert_eq!(permits.asked(), ["take", "take", "give back"]);
    assert_eq!(world.took(), ["claim", "claim", "finish", "get"], "the first claim is refused");
}

#[tokio::test]
async fn calls_of_one_key_run_one_after_the_other_and_do_not_hold_a_worker_meanwhile() {
    let (world, _permits) = counted();
    let first = accepted(&world, "ann", &one_at_a_time("acme")).await.key();
    let delivery = world.receive().await.unwrap();
    let (hang, signals) = (hangs(), WorkerSignals::default());
    let attempt = world.begun_with(&delivery, &hang, &signals);
    let second = accepted(&world, "bob", &one_at_a_time("acme")).await.key();
    let other = accepted(&world, "bob", &one_at_a_time("brown")).await.key();
    world.work(&quick()).await;
    assert_eq!(world.on_record(&other).await.status(), Status::Completed, "another key has permits of its own");
    let waiting = world.on_record(&second).await;
    assert_eq!((&waiting.state, waiting.attempt), (&State::Queued, 0), "no attempt has begun");
    world.engine.cancel(&first).await.unwrap();
    world.while_time_passes(1_000, attempt).await;
    assert_eq!(after_a_while(&world, &second).await.status(), Status::Completed);
}

#[tokio::test]
async fn a_task_that_sleeps_gives_its_permit_back() {
    let (world, _permits) = counted();
    let first = accepted(&world, "ann", &one_at_a_time("acme")).await.key();
    let sleeps = tool(|attempt| async move {
        attempt.sleep_ms(3_600_000).await;
        completed("1")
    });
    world.work(&sleeps).await;
    assert!(matches!(world.on_record(&first).await.state, State::Sleeping { .. }));
    let second = accepted(&world, "ann", &one_at_a_time("acme")).await.key();
    world.work(&quick()).await;
    assert_eq!(world.on_record(&second).await.status(), Status::Completed);
}

#[tokio::test]
async fn the_next_attempt_takes_over_the_permit_of_a_dead_worker() {
    let (world, _permits) = counted();
    let first = accepted(&world, "ann", &one_at_a_time("acme")).await.key();
    let delivery = world.receive().await.unwrap();
    world.killed_in_the_tool(&delivery).await;
    let second = accepted(&world, "ann", &one_at_a_time("acme")).await.key();
    world.work(&quick()).await;
    assert_eq!(world.on_record(&second).await.state, State::Queued, "the dead attempt might run on");
    assert_eq!(after_a_while(&world, &first).await.status(), Status::Completed);
    assert_eq!(after_a_while(&world, &second).await.status(), Status::Completed);
}

/// A dead worker's task may have no other attempt: it was cancelled.
#[tokio::test]
async fn the_permit_of_a_dead_worker_is_free_when_its_attempt_could_no_longer_run() {
    let (world, _permits) = counted();
    let first = accepted(&world, "ann", &one_at_a_time("acme")).await.key();
    let delivery = world.receive().await.unwrap();
    world.killed_in_the_tool(&delivery).await;
    world.engine.cancel(&first).await.unwrap();
    let (second, killed_at) = (accepted(&world, "ann", &one_at_a_time("acme")).await.key(), world.now());
    assert_eq!(world.work_until_ended(&second, &quick(), 10_000, 120).await.status(), Status::Completed);
    let waited_ms = world.now().since_ms(killed_at);
    assert!((ATTEMPT_MS..ATTEMPT_MS + 90_000).contains(&waited_ms), "{waited_ms}");
}

#[tokio::test]
async fn so_many_tasks_begin_within_a_time_however_quick_they_are() {
    let (world, _permits) = counted();
    let flow = FlowControl { concurrency: None, rate: Some(Rate { max: 2, per_ms: 60_000 }), ..one_at_a_time("") };
    let mut keys = Vec::new();
    for _ in 0..3 {
        keys.push(accepted(&world, "ann", &flow).await.key());
    }
    let began_at = world.now();
    world.work(&quick()).await;
    let mut ended = Vec::new();
    for key in &keys {
        ended.push(world.on_record(key).await.has_ended());
    }
    assert_eq!(ended.iter().filter(|ended| **ended).count(), 2);
    let last = keys[ended.iter().position(|ended| !ended).unwrap()];
    assert_eq!(after_a_while(&world, &last).await.status(), Status::Completed);
    let waited_ms = world.now().since_ms(began_at);
    assert!((60_000..90_000).contains(&waited_ms), "{waited_ms}");
}

/// A task counts once: a second attempt does not wait.
#[tokio::test]
async fn a_rate_counts_tasks_and_not_attempts() {
    let (world, permits) = counted();
    let flow = FlowControl { concurrency: None, rate: Some(Rate { max: 1, per_ms: 3_600_000 }), ..one_at_a_time("") };
    let key = accepted(&world, "ann", &flow).await.key();
    let delivery = world.receive().await.unwrap();
    world.killed_in_the_tool(&delivery).await;
    assert_eq!(after_a_while(&world, &key).await.status(), Status::Completed);
    assert_eq!(permits.asked(), ["take"]);
}

#[tokio::test]
async fn a_task_that_resumes_a_failed_one_counts_for_the_rate() {
    let (world, _permits) = counted();
    let work = Work::failing(&["pay"]);
    let tool = work.tool(&["book", "pay"]);
    let flow = FlowControl { concurrency: None, rate: Some(Rate { max: 1, per_ms: 60_000 }), ..one_at_a_time("") };
    let failed = accepted(&world, "ann", &flow).await.key();
    world.work(&tool).await;
    assert_eq!((world.on_record(&failed).await.status(), work.ran().len()), (Status::Failed, 2));
    work.fail(&[]);
    let key = resumed(&world, &failed, Resumption::default()).await.unwrap().key();
    world.work(&tool).await;
    assert_eq!((world.on_record(&key).await.status(), work.ran().len()), (Status::Working, 0), "it waits");
    assert_eq!(world.work_until_ended(&key, &tool, 1_000, 120).await.status(), Status::Completed);
    assert_eq!(work.ran(), ["pay"]);
}

/// Found by the simulation (seed 183 with limited attempts): the next attempt ran, and its permit was unknown.
#[tokio::test]
async fn a_task_waits_if_it_is_unknown_whether_it_took_over_the_permit_of_a_dead_worker() {
    let (world, permits) = counted();
    let key = accepted(&world, "ann", &one_at_a_time("")).await.key();
    let delivery = world.receive().await.unwrap();
    world.killed_in_the_tool(&delivery).await;
    *permits.silent_about.lock().unwrap() = Some("take over");
    let tool = quick();
    while !permits.asked().contains(&"take over") {
        world.clock.advance_ms(1_000);
        world.work(&tool).await;
    }
    assert_eq!((world.on_record(&key).await.status(), tool.runs()), (Status::Working, 0));
    *permits.silent_about.lock().unwrap() = None;
    assert_eq!(world.work_until_ended(&key, &tool, 1_000, 120).await.status(), Status::Completed);
}

#[tokio::test]
async fn a_task_waits_if_its_permits_cannot_be_counted() {
    let (world, permits) = counted();
    let key = accepted(&world, "ann", &one_at_a_time("")).await.key();
    permits.silent.store(true, Ordering::Relaxed);
    world.delays();
    world.work(&quick()).await;
    assert_eq!(world.delays().len(), 1, "its message comes again, and does not count as delivered");
    assert_eq!(world.on_record(&key).await.attempt, 0);
    permits.silent.store(false, Ordering::Relaxed);
    assert_eq!(after_a_while(&world, &key).await.status(), Status::Completed);
}

/// A worker of a server without a store of permits leaves the task to another one.
#[tokio::test]
async fn a_worker_without_permits_runs_no_task_that_needs_them() {
    let world = World::new();
    let key = accepted(&world, "ann", &one_at_a_time("")).await.key();
    world.delays();
    world.work(&quick()).await;
    assert_eq!(world.delays().len(), 1, "its message comes again, and does not count as delivered");
    assert_eq!(world.on_record(&key).await.attempt, 0);
}

/// The delivery of a call that is to run.
async fn first(world: &World) -> Delivery {
    accepted(world, "ann", &one_at_a_time("")).await;
    world.receive().await.unwrap()
}

/// More calls: two of Ann's, one of Bob's, and an urgent one of Ann's.
async fn more(world: &World) -> [TaskKey; 4] {
    let (flow, urgent) = (one_at_a_time(""), FlowControl { priority: 1, ..one_at_a_time("") });
    let mut waiting = Vec::new();
    for (who, flow) in [("ann", &flow), ("ann", &flow), ("bob", &flow), ("ann", &urgent)] {
        world.clock.advance_ms(1);
        waiting.push(accepted(world, who, flow).await.key());
    }
    waiting.try_into().unwrap()
}

/// A tool that ends when it is notified.
fn ends_with(end: &Arc<Notify>) -> Tool {
    let end = Arc::clone(end);
    tool(move |_attempt| {
        let end = Arc::clone(&end);
        async move {
            end.notified().await;
            completed("1")
        }
    })
}

/// A tool that notes its tasks.
fn notes_in(order: &Arc<Mutex<Vec<TaskKey>>>) -> Tool {
    let order = Arc::clone(order);
    tool(move |attempt| {
        order.lock().unwrap().push(attempt.task().key());
        async { completed("1") }
    })
}

/// No time passes: the attempt that gives its permit back has the next task start.
#[tokio::test]
async fn tasks_that_wait_follow_each_other_at_once_by_priority_owner_and_time() {
    let (world, _permits) = counted();
    let delivery = first(&world).await;
    let (end, signals) = (Arc::<Notify>::default(), WorkerSignals::default());
    let running = ends_with(&end);
    let attempt = world.begun_with(&delivery, &running, &signals);
    let [ann, again, bob, urgent] = more(&world).await;
    let order = Arc::<Mutex<Vec<TaskKey>>>::default();
    let notes = notes_in(&order);
    world.work(&notes).await;
    assert_eq!(*order.lock().unwrap(), [], "all others wait");
    world.delays();
    end.notify_one();
    attempt.await;
    world.work(&notes).await;
    // Neither owner has a call that runs when a permit is given back, so that time decides between them.
    assert_eq!(*order.lock().unwrap(), [urgent, ann, again, bob]);
    assert_eq!(world.delays(), [0; 4], "each got a message, and nothing is left to wait for");
}

/// No time passes: the turn of the task that has ended passes to the next one.
#[tokio::test]
async fn the_turn_of_a_task_that_ended_while_it_waited_passes_to_the_next_one() {
    let (world, _permits) = counted();
    let delivery = first(&world).await;
    let (end, signals) = (Arc::<Notify>::default(), WorkerSignals::default());
    let running = ends_with(&end);
    let attempt = world.begun_with(&delivery, &running, &signals);
    let [ann, again, bob, urgent] = more(&world).await;
    let order = Arc::<Mutex<Vec<TaskKey>>>::default();
    let notes = notes_in(&order);
    world.work(&notes).await;
    for ended in [&urgent, &again] {
        world.engine.cancel(ended).await.unwrap();
    }
    world.delays();
    end.notify_one();
    attempt.await;
    world.work(&notes).await;
    assert_eq!(*order.lock().unwrap(), [ann, bob]);
    assert_eq!(world.delays(), [0; 4], "each got a message, and nothing is left to wait for");
}

/// The message about the permit comes before the one that ends the task at its deadline.
#[tokio::test]
async fn the_turn_of_a_task_whose_deadline_has_passed_passes_to_the_next_one() {
    let (world, _permits) = counted();
    let delivery = first(&world).await;
    let (end, signals) = (Arc::<Notify>::default(), WorkerSignals::default());
    let running = ends_with(&end);
    let attempt = world.begun_with(&delivery, &running, &signals);
    let (terms, flow) = (Terms { run_ms: 500, ..call().terms }, FlowControl { priority: 1, ..one_at_a_time("") });
    let late = world.accept(Call { terms, flow: Some(flow), ..call() }).await.key();
    let next = accepted(&world, "ann", &one_at_a_time("")).await.key();
    let order = Arc::<Mutex<Vec<TaskKey>>>::default();
    let notes = notes_in(&order);
    world.work(&notes).await;
    end.notify_one();
    attempt.await;
    world.clock.advance_ms(500);
    let mut deliveries = [world.receive().await.unwrap(), world.receive().await.unwrap()];
    deliveries.sort_by_key(|delivery| !delivery.message.is_extra());
    for delivery in &deliveries {
        world.deliver(delivery, &notes).await;
    }
    world.work(&notes).await;
    assert_eq!(world.on_record(&late).await.status(), Status::Failed);
    assert_eq!(*order.lock().unwrap(), [next]);
}

/// The message of a permit is one more: what is left of it does not grow.
#[tokio::test]
async fn a_message_about_a_permit_that_another_task_has_got_by_now_is_dropped() {
    let (world, _permits) = counted();
    let delivery = first(&world).await;
    let (hang, signals) = (hangs(), WorkerSignals::default());
    let _attempt = world.begun_with(&delivery, &hang, &signals);
    let [waiting, ..] = more(&world).await;
    world.work(&quick()).await;
    world.queue.send(&Message::extra(waiting), 0).await.unwrap();
    world.delays();
    world.work(&quick()).await;
    assert_eq!((world.on_record(&waiting).await.state.clone(), world.delays()), (State::Queued, vec![]));
}
