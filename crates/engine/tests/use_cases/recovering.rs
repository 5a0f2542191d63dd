//! Stuck tasks that polls and deliveries find are recovered; a task that is not stuck costs only the read.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use futures::FutureExt;
use futures::future::{Either, join, select};
use longhaul_core::ports::{Delivery, TaskStore};
use longhaul_core::{FailureKind, State, Status, TaskEvent, TaskKey};
use longhaul_engine::{Attempt, AttemptEnd, Disposition, WorkerSignals};
use longhaul_testkit::{Fault, StoreCall, given};

use super::world::{World, answers, asks, completed, quick, sleeps, tool};

/// A task whose worker was killed, and the delivery that it worked on.
async fn killed(world: &World) -> (TaskKey, Delivery) {
    let key = world.accepted().await.key();
    let delivery = world.receive().await.unwrap();
    world.killed_in_the_tool(&delivery).await;
    (key, delivery)
}

async fn failure_kind(world: &World, key: &TaskKey) -> FailureKind {
    let State::Failed { failure } = &world.on_record(key).await.state else { panic!("the task has not failed") };
    failure.kind
}

#[tokio::test]
async fn a_poll_sends_the_message_of_a_dead_worker_again_once_per_bound() {
    let world = World::new();
    let (key, _) = killed(&world).await;
    let settings = *world.engine.settings();
    world.clock.advance_ms(settings.lease_ms + settings.resend_ms - 1);
    world.took();
    world.engine.poll(&key).await.unwrap();
    assert_eq!(world.took(), ["get"]);
    world.clock.advance_ms(1);
    world.engine.poll(&key).await.unwrap();
    assert_eq!(world.took(), ["get", "resend", "send"]);
    world.engine.poll(&key).await.unwrap();
    assert_eq!(world.took(), ["get"], "it was sent just now");
}

#[tokio::test]
async fn a_poll_sends_the_message_of_a_sleeper_again_once_per_bound() {
    let (world, key) = World::with_key().await;
    world.work(&sleeps(60_000)).await;
    world.clock.advance_ms(60_000 + world.engine.settings().resend_ms);
    world.took();
    world.engine.poll(&key).await.unwrap();
    assert_eq!(world.took(), ["get", "resend", "send"]);
    world.engine.poll(&key).await.unwrap();
    assert_eq!(world.took(), ["get"], "it was sent just now");
}

#[tokio::test]
async fn a_poll_leaves_the_last_attempt_alone_while_its_lease_lasts() {
    let world = World::new();
    let (key, delivery) = killed(&world).await;
    for _ in 0..2 {
        world.clock.advance_ms(world.engine.settings().lease_ms);
        world.killed_in_the_tool(&delivery).await;
    }
    world.clock.advance_ms(world.engine.settings().lease_ms - 1);
    world.took();
    world.engine.poll(&key).await.unwrap();
    assert_eq!(world.took(), ["get"]);
    world.clock.advance_ms(1);
    assert_eq!(world.engine.poll(&key).await.unwrap().status(), Status::Failed);
}

#[tokio::test]
async fn a_poll_of_a_task_that_has_ended_or_waits_costs_one_read() {
    let world = World::new();
    for worker in [quick(), asks("a")] {
        let task = world.accepted().await;
        world.work(&worker).await;
        world.clock.advance_ms(10 * world.engine.settings().resend_ms);
        world.took();
        world.engine.poll(&task.key()).await.unwrap();
        assert_eq!(world.took(), ["get"]);
    }
    let task = world.accepted().await;
    world.work(&quick()).await;
    world.clock.advance_to(task.deadline());
    world.took();
    assert_eq!(world.engine.poll(&task.key()).await.unwrap().status(), Status::Completed);
    assert_eq!(world.took(), ["get"]);
}

#[tokio::test]
async fn a_delivery_ends_a_task_whose_attempts_are_all_dead() {
    let world = World::new();
    let (key, delivery) = killed(&world).await;
    for _ in 0..2 {
        world.clock.advance_ms(world.engine.settings().lease_ms);
        world.killed_in_the_tool(&delivery).await;
    }
    world.clock.advance_ms(world.engine.settings().lease_ms);
    assert_eq!(world.deliver(&delivery, &quick()).await, Disposition::Acknowledge);
    assert_eq!(failure_kind(&world, &key).await, FailureKind::RetriesExhausted);
}

#[tokio::test]
async fn a_delivery_ends_a_task_past_its_deadline() {
    let (world, task, delivery) = World::with_delivery().await;
    world.clock.advance_to(task.deadline());
    let tool = quick();
    assert_eq!(world.deliver(&delivery, &tool).await, Disposition::Acknowledge);
    assert_eq!((tool.runs(), failure_kind(&world, &task.key()).await), (0, FailureKind::TimedOut));
}

#[tokio::test]
async fn a_delivery_ends_a_question_with_a_timer_past_the_deadline() {
    let (world, task, delivery) = World::with_delivery().await;
    let tool = tool(|attempt| async move {
        let ask = pin!(attempt.ask("color", "{}".to_owned()));
        let sleep = pin!(attempt.sleep_ms(60_000));
        drop(select(ask, sleep).await);
        completed("1")
    });
    world.deliver(&delivery, &tool).await;
    world.clock.advance_to(task.deadline());
    assert_eq!(world.deliver(&delivery, &tool).await, Disposition::Acknowledge);
    assert_eq!((tool.runs(), failure_kind(&world, &task.key()).await), (1, FailureKind::TimedOut));
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_a_claim() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    let mut lost = false;
    world.store.follow(move |call| match call {
        StoreCall::Apply(_, TaskEvent::Claim { .. }) if !lost => {
            lost = true;
            Fault::After
        }
        _ => Fault::None,
    });
    let disposition = world.while_time_passes(10, world.deliver(&delivery, &quick())).await;
    assert_eq!(disposition, Disposition::Acknowledge);
    let ended = world.on_record(&key).await;
    assert_eq!((ended.attempt, ended.status()), (1, Status::Completed));
}

#[tokio::test]
async fn an_attempt_whose_task_was_forgotten_ends() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    let hang = tool(|_attempt| std::future::pending::<AttemptEnd>());
    let mut attempt = world.begun(&delivery, &hang);
    world.engine.cancel(&key).await.unwrap();
    world.engine.forget(&key).await.unwrap();
    world.clock.advance_ms(world.engine.settings().heartbeat_ms);
    assert_eq!(attempt.as_mut().now_or_never(), Some(Disposition::Acknowledge));
}

#[tokio::test]
async fn a_failure_after_the_first_step_of_a_task_costs_no_heartbeat() {
    let (world, _task) = World::with_task().await;
    let tool = tool(|attempt| async move {
        let Ok(_text) = attempt.step("a", async || Ok::<_, Infallible>("1".to_owned())).await;
        AttemptEnd::Crashed { reason: "it panicked".to_owned() }
    });
    world.took();
    world.work(&tool).await;
    assert_eq!(world.took(), ["claim", "record", "retry", "send"]);
}

#[tokio::test]
async fn an_advance_that_a_heartbeat_could_not_write_is_written_by_the_next_one() {
    let (world, key, delivery) = World::after_a_crash().await;
    let tool = tool(|attempt| async move {
        let Ok(_text) = attempt.step("a", async || Ok::<_, Infallible>("1".to_owned())).await;
        std::future::pending().await
    });
    let signals = WorkerSignals::default();
    let mut attempt = pin!(world.engine.run_delivery(&delivery, &tool, &signals));
    world.store_fails(|call| matches!(call, StoreCall::Apply(_, TaskEvent::Heartbeat { .. })));
    assert!(attempt.as_mut().now_or_never().is_none());
    assert_eq!(world.on_record(&key).await.failures, 1);
    world.store_fails(|_call| false);
    world.clock.advance_ms(world.engine.settings().heartbeat_ms);
    assert!(attempt.as_mut().now_or_never().is_none());
    assert_eq!(world.on_record(&key).await.failures, 0);
}

#[tokio::test]
async fn later_steps_and_repeated_progress_do_not_count_as_updates() {
    let (world, key, delivery) = World::after_a_crash().await;
    let tool = tool(|attempt| async move {
        for name in ["a", "b"] {
            attempt.progress(longhaul_core::Progress { done: 1.0, total: None, message: None });
            let Ok(_text) = attempt.step(name, async || Ok::<_, Infallible>("1".to_owned())).await;
            attempt.sleep_ms(500).await;
        }
        std::future::pending().await
    });
    let mut attempt = world.begun(&delivery, &tool);
    let first = world.on_record(&key).await;
    assert!(first.progress.is_some() && first.failures == 0);
    world.took();
    world.clock.advance_ms(500);
    assert!(attempt.as_mut().now_or_never().is_none());
    assert_eq!(world.took(), ["record", "record"], "a step and a sleep, and no heartbeat");
    world.clock.advance_ms(world.engine.settings().heartbeat_ms);
    assert!(attempt.as_mut().now_or_never().is_none());
    assert!(world.took().contains(&"heartbeat".to_owned()));
    assert_eq!(world.on_record(&key).await.updated_at, first.updated_at);
}

/// Pending once, like something that takes a moment.
async fn a_moment() {
    let mut polled = false;
    std::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[tokio::test]
async fn a_step_that_runs_alongside_a_question_is_recorded_before_the_attempt_ends() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let body = async || {
            a_moment().await;
            Ok::<_, Infallible>("1".to_owned())
        };
        drop(join(attempt.ask("a", "{}".to_owned()), attempt.step("s", body)).await);
        completed("1")
    });
    world.work(&tool).await;
    assert_eq!(world.on_record(&key).await.status(), Status::InputRequired);
    assert_eq!(world.store.journal(&key).await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_first_of_two_failures_is_reported() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let fail = |message: &str| attempt.fail::<()>(FailureKind::Misuse, message.to_owned());
        join(fail("first"), fail("second")).await;
        completed("1")
    });
    world.work(&tool).await;
    let State::Failed { failure } = world.on_record(&key).await.state.clone() else { panic!() };
    assert_eq!(failure.message, "first");
}

#[derive(Default)]
struct Woken(Mutex<bool>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        *self.0.lock().unwrap() = true;
    }
}

#[tokio::test]
async fn a_question_that_is_asked_outside_of_the_tools_future_wakes_the_attempt() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    let seen: Arc<Mutex<Option<Attempt>>> = Arc::default();
    let seen_in = Arc::clone(&seen);
    let hang = tool(move |attempt| {
        *seen_in.lock().unwrap() = Some(attempt);
        std::future::pending::<AttemptEnd>()
    });
    let signals = WorkerSignals::default();
    let woken = Arc::<Woken>::default();
    let waker = Waker::from(Arc::clone(&woken));
    let mut delivered = pin!(world.engine.run_delivery(&delivery, &hang, &signals));
    assert!(delivered.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    *woken.0.lock().unwrap() = false;
    let attempt = seen.lock().unwrap().clone().unwrap();
    let mut asked = pin!(attempt.ask("a", "{}".to_owned()));
    assert!(asked.as_mut().now_or_never().is_none());
    assert!(*woken.0.lock().unwrap());
    assert_eq!(delivered.as_mut().now_or_never(), Some(Disposition::Acknowledge));
    assert_eq!(world.on_record(&key).await.status(), Status::InputRequired);
}

#[tokio::test]
async fn variables_whose_write_was_dropped_are_not_set_again_in_the_same_attempt() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    let mut fails = true;
    world.store_fails(move |call| {
        matches!(call, StoreCall::Apply(_, TaskEvent::SetVariables { .. })) && std::mem::take(&mut fails)
    });
    let tool = tool(|attempt| async move {
        {
            let set = pin!(attempt.set_variable("n", serde_json::json!(1)));
            let moment = pin!(a_moment());
            let is_dropped = matches!(select(set, moment).await, Either::Right(_));
            assert!(is_dropped, "the store does not answer");
        }
        attempt.set_variable("n", serde_json::json!(2)).await.unwrap();
        completed("1")
    });
    world.deliver(&delivery, &tool).await;
    assert_eq!(world.on_record(&key).await.state, State::Queued);
}

#[tokio::test]
async fn a_message_is_sent_only_when_the_last_question_is_answered() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let (a, b) = join(attempt.ask("a", "{}".to_owned()), attempt.ask("b", "{}".to_owned())).await;
        completed(&format!("[{a},{b}]"))
    });
    world.work(&tool).await;
    world.delays();
    world.engine.answer(&key, &answers("a", "1")).await.unwrap();
    assert_eq!(world.delays(), Vec::<u64>::new());
    world.engine.answer(&key, &answers("b", "2")).await.unwrap();
    assert_eq!(world.delays(), [0]);
    world.work(&tool).await;
    let ended = world.on_record(&key).await;
    assert!(matches!(&ended.state, State::Completed { result, .. } if *result == given::inline("[1,2]")));
}
