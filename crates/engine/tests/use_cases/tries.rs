//! A step that fails is tried again, its count of tries survives, and its last error is recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use longhaul_core::ports::TaskStore;
use longhaul_core::{Entry, EntryKind, FailureKind, State, TaskKey};
use longhaul_engine::{Attempt, AttemptEnd, Retry, Tried};
use longhaul_testkit::given;

use super::world::{Tool, World, answers, completed, tool};

const SECOND: Duration = Duration::from_secs(1);
const MAY_HAVE_RUN: &str = "\"may have run\"";

/// Work that succeeds at this try, and the count of tries.
#[derive(Clone)]
struct Bank {
    tries: Arc<AtomicUsize>,
    opens_at: usize,
}

impl Bank {
    fn opens_at(try_: usize) -> Self {
        Self { tries: Arc::default(), opens_at: try_ }
    }

    fn tries(&self) -> usize {
        self.tries.load(Ordering::Relaxed)
    }

    fn pay(&self) -> Tried {
        let number = self.tries.fetch_add(1, Ordering::Relaxed) + 1;
        if number >= self.opens_at { Tried::Value(number.to_string()) } else { Tried::Failed(format!("\"{number}\"")) }
    }

    async fn paid(&self, attempt: &Attempt, retry: Retry) -> Result<String, String> {
        attempt.step_with_tries("pay", retry, async |_number| self.pay()).await
    }
}

/// A tool that pays with these tries, and returns the value or the error.
fn pays(bank: &Bank, retry: Retry) -> Tool {
    let bank = bank.clone();
    tool(move |attempt| {
        let bank = bank.clone();
        async move { completed(&bank.paid(&attempt, retry).await.unwrap_or_else(|error| format!("[{error}]"))) }
    })
}

fn result_of(state: &State) -> &str {
    let State::Completed { result: longhaul_core::Payload::Inline(text), .. } = state else { panic!("{state:?}") };
    text
}

async fn journal(world: &World, key: &TaskKey) -> Vec<(EntryKind, String)> {
    let mut entries: Vec<_> =
        world.store.journal(key).await.unwrap().into_iter().map(|entry| (entry.kind, entry.name)).collect();
    entries.sort();
    entries
}

#[tokio::test]
async fn a_step_is_tried_until_it_succeeds_and_no_worker_waits_for_the_next_try() {
    let (world, key) = World::with_key().await;
    let bank = Bank::opens_at(4);
    let tool = pays(&bank, Retry::exponential(60 * SECOND, 600 * SECOND).tries(5));
    world.work(&tool).await;
    let State::Sleeping { until } = world.on_record(&key).await.state else { panic!("the task does not sleep") };
    assert!((30_000..=60_000).contains(&until.since_ms(world.now())), "the pause has a random part");
    let ended = world.work_until_ended(&key, &tool, 10_000, 200).await;
    assert_eq!((result_of(&ended.state), bank.tries(), ended.attempt), ("4", 4, 4));
    let tried = |number: u32| (EntryKind::Try, format!("pay#{number}"));
    assert_eq!(journal(&world, &key).await, [(EntryKind::Step, "pay".to_owned()), tried(1), tried(2), tried(3)]);
}

#[tokio::test]
async fn a_crash_does_not_begin_to_count_tries_again() {
    let (world, key) = World::with_key().await;
    let (bank, tries) = (Bank::opens_at(usize::MAX), Retry::fixed(60 * SECOND).tries(3));
    let crashes = Arc::new(AtomicUsize::new(0));
    let (bank_in, crashes_in) = (bank.clone(), Arc::clone(&crashes));
    let tool = tool(move |attempt| {
        let (bank, crashes) = (bank_in.clone(), Arc::clone(&crashes_in));
        async move {
            let paid = bank.paid(&attempt, tries).await;
            let crashes = crashes.fetch_add(1, Ordering::Relaxed) < 2;
            let crashed = crashes.then(|| AttemptEnd::Crashed { reason: "it panicked".to_owned() });
            crashed.unwrap_or_else(|| completed(&paid.unwrap_err()))
        }
    });
    let ended = world.work_until_ended(&key, &tool, 10_000, 200).await;
    assert_eq!((result_of(&ended.state), bank.tries()), ("\"3\"", 3));
}

#[tokio::test]
async fn the_last_error_is_recorded_and_every_replay_returns_it() {
    let (world, key) = World::with_key().await;
    let bank = Bank::opens_at(2);
    let bank_in = bank.clone();
    let tool = tool(move |attempt| {
        let bank = bank_in.clone();
        async move {
            let error = bank.paid(&attempt, Retry::never()).await.unwrap_err();
            attempt.ask("sure", "{}".to_owned()).await;
            completed(&error)
        }
    });
    world.work(&tool).await;
    world.engine.answer(&key, &answers("sure", "true")).await.unwrap();
    world.work(&tool).await;
    assert_eq!((result_of(&world.on_record(&key).await.state), bank.tries(), tool.runs()), ("\"1\"", 1, 2));
}

#[tokio::test]
async fn an_error_that_every_try_would_meet_is_final() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let refused = async |number: u32| Tried::FailedForGood(number.to_string());
        completed(&attempt.step_with_tries("pay", Retry::default(), refused).await.unwrap_err())
    });
    world.work(&tool).await;
    assert_eq!(result_of(&world.on_record(&key).await.state), "1");
    assert_eq!(journal(&world, &key).await, [(EntryKind::Step, "pay".to_owned())]);
}

#[tokio::test]
async fn no_try_begins_after_the_deadline() {
    let (world, key) = World::with_key().await;
    let bank = Bank::opens_at(usize::MAX);
    let tool = pays(&bank, Retry::fixed(600 * SECOND));
    let ended = world.work_until_ended(&key, &tool, 60_000, 100).await;
    assert_eq!(result_of(&ended.state), format!("[\"{}\"]", bank.tries()), "the last error, not a missed deadline");
    assert!((3..=6).contains(&bank.tries()), "{} tries of 5 to 10 minutes in half an hour", bank.tries());
}

#[tokio::test]
async fn short_pauses_pass_within_the_attempt_and_cost_one_write_each() {
    let (world, key) = World::with_key().await;
    let bank = Bank::opens_at(3);
    let tool = pays(&bank, Retry::default());
    world.took();
    world.while_time_passes(100, world.work(&tool)).await;
    assert_eq!((result_of(&world.on_record(&key).await.state), tool.runs()), ("3", 1));
    let writes = world.took().into_iter().filter(|call| call == "record").count();
    assert_eq!(writes, 3, "two failed tries and the value");
}

/// Pays, and never returns if the process `dies` meanwhile.
async fn pay_or_die(bank: &Bank, dies: &AtomicBool) -> Tried {
    let paid = bank.pay();
    if dies.swap(false, Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
    paid
}

/// A tool that pays at most once, and whose process dies while it does.
fn pays_once(bank: &Bank, dies: &Arc<AtomicBool>) -> Tool {
    let (bank, dies) = (bank.clone(), Arc::clone(dies));
    tool(move |attempt| {
        let (bank, dies) = (bank.clone(), Arc::clone(&dies));
        async move {
            let pay = async || pay_or_die(&bank, &dies).await;
            let paid = attempt.step_at_most_once("pay", async { MAY_HAVE_RUN.to_owned() }, pay).await;
            completed(&paid.unwrap_or_else(|error| error))
        }
    })
}

#[tokio::test]
async fn work_that_runs_at_most_once_is_not_run_again_after_a_crash_in_between() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    let (bank, dies) = (Bank::opens_at(1), Arc::new(AtomicBool::new(true)));
    let tool = pays_once(&bank, &dies);
    drop(world.begun(&delivery, &tool));
    let ended = world.work_until_ended(&key, &tool, 10_000, 60).await;
    assert_eq!((result_of(&ended.state), bank.tries(), tool.runs()), (MAY_HAVE_RUN, 1, 2));
}

#[tokio::test]
async fn a_mark_whose_answer_was_lost_is_the_attempts_own() {
    let (world, key) = World::with_key().await;
    let mut lost = false;
    world.store.follow(move |call| match call {
        longhaul_testkit::StoreCall::Record(_, entry) if entry.kind == EntryKind::Try && !lost => {
            lost = true;
            longhaul_testkit::Fault::After
        }
        _ => longhaul_testkit::Fault::None,
    });
    let bank = Bank::opens_at(1);
    let tool = pays_once(&bank, &Arc::default());
    world.while_time_passes(100, world.work(&tool)).await;
    assert_eq!((result_of(&world.on_record(&key).await.state), bank.tries()), ("1", 1));
}

#[tokio::test]
async fn a_value_that_looks_like_a_recorded_failure_is_refused() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let value = async |_number: u32| Tried::Value(r#"{"dev.longhaul/failed":1}"#.to_owned());
        completed(&attempt.step_with_tries("pay", Retry::default(), value).await.unwrap())
    });
    world.work(&tool).await;
    let State::Failed { failure } = world.on_record(&key).await.state.clone() else { panic!("it did not fail") };
    assert_eq!(failure.kind, FailureKind::Misuse, "{}", failure.message);
}

#[tokio::test]
async fn a_failed_try_that_cannot_be_read_fails_the_task() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    world.killed_in_the_tool(&delivery).await;
    let name = "pay#1".to_owned();
    let entry = Entry { kind: EntryKind::Try, name, value: given::inline("1"), recording: None };
    world.store.record(&key, &entry).await.unwrap();
    world.clock.advance_ms(world.engine.settings().lease_ms);
    world.work(&pays(&Bank::opens_at(1), Retry::default())).await;
    let State::Failed { failure } = world.on_record(&key).await.state.clone() else { panic!("it did not fail") };
    assert_eq!(failure.kind, FailureKind::Corrupt, "{}", failure.message);
}
