//! What a worker writes while its tool runs, and what ends an attempt from outside.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use longhaul_core::{Progress, State, Status, Task, TaskEvent, Timestamp, limits};
use longhaul_engine::{Attempt, AttemptEnd, Disposition, Settings, WorkerSignals};
use longhaul_testkit::{StoreCall, given};

use super::world::{Tool, World, completed, hangs, quick, tool};

fn half() -> Progress {
    Progress { done: 1.0, total: Some(2.0), message: Some("half".to_owned()) }
}

/// A tool that notes this progress and then hangs.
fn hangs_after(progress: Progress) -> Tool {
    tool(move |attempt| {
        attempt.progress(progress.clone());
        std::future::pending()
    })
}

fn lease_until(task: &Task) -> Timestamp {
    let State::Running { lease } = &task.state else { panic!("{:?}", task.state) };
    lease.until
}

#[tokio::test]
async fn a_heartbeat_extends_lease_and_message_and_writes_the_progress_once() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    let tool = hangs_after(half());
    let mut attempt = world.begun(&delivery, &tool);
    let first = world.on_record(&key).await;
    assert_eq!((first.progress.clone(), first.updated_at), (Some(half()), world.now()), "at once");
    assert_eq!(lease_until(&first), world.now().plus_ms(30_000));
    assert_eq!(world.extensions(), Vec::<u64>::new(), "progress alone leaves the message as it is");
    world.took();
    world.clock.advance_ms(9_999);
    assert!(attempt.as_mut().now_or_never().is_none());
    assert_eq!(world.took(), Vec::<String>::new());
    world.clock.advance_ms(1);
    assert!(attempt.as_mut().now_or_never().is_none());
    assert_eq!((world.took(), world.extensions()), (vec!["heartbeat".to_owned()], vec![30_000]));
    let second = world.on_record(&key).await;
    assert_eq!((&second.progress, second.updated_at), (&first.progress, first.updated_at));
    assert_eq!(lease_until(&second), world.now().plus_ms(30_000));
}

#[tokio::test]
async fn progress_that_could_not_be_written_is_written_after_the_interval() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    let (tool, signals) = (hangs_after(half()), WorkerSignals::default());
    let mut attempt = pin!(world.engine.run_delivery(&delivery, &tool, &signals));
    world.store_fails(|call| matches!(call, StoreCall::Apply(_, TaskEvent::Heartbeat { .. })));
    assert!(attempt.as_mut().now_or_never().is_none());
    assert_eq!(world.took().iter().filter(|call| *call == "heartbeat").count(), 1, "it is not tried in a loop");
    world.store_fails(|_call| false);
    world.clock.advance_ms(1_999);
    assert!(attempt.as_mut().now_or_never().is_none());
    assert_eq!(world.on_record(&key).await.progress, None);
    world.clock.advance_ms(1);
    assert!(attempt.as_mut().now_or_never().is_none());
    assert_eq!(world.on_record(&key).await.progress, Some(half()));
}

/// An attempt of a tool that hangs, whose progress the test reports.
struct Reporting {
    attempt: Arc<Mutex<Option<Attempt>>>,
    tool: Tool,
}

impl Reporting {
    fn new() -> Self {
        let attempt: Arc<Mutex<Option<Attempt>>> = Arc::default();
        let kept = Arc::clone(&attempt);
        let tool = tool(move |attempt| {
            *kept.lock().unwrap() = Some(attempt);
            std::future::pending()
        });
        Self { attempt, tool }
    }

    fn report(&self, done: f64) {
        let progress = Progress { done, total: None, message: None };
        self.attempt.lock().unwrap().as_ref().unwrap().progress(progress);
    }
}

#[tokio::test]
async fn the_first_report_after_a_quiet_interval_is_written_at_once_and_later_ones_wait() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    let reporting = Reporting::new();
    let mut attempt = world.begun(&delivery, &reporting.tool);
    let done = async || world.on_record(&key).await.progress.clone().map(|progress| progress.done);
    assert_eq!(done().await, None);
    for (after_ms, reported, on_record) in [
        (700, Some(1.0), 1.0),
        (1, Some(2.0), 1.0),
        (1_000, Some(3.0), 1.0),
        (998, None, 1.0),
        (1, None, 3.0),
        (1, Some(4.0), 3.0),
        (1_999, None, 4.0),
        // A quiet interval.
        (2_000, None, 4.0),
        (1, Some(5.0), 5.0),
    ] {
        world.clock.advance_ms(after_ms);
        reported.into_iter().for_each(|done| reporting.report(done));
        assert!(attempt.as_mut().now_or_never().is_none());
        assert_eq!(done().await, Some(on_record), "{reported:?} at {:?}", world.now());
    }
}

#[tokio::test]
async fn heartbeats_cost_nothing_more_while_there_is_progress() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    let reporting = Reporting::new();
    let mut attempt = world.begun(&delivery, &reporting.tool);
    world.took();
    let (mut extended_ms, mut longest_ms) = (0, 0);
    for tick in 0_u32..600 {
        reporting.report(f64::from(tick));
        assert!(attempt.as_mut().now_or_never().is_none());
        if !world.extensions().is_empty() {
            extended_ms = u64::from(tick) * 100;
        }
        longest_ms = longest_ms.max(u64::from(tick) * 100 - extended_ms);
        world.clock.advance_ms(100);
    }
    assert_eq!(world.took(), vec!["heartbeat"; 30], "one write for each two seconds of a minute");
    assert!(longest_ms < world.engine.settings().heartbeat_ms, "the message stays hidden: {longest_ms} ms");
    assert!(lease_until(&world.on_record(&key).await) > world.now().plus_ms(27_000));
}

#[tokio::test]
async fn the_end_of_a_task_writes_its_last_progress_without_a_further_write() {
    let (world, key) = World::with_key().await;
    world.took();
    let tool = tool(|attempt| async move {
        attempt.progress(Progress { done: 1.0, ..half() });
        attempt.progress(Progress { done: 2.0, ..half() });
        completed("1")
    });
    world.work(&tool).await;
    assert_eq!(world.took(), ["claim", "finish"]);
    let task = world.on_record(&key).await;
    assert_eq!((task.status(), &task.progress), (Status::Completed, &Some(Progress { done: 2.0, ..half() })));
}

#[tokio::test]
async fn an_attempt_that_fails_leaves_its_last_progress_on_record() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        attempt.progress(half());
        AttemptEnd::Crashed { reason: "it panicked".to_owned() }
    });
    world.work(&tool).await;
    let task = world.on_record(&key).await;
    assert_eq!((task.failures, &task.progress), (1, &Some(half())));
}

#[tokio::test]
async fn progress_that_is_not_a_number_is_ignored_and_a_long_message_is_cut() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let message = Some("x".repeat(limits::MESSAGE_BYTES_MAX + 1));
        attempt.progress(Progress { done: 1.0, total: Some(f64::INFINITY), message });
        attempt.progress(Progress { done: f64::NAN, ..half() });
        completed(&attempt.ask("a", "{}".to_owned()).await)
    });
    world.work(&tool).await;
    let progress = world.on_record(&key).await.progress.clone().unwrap();
    assert_eq!((progress.done, progress.total), (1.0, None));
    assert_eq!(progress.message.map(|message| message.len()), Some(limits::MESSAGE_BYTES_MAX));
}

#[tokio::test]
async fn the_first_step_after_failures_is_written_at_once_and_later_ones_are_not() {
    let (world, key, delivery) = World::after_a_crash().await;
    let tool = tool(|attempt| async move {
        for name in ["a", "b"] {
            let Ok(_text) = attempt.step(name, async || Ok::<_, Infallible>("1".to_owned())).await;
        }
        std::future::pending().await
    });
    let signals = WorkerSignals::default();
    let mut attempt = pin!(world.engine.run_delivery(&delivery, &tool, &signals));
    world.took();
    assert!(attempt.as_mut().now_or_never().is_none());
    assert_eq!(world.took(), ["claim", "journal", "record", "record", "heartbeat"]);
    assert_eq!(world.on_record(&key).await.failures, 0);
    assert!(attempt.as_mut().now_or_never().is_none());
    assert_eq!(world.took(), ["get"], "nothing but what this test read");
}

#[tokio::test]
async fn a_worker_that_will_be_killed_holds_no_lease_past_that_moment() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    let killed_at = world.now().plus_ms(5_000);
    let (tool, signals) = (hangs(), WorkerSignals { until: Some(killed_at), ..WorkerSignals::default() });
    let mut attempt = world.begun_with(&delivery, &tool, &signals);
    assert_eq!(lease_until(&world.on_record(&key).await), killed_at);
    world.clock.advance_ms(4_999);
    assert!(attempt.as_mut().now_or_never().is_none());
    world.clock.advance_ms(1);
    assert_eq!(attempt.as_mut().now_or_never(), Some(Disposition::Acknowledge));
    assert_eq!(world.on_record(&key).await.failures, 1, "the tool overran its attempt");
}

#[tokio::test]
async fn an_attempt_that_reaches_no_step_boundary_in_its_time_is_a_failure_that_says_so() {
    let world = World::with(Settings { attempt_ms_max: Some(1_000), ..Settings::default() });
    let key = world.accepted().await.key();
    let delivery = world.receive().await.unwrap();
    let until = Some(world.now().plus_ms(5_000));
    let (tool, signals) = (hangs(), WorkerSignals { until, ..WorkerSignals::default() });
    let mut attempt = world.begun_with(&delivery, &tool, &signals);
    world.clock.advance_ms(999);
    assert!(attempt.as_mut().now_or_never().is_none());
    world.clock.advance_ms(1);
    assert_eq!(attempt.as_mut().now_or_never(), Some(Disposition::Acknowledge));
    let reason = world.on_record(&key).await.last_failure.clone().unwrap();
    assert!(reason.contains("within the 1000 ms"), "{reason}");
}

#[tokio::test]
async fn a_worker_that_is_asked_to_stop_releases_the_task_after_its_grace_period() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    let (tool, signals) = (hangs(), WorkerSignals::default());
    let mut attempt = world.begun_with(&delivery, &tool, &signals);
    signals.stop.cancel();
    assert!(attempt.as_mut().now_or_never().is_none());
    world.clock.advance_ms(1_999);
    assert!(attempt.as_mut().now_or_never().is_none());
    world.delays();
    world.clock.advance_ms(1);
    assert_eq!(attempt.as_mut().now_or_never(), Some(Disposition::Acknowledge));
    let given_back = world.on_record(&key).await;
    assert_eq!((given_back.state.clone(), given_back.failures), (State::Queued, 0));
    assert_eq!(world.delays(), [0]);
}

/// Is pending when it is first polled, and ready after that.
async fn pending_once() {
    let mut polled = false;
    std::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::replace(&mut polled, true) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test]
async fn a_worker_that_is_asked_to_stop_starts_no_further_step() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    let signals = WorkerSignals::default();
    let stop = signals.stop.clone();
    let tool = tool(move |attempt| {
        let stop = stop.clone();
        async move {
            let Ok(_text) = attempt.step("a", async || Ok::<_, Infallible>("1".to_owned())).await;
            stop.cancel();
            // Lets the code that watches this attempt see the signal.
            pending_once().await;
            let Ok(_text) = attempt.step("b", async || Ok::<_, Infallible>("1".to_owned())).await;
            completed("1")
        }
    });
    assert_eq!(world.engine.run_delivery(&delivery, &tool, &signals).await, Disposition::Acknowledge);
    assert_eq!(world.on_record(&key).await.state, State::Queued);
    world.work(&quick()).await;
    assert_eq!(world.on_record(&key).await.status(), Status::Completed);
}

#[tokio::test]
async fn a_worker_that_lost_its_task_stops_its_tool_and_leaves_the_message() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    let seen: Arc<Mutex<Option<Attempt>>> = Arc::default();
    let seen_in = Arc::clone(&seen);
    let tool = tool(move |attempt| {
        *seen_in.lock().unwrap() = Some(attempt);
        std::future::pending::<AttemptEnd>()
    });
    let mut attempt = world.begun(&delivery, &tool);
    world.clock.advance_ms(30_000);
    let (claim, now) = (given::claim(9, world.now()), world.now());
    let claimed = longhaul_core::ports::TaskStore::apply(&*world.store, &key, &claim, now).await;
    assert_eq!(claimed.unwrap().attempt, 2);
    assert_eq!(attempt.as_mut().now_or_never(), Some(Disposition::RetryAfter { after_ms: 30_000 }));
    assert!(seen.lock().unwrap().as_ref().unwrap().cancelled().is_cancelled());
    assert_eq!(world.on_record(&key).await.attempt, 2);
}

#[tokio::test]
async fn a_tool_that_ends_by_itself_is_not_cancelled() {
    let (world, _task) = World::with_task().await;
    let seen: Arc<Mutex<Option<Attempt>>> = Arc::default();
    let seen_in = Arc::clone(&seen);
    let tool = tool(move |attempt| {
        assert_eq!(attempt.task().attempt, 1);
        assert_eq!(attempt.ends_at(), attempt.task().deadline());
        *seen_in.lock().unwrap() = Some(attempt);
        async { completed("1") }
    });
    world.work(&tool).await;
    assert!(!seen.lock().unwrap().as_ref().unwrap().cancelled().is_cancelled());
}
