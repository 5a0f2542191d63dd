//! What a tool has registered is undone when its task has ended, and not with success.

use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use longhaul_core::ports::TaskStore;
use longhaul_core::{Cleanup, EntryKind, FailureKind, State, Status, TaskKey};
use longhaul_engine::{Attempt, AttemptEnd, Call, Driven, Retry, Tried};

use super::world::{Tool, World, call, completed, tool};

const LEASE_MS: u64 = 30_000;
const SECOND: Duration = Duration::from_secs(1);

/// Everything that was done, in its order.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(super) fn note(&self, what: &str) {
        self.0.lock().unwrap().push(what.to_owned());
    }

    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// A step that is noted.
    pub(super) async fn step(&self, attempt: &Attempt, name: &str) {
        let work = async || {
            self.note(name);
            Ok::<_, Infallible>("1".to_owned())
        };
        let Ok(_text) = attempt.step(name, work).await;
    }

    /// Registers a compensation that is noted, and fails so many times.
    pub(super) async fn undone_by(&self, attempt: &Attempt, name: &str, fails: u32, retry: Retry) {
        let (log, noted) = (self.clone(), name.to_owned());
        let work = move |number: u32| {
            log.note(&noted);
            let error = "\"no\"".to_owned();
            let tried = if number <= fails { Tried::Failed(error) } else { Tried::Value("null".to_owned()) };
            async move { tried }.boxed()
        };
        attempt.on_failure(name, retry, Box::new(work)).await;
    }
}

/// A tool that is replayed, and undone, when its task has not ended with success.
pub(super) fn compensating<F>(play: impl Fn(Attempt) -> F + Clone + Send + Sync + 'static) -> Tool
where
    F: Future<Output = AttemptEnd> + Send + 'static,
{
    let replay = play.clone();
    tool(play).cleaned_by(move |ended| {
        let replay = replay.clone();
        async move {
            let attempt = ended.replay();
            let replayed = match attempt.drive(replay(attempt.clone())).await {
                Driven::Ended(_) => Driven::Ended(false),
                Driven::Suspended(suspended) => Driven::Suspended(suspended),
            };
            attempt.undo(replayed).await
        }
    })
}

pub(super) fn failed() -> AttemptEnd {
    AttemptEnd::Failed { message: "no".to_owned(), detail: "{}".to_owned() }
}

/// A tool that books a hotel and a flight, and does then what `pays` says.
fn trip<F>(log: &Log, pays: impl Fn(Attempt, Log) -> F + Clone + Send + Sync + 'static) -> Tool
where
    F: Future<Output = AttemptEnd> + Send + 'static,
{
    let log = log.clone();
    compensating(move |attempt| {
        let (log, pays) = (log.clone(), pays.clone());
        async move {
            log.step(&attempt, "hotel").await;
            log.undone_by(&attempt, "cancel hotel", 0, Retry::never()).await;
            log.step(&attempt, "flight").await;
            log.undone_by(&attempt, "cancel flight", 0, Retry::never()).await;
            pays(attempt, log).await
        }
    })
}

pub(super) async fn armed(world: &World) -> TaskKey {
    world.accept(Call { cleanup: Cleanup::ARMED, ..call() }).await.key()
}

pub(super) async fn cleanup(world: &World, key: &TaskKey) -> Cleanup {
    world.on_record(key).await.cleanup
}

async fn steps(world: &World, key: &TaskKey) -> Vec<String> {
    let entries = world.store.journal(key).await.unwrap();
    let mut steps: Vec<_> =
        entries.into_iter().filter(|entry| entry.kind == EntryKind::Step).map(|entry| entry.name).collect();
    steps.sort();
    steps
}

async fn works_for_leases(world: &World, tool: &Tool, leases: u32) {
    for _ in 0..leases {
        world.clock.advance_ms(LEASE_MS);
        world.work(tool).await;
    }
}

#[tokio::test]
async fn after_a_returned_error_the_compensations_run_in_reverse_order_and_each_is_a_recorded_step() {
    let (world, log) = (World::new(), Log::default());
    let tool = trip(&log, |_attempt, _log| async { failed() });
    let key = armed(&world).await;
    world.work(&tool).await;
    assert_eq!(log.take(), ["hotel", "flight", "cancel flight", "cancel hotel"]);
    assert_eq!(steps(&world, &key).await, ["cancel flight", "cancel hotel", "flight", "hotel"]);
    let ended = world.on_record(&key).await;
    assert_eq!((ended.status(), ended.cleanup, ended.attempt), (Status::Failed, Cleanup::Done, 1));
    works_for_leases(&world, &tool, 3).await;
    assert_eq!(log.take(), Vec::<String>::new());
}

#[tokio::test]
async fn after_success_nothing_is_undone() {
    let (world, log) = (World::new(), Log::default());
    let tool = trip(&log, |_attempt, _log| async { completed("1") });
    let key = armed(&world).await;
    world.work(&tool).await;
    works_for_leases(&world, &tool, 2).await;
    assert_eq!((log.take(), tool.cleanups()), (vec!["hotel".to_owned(), "flight".to_owned()], 0));
    assert_eq!(steps(&world, &key).await, ["flight", "hotel"]);
}

#[tokio::test]
async fn a_cancelled_task_is_undone_up_to_where_its_tool_came() {
    let (world, log) = (World::new(), Log::default());
    let tool = trip(&log, |attempt, log| async move {
        attempt.sleep_ms(3_600_000).await;
        log.undone_by(&attempt, "refund", 0, Retry::never()).await;
        log.step(&attempt, "pay").await;
        completed("1")
    });
    let key = armed(&world).await;
    world.work(&tool).await;
    world.engine.cancel(&key).await.unwrap();
    assert_eq!(log.take(), ["hotel", "flight"]);
    // The sleep is over by then, and the tool never came there.
    world.clock.advance_ms(1_700_000);
    world.work(&tool).await;
    assert_eq!(log.take(), ["cancel flight", "cancel hotel"]);
    assert_eq!(cleanup(&world, &key).await, Cleanup::Done);
}

/// The worker died in the step: its work may have been done.
#[tokio::test]
async fn a_compensation_that_is_registered_before_a_step_covers_one_that_may_have_run() {
    let (world, log) = (World::new(), Log::default());
    let tool = trip(&log, |attempt, log| async move {
        log.undone_by(&attempt, "refund", 0, Retry::never()).await;
        let work = async || {
            log.note("pay");
            std::future::pending::<Result<String, Infallible>>().await
        };
        let Ok(_text) = attempt.step("pay", work).await;
        completed("1")
    });
    let key = armed(&world).await;
    let delivery = world.receive().await.unwrap();
    drop(world.begun(&delivery, &tool));
    world.engine.cancel(&key).await.unwrap();
    assert_eq!(log.take(), ["hotel", "flight", "pay"]);
    works_for_leases(&world, &tool, 3).await;
    assert_eq!(log.take(), ["refund", "cancel flight", "cancel hotel"]);
    assert_eq!((cleanup(&world, &key).await, tool.cleanups()), (Cleanup::Done, 1));
}

#[tokio::test]
async fn a_task_that_used_up_its_retries_and_one_that_missed_its_deadline_are_undone() {
    let log = Log::default();
    let crashes = trip(&log, |_attempt, _log| async { AttemptEnd::Crashed { reason: "it panicked".to_owned() } });
    let world = World::new();
    let key = armed(&world).await;
    let ended = world.work_until_ended(&key, &crashes, 1_000, 10).await;
    let State::Failed { failure } = &ended.state else { panic!("{:?}", ended.state) };
    assert_eq!(failure.kind, FailureKind::RetriesExhausted);
    assert_eq!(log.take(), ["hotel", "flight", "cancel flight", "cancel hotel"]);

    let asks = trip(&log, |attempt, _log| async move { completed(&attempt.ask("color", "{}".to_owned()).await) });
    let key = armed(&world).await;
    world.work(&asks).await;
    world.clock.advance_to(world.on_record(&key).await.deadline());
    world.work(&asks).await;
    assert_eq!(world.on_record(&key).await.status(), Status::Failed);
    assert_eq!(log.take(), ["hotel", "flight", "cancel flight", "cancel hotel"]);
}

/// The wait for the next try holds no worker, and a try that is recorded is not repeated.
#[tokio::test]
async fn a_compensation_that_fails_is_tried_again_and_one_that_is_given_up_does_not_keep_the_others_from_running() {
    let (world, log) = (World::new(), Log::default());
    let tool = trip(&log, |attempt, log| async move {
        log.undone_by(&attempt, "later", 2, Retry::fixed(60 * SECOND)).await;
        log.undone_by(&attempt, "never", 9, Retry::fixed(SECOND / 10).tries(2)).await;
        failed()
    });
    let key = armed(&world).await;
    world.while_time_passes(100, world.work(&tool)).await;
    assert_eq!(log.take(), ["hotel", "flight", "never", "never", "later"]);
    assert!(cleanup(&world, &key).await.is_armed(), "no worker waits for the second try");
    works_for_leases(&world, &tool, 8).await;
    assert_eq!(log.take(), ["later", "later", "cancel flight", "cancel hotel"]);
    assert_eq!(cleanup(&world, &key).await, Cleanup::GivenUp);
}

#[tokio::test]
async fn a_compensation_that_is_recorded_is_not_repeated_after_a_crash() {
    let (world, log) = (World::new(), Log::default());
    let dies = trip(&log, |attempt, _log| async move {
        let hangs = |_number: u32| std::future::pending().boxed();
        attempt.on_failure("hangs", Retry::never(), Box::new(hangs)).await;
        attempt.on_failure("first", Retry::never(), Box::new(|_| async { Tried::Value("1".to_owned()) }.boxed())).await;
        failed()
    });
    let key = armed(&world).await;
    let delivery = world.receive().await.unwrap();
    drop(world.begun(&delivery, &dies));
    assert_eq!(steps(&world, &key).await, ["first", "flight", "hotel"]);
    log.take();
    let tool = trip(&log, |attempt, log| async move {
        log.undone_by(&attempt, "hangs", 0, Retry::never()).await;
        log.undone_by(&attempt, "first", 0, Retry::never()).await;
        failed()
    });
    works_for_leases(&world, &tool, 4).await;
    assert_eq!(log.take(), ["hangs", "cancel flight", "cancel hotel"]);
    assert_eq!(cleanup(&world, &key).await, Cleanup::Done);
}

/// Two branches: the one that is at the end of the record does not end the replay before the other one.
#[tokio::test]
async fn the_replay_of_a_tool_with_branches_comes_to_all_recorded_steps() {
    let (world, log) = (World::new(), Log::default());
    let tool = trip(&log, |attempt, log| async move {
        let asks = attempt.ask("color", "{}".to_owned());
        let steps = async {
            log.step(&attempt, "train").await;
            log.undone_by(&attempt, "cancel train", 0, Retry::never()).await;
            log.step(&attempt, "bus").await;
            log.undone_by(&attempt, "cancel bus", 0, Retry::never()).await;
        };
        let (answer, ()) = futures::future::join(asks, steps).await;
        completed(&answer)
    });
    let key = armed(&world).await;
    world.work(&tool).await;
    world.engine.cancel(&key).await.unwrap();
    log.take();
    world.work(&tool).await;
    assert_eq!(log.take(), ["cancel bus", "cancel train", "cancel flight", "cancel hotel"]);
    assert_eq!(cleanup(&world, &key).await, Cleanup::Done);
}

#[tokio::test]
async fn names_of_compensations_and_steps_are_unique() {
    for (one, other) in [("hotel", "x"), ("x", "x")] {
        let (world, log) = (World::new(), Log::default());
        let tool = trip(&log, move |attempt, log| async move {
            log.undone_by(&attempt, one, 0, Retry::never()).await;
            log.step(&attempt, other).await;
            completed("1")
        });
        let key = armed(&world).await;
        world.work(&tool).await;
        let ended = world.on_record(&key).await;
        let State::Failed { failure } = &ended.state else { panic!("{:?}", ended.state) };
        assert_eq!(failure.kind, FailureKind::Misuse);
        assert!(failure.message.contains("give each its own"), "{}", failure.message);
    }
}
