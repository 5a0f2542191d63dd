//! What a tool left is cleaned when its task has ended, and not with success.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::FutureExt;
use longhaul_core::{
    Cleanup, Clock, Policy, RequestedTerms, ResultKind, State, Status, Task, TaskKey, Terms, Timestamp, limits,
};
use longhaul_engine::{Attempt, AttemptEnd, Call, Cleaned, Ended, Settings, ToolRunner, WorkerSignals};

use super::world::{Tool, World, call, completed, crashing, tool};

const LEASE_MS: u64 = 30_000;

async fn armed(world: &World) -> TaskKey {
    world.accept(Call { cleanup: Cleanup::ARMED, ..call() }).await.key()
}

fn cleans(tool: Tool) -> Tool {
    tool.cleaned_by(|_ended| async { Cleaned::Done })
}

fn hangs() -> Tool {
    cleans(tool(|_attempt| std::future::pending()))
}

fn asks() -> Tool {
    cleans(tool(|attempt| async move { completed(&attempt.ask("color", "{}".to_owned()).await) }))
}

async fn cleanup(world: &World, key: &TaskKey) -> Cleanup {
    world.on_record(key).await.cleanup
}

/// A task that is cancelled while it waits for an answer.
async fn cancelled_while_it_waits(world: &World, tool: &Tool) -> TaskKey {
    let key = armed(world).await;
    world.work(tool).await;
    world.delays();
    world.engine.cancel(&key).await.unwrap();
    key
}

/// Lets time pass in steps of a lease, and works.
async fn works_for_leases(world: &World, tool: &Tool, leases: u32) {
    for _ in 0..leases {
        world.clock.advance_ms(LEASE_MS);
        world.work(tool).await;
    }
}

#[tokio::test]
async fn a_task_that_was_cancelled_while_it_waits_is_cleaned_at_once() {
    let world = World::new();
    let tool = asks();
    let key = cancelled_while_it_waits(&world, &tool).await;
    assert_eq!(world.delays(), [0]);
    world.work(&tool).await;
    assert_eq!((tool.cleanups(), tool.runs(), cleanup(&world, &key).await), (1, 1, Cleanup::Done));
    assert_eq!(world.on_record(&key).await.status(), Status::Cancelled);
    works_for_leases(&world, &tool, 3).await;
    assert_eq!(tool.cleanups(), 1);
}

#[tokio::test]
async fn a_task_that_was_cancelled_while_a_worker_holds_it_is_cleaned_by_others_when_its_lease_is_over() {
    let world = World::new();
    let (key, dead, tool) = (armed(&world).await, hangs(), hangs());
    let delivery = world.receive().await.unwrap();
    drop(world.begun(&delivery, &dead));
    world.clock.advance_ms(LEASE_MS / 3);
    world.delays();
    world.engine.cancel(&key).await.unwrap();
    assert_eq!(world.delays(), [LEASE_MS]);
    world.clock.advance_ms(LEASE_MS - 1);
    world.work(&tool).await;
    assert_eq!(tool.cleanups(), 0);
    world.clock.advance_ms(1);
    world.work(&tool).await;
    assert_eq!((dead.cleanups(), tool.cleanups(), cleanup(&world, &key).await), (0, 1, Cleanup::Done));
}

#[tokio::test]
async fn the_worker_of_a_cancelled_task_cleans_at_once_when_it_has_dropped_the_tool() {
    let world = World::new();
    let (key, tool) = (armed(&world).await, hangs());
    let delivery = world.receive().await.unwrap();
    let mut attempt = world.begun(&delivery, &tool);
    world.engine.cancel(&key).await.unwrap();
    assert!(attempt.as_mut().now_or_never().is_none());
    assert_eq!(tool.cleanups(), 0, "the tool still runs");
    world.clock.advance_ms(10_000);
    assert!(attempt.as_mut().now_or_never().is_some());
    assert_eq!((tool.cleanups(), cleanup(&world, &key).await), (1, Cleanup::Done));
    works_for_leases(&world, &tool, 3).await;
    assert_eq!(tool.cleanups(), 1);
}

#[tokio::test]
async fn a_task_whose_time_is_up_or_that_used_up_its_retries_is_cleaned() {
    let world = World::new();
    let (key, tool) = (armed(&world).await, hangs());
    let delivery = world.receive().await.unwrap();
    world.while_time_passes(5_000, world.deliver(&delivery, &tool)).await;
    assert_eq!((world.on_record(&key).await.status(), tool.cleanups()), (Status::Failed, 1));

    let (key, tool) = (armed(&world).await, cleans(crashing()));
    world.work_until_ended(&key, &tool, 1_000, 10).await;
    assert_eq!((tool.runs(), tool.cleanups(), cleanup(&world, &key).await), (3, 1, Cleanup::Done));
}

#[tokio::test]
async fn a_task_that_waits_for_an_answer_ends_at_its_deadline_and_is_cleaned_although_nobody_polls() {
    let world = World::new();
    let (key, tool) = (armed(&world).await, asks());
    world.work(&tool).await;
    let task: Task = world.on_record(&key).await;
    assert!(matches!(&task.state, State::InputRequired { until: None, .. }));
    world.clock.advance_to(task.deadline());
    world.work(&tool).await;
    assert_eq!((world.on_record(&key).await.status(), tool.cleanups()), (Status::Failed, 1));
}

#[tokio::test]
async fn a_task_whose_tool_returned_an_error_is_cleaned_at_once_and_one_that_succeeded_never() {
    let world = World::new();
    let failed = || AttemptEnd::Failed { message: "no".to_owned(), detail: "{}".to_owned() };
    let says_no = || AttemptEnd::Completed { result: "{}".to_owned(), kind: ResultKind::ToolError };
    for (tool, cleanups, state) in [
        (cleans(tool(|_attempt| async { completed("1") })), 0, Cleanup::ARMED),
        (cleans(tool(move |_attempt| async move { failed() })), 1, Cleanup::Done),
        (cleans(tool(move |_attempt| async move { says_no() })), 1, Cleanup::Done),
    ] {
        let key = armed(&world).await;
        world.work(&tool).await;
        assert!(world.on_record(&key).await.has_ended());
        assert_eq!((tool.runs(), tool.cleanups()), (1, cleanups));
        works_for_leases(&world, &tool, 2).await;
        assert_eq!((tool.runs(), tool.cleanups(), cleanup(&world, &key).await), (1, cleanups, state));
    }
}

#[tokio::test]
async fn a_task_without_cleanup_is_not_cleaned() {
    let world = World::new();
    let (key, tool) = (world.accepted().await.key(), asks());
    world.work(&tool).await;
    world.delays();
    world.engine.cancel(&key).await.unwrap();
    works_for_leases(&world, &tool, 2).await;
    assert_eq!((tool.cleanups(), world.delays()), (0, Vec::new()));
}

#[tokio::test]
async fn the_cleanup_sees_the_request_and_the_steps_that_were_recorded() {
    let world = World::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = Arc::clone(&seen);
    let steps = tool(|attempt| async move {
        let Ok(_text) = attempt.step("start", async || Ok::<_, Infallible>("\"job-17\"".to_owned())).await;
        completed(&attempt.ask("color", "{}".to_owned()).await)
    });
    let tool = steps.cleaned_by(move |ended| {
        let sees = Arc::clone(&sees);
        async move {
            let steps = (ended.step("start").await.unwrap(), ended.step("other").await.unwrap());
            sees.lock().unwrap().push((ended.request().to_owned(), ended.task().status(), steps));
            Cleaned::Done
        }
    });
    cancelled_while_it_waits(&world, &tool).await;
    works_for_leases(&world, &tool, 1).await;
    let steps = (Some("\"job-17\"".to_owned()), None);
    assert_eq!(*seen.lock().unwrap(), [("{}".to_owned(), Status::Cancelled, steps)]);
}

#[tokio::test]
async fn cleanup_that_fails_is_tried_again_with_pauses_and_given_up_after_five_tries() {
    let world = World::new();
    let tool = asks().cleaned_by(|_ended| async { Cleaned::Failed { reason: "it is in use".to_owned() } });
    let key = cancelled_while_it_waits(&world, &tool).await;
    world.clock.advance_ms(LEASE_MS);
    world.delays();
    for delay_ms in [1_000, 2_000, 4_000, 8_000, 16_000] {
        world.work(&tool).await;
        assert_eq!(world.delays(), [delay_ms]);
        world.clock.advance_ms(delay_ms);
    }
    world.work(&tool).await;
    assert_eq!((tool.cleanups(), cleanup(&world, &key).await), (5, Cleanup::GivenUp));
    works_for_leases(&world, &tool, 3).await;
    assert_eq!(tool.cleanups(), 5);
}

/// A system that is away for some seconds at the moment of a cancel must not cost the job that runs there.
#[tokio::test]
async fn cleanup_that_returns_an_error_is_tried_again_for_six_hours() {
    let hours = Policy { retention_ms: 24 * 60 * 60 * 1_000, ..longhaul_testkit::given::policy() };
    let world = World::new();
    let tool = asks().cleaned_by(|_ended| async { Cleaned::Unfinished { reason: "nobody answers".to_owned() } });
    let terms = Terms::negotiate(&hours, RequestedTerms::default());
    let key = world.accept(Call { cleanup: Cleanup::ARMED, terms, ..call() }).await.key();
    world.work(&tool).await;
    world.delays();
    world.engine.cancel(&key).await.unwrap();
    let ended_at = world.clock.now();
    world.delays();
    let mut pauses = Vec::new();
    while cleanup(&world, &key).await != Cleanup::GivenUp {
        world.work(&tool).await;
        let Some(pause_ms) = world.delays().pop() else { break };
        pauses.push(pause_ms);
        world.clock.advance_ms(pause_ms);
    }
    assert_eq!(pauses.get(..4), Some(&[1_000, 1_000, 1_000, 1_500][..]));
    assert_eq!(pauses.iter().max(), Some(&limits::CLEANUP_PAUSE_MS_MAX));
    assert_eq!(cleanup(&world, &key).await, Cleanup::GivenUp);
    assert!(world.clock.now().since_ms(ended_at) >= limits::CLEANUP_MS_MAX);
    assert!(tool.cleanups() < 60, "{}", tool.cleanups());
}

/// An attempt whose task is cancelled while it runs, in a worker that lives until then.
async fn cancelled_in_its_attempt(world: &World, key: &TaskKey, tool: &Tool, until: Option<Timestamp>) {
    let delivery = world.receive().await.unwrap();
    let signals = WorkerSignals { until, ..WorkerSignals::default() };
    let mut attempt = world.begun_with(&delivery, tool, &signals);
    world.engine.cancel(key).await.unwrap();
    world.delays();
    world.clock.advance_ms(10_000);
    assert!(attempt.as_mut().now_or_never().is_some());
}

#[tokio::test]
async fn after_a_first_try_in_the_worker_of_the_attempt_the_second_one_does_not_wait_for_a_lease() {
    let world = World::new();
    let key = armed(&world).await;
    let tool = hangs().cleaned_by(|_ended| async { Cleaned::Failed { reason: "it is in use".to_owned() } });
    cancelled_in_its_attempt(&world, &key, &tool, None).await;
    assert_eq!((tool.cleanups(), world.delays()), (1, vec![1_000]));
    world.clock.advance_ms(1_000);
    world.work(&tool).await;
    assert_eq!((tool.cleanups(), world.delays()), (2, vec![2_000]));
}

#[tokio::test]
async fn a_worker_that_does_not_live_for_a_whole_try_leaves_it_to_another_one() {
    let world = World::new();
    let (key, tool) = (armed(&world).await, hangs());
    let until = world.clock.now().plus_ms(60_000);
    cancelled_in_its_attempt(&world, &key, &tool, Some(until)).await;
    assert_eq!((tool.cleanups(), world.delays()), (0, vec![LEASE_MS - 10_000]));
    works_for_leases(&world, &tool, 1).await;
    assert_eq!((tool.cleanups(), cleanup(&world, &key).await), (1, Cleanup::Done));
}

#[tokio::test]
async fn a_worker_that_dies_while_it_cleans_is_followed_by_another() {
    let world = World::new();
    let hangs = asks().cleaned_by(|_ended| std::future::pending());
    let key = cancelled_while_it_waits(&world, &hangs).await;
    world.clock.advance_ms(LEASE_MS);
    let delivery = world.receive().await.unwrap();
    drop(world.begun(&delivery, &hangs));
    let tool = asks();
    world.work(&tool).await;
    assert_eq!(tool.cleanups(), 0, "the one that died still has its time");
    works_for_leases(&world, &tool, 3).await;
    assert_eq!((hangs.cleanups(), tool.cleanups(), cleanup(&world, &key).await), (1, 1, Cleanup::Done));
}

#[tokio::test]
async fn cleanup_that_takes_too_long_is_stopped_and_tried_again() {
    let world = World::with(Settings { cleanup_ms: 5_000, ..Settings::default() });
    let hangs = asks().cleaned_by(|_ended| std::future::pending());
    let key = cancelled_while_it_waits(&world, &hangs).await;
    world.clock.advance_ms(LEASE_MS);
    let delivery = world.receive().await.unwrap();
    world.delays();
    world.while_time_passes(1_000, world.deliver(&delivery, &hangs)).await;
    assert_eq!((hangs.cleanups(), world.delays()), (1, vec![1_000]));
    assert!(matches!(cleanup(&world, &key).await, Cleanup::Armed { tries: 1, .. }));
}

#[tokio::test]
async fn a_worker_without_memory_cleans_up_later_and_counts_no_try() {
    let world = World::new();
    let full = asks().cleaned_by(|_ended| async { Cleaned::NoMemory });
    let key = cancelled_while_it_waits(&world, &full).await;
    works_for_leases(&world, &full, 8).await;
    assert!(matches!(cleanup(&world, &key).await, Cleanup::Armed { tries: 0, .. }));
    assert!(full.cleanups() > 1);
    let tool = asks();
    works_for_leases(&world, &tool, 2).await;
    assert_eq!((tool.cleanups(), cleanup(&world, &key).await), (1, Cleanup::Done));
}

#[tokio::test]
async fn a_worker_without_the_tool_leaves_the_cleanup_to_another() {
    let world = World::new();
    let key = cancelled_while_it_waits(&world, &asks()).await;
    let other = tool(|_attempt| async { AttemptEnd::NoSuchTool });
    works_for_leases(&world, &other, 8).await;
    assert!(matches!(cleanup(&world, &key).await, Cleanup::Armed { tries: 0, .. }));
    let tool = asks();
    works_for_leases(&world, &tool, 2).await;
    assert_eq!((tool.cleanups(), cleanup(&world, &key).await), (1, Cleanup::Done));
}

#[tokio::test]
async fn a_poll_sends_a_lost_message_for_cleanup_again() {
    let world = World::new();
    let (key, tool) = (armed(&world).await, hangs());
    // The only message of the task is lost, and so is the one of the cancel request.
    let delivery = world.receive().await.unwrap();
    longhaul_core::ports::WorkQueue::delete(&*world.queue, &delivery.receipt).await.unwrap();
    world.sends_fail(1);
    world.engine.cancel(&key).await.unwrap();
    world.clock.advance_ms(LEASE_MS - 1);
    world.engine.poll(&key).await.unwrap();
    assert!(world.receive().await.is_none(), "too early to be lost");
    world.clock.advance_ms(1);
    world.engine.poll(&key).await.unwrap();
    world.engine.poll(&key).await.unwrap();
    world.work(&tool).await;
    assert_eq!((tool.cleanups(), cleanup(&world, &key).await), (1, Cleanup::Done));
}

/// Notes when it is dropped.
struct Notes(Arc<Mutex<Vec<&'static str>>>);

impl Drop for Notes {
    fn drop(&mut self) {
        self.0.lock().unwrap().push("the tool is dropped");
    }
}

/// Runs a tool that never ends on a task of its own, which is only told to stop when its attempt is over.
struct Elsewhere(Arc<Mutex<Vec<&'static str>>>);

#[async_trait]
impl ToolRunner for Elsewhere {
    async fn run(&self, attempt: Attempt) -> AttemptEnd {
        let (runs, notes) = (attempt.runs_elsewhere(), Notes(Arc::clone(&self.0)));
        let mut tool = tokio::task::JoinSet::new();
        tool.spawn(async move {
            let _dropped_first = notes;
            std::future::pending::<()>().await;
            drop(runs);
        });
        tool.join_next().await;
        AttemptEnd::NoSuchTool
    }

    async fn clean(&self, _ended: &Ended) -> Cleaned {
        self.0.lock().unwrap().push("cleanup begins");
        Cleaned::Done
    }
}

#[tokio::test]
async fn cleanup_begins_when_a_tool_that_runs_elsewhere_has_been_dropped() {
    let world = World::new();
    let key = armed(&world).await;
    let delivery = world.receive().await.unwrap();
    let log = Arc::<Mutex<Vec<&'static str>>>::default();
    let tool = Elsewhere(Arc::clone(&log));
    let attempt = world.begun(&delivery, &tool);
    world.engine.cancel(&key).await.unwrap();
    // Its task begins.
    tokio::task::yield_now().await;
    world.while_time_passes(100, attempt).await;
    assert_eq!(*log.lock().unwrap(), ["the tool is dropped", "cleanup begins"]);
    assert_eq!(cleanup(&world, &key).await, Cleanup::Done);
}
