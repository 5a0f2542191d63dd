//! A tool that looks until something is there: only what it found is on record, and nothing runs between the looks.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, join, select};
use longhaul_core::ports::TaskStore;
use longhaul_core::{Entry, EntryKind, FailureKind, State, Status, TaskKey};
use longhaul_engine::{Every, Leg, LegEnd, Settings, WorkerSignals};
use longhaul_testkit::{ManualClock, given};

use super::world::{Tool, World, answers, completed, run, tool};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// Something that is there at this look, and the count of looks.
#[derive(Clone)]
struct Job {
    looks: Arc<AtomicUsize>,
    there_at: usize,
}

impl Job {
    fn there_at(look: usize) -> Self {
        Self { looks: Arc::default(), there_at: look }
    }

    fn looks(&self) -> usize {
        self.looks.load(Ordering::Relaxed)
    }

    fn look(&self) -> Result<Option<String>, Infallible> {
        let look = self.looks.fetch_add(1, Ordering::Relaxed) + 1;
        Ok((look >= self.there_at).then(|| look.to_string()))
    }

    async fn until_there(&self, leg: &Leg, name: &str, every: Every) -> String {
        let Ok(text) = leg.poll_until(name, every, async || self.look()).await;
        text
    }
}

/// A tool that looks until the job is there.
fn looks_at(job: &Job, every: Every) -> Tool {
    let job = job.clone();
    tool(move |leg| {
        let job = job.clone();
        async move { completed(&job.until_there(&leg, "job", every).await) }
    })
}

async fn journal(world: &World, key: &TaskKey) -> Vec<(EntryKind, String)> {
    let entries = world.store.journal(key).await.unwrap();
    entries.into_iter().map(|entry| (entry.kind, entry.name)).collect()
}

async fn sleeps_for_ms(world: &World, key: &TaskKey) -> u64 {
    let State::Sleeping { until } = world.on_record(key).await.state else { panic!("the task does not sleep") };
    until.since_ms(world.now())
}

#[test]
fn hours_of_looks_leave_one_entry() {
    run(async {
        let world = World::new();
        let key = world.accepted().await.key();
        let job = Job::there_at(25);
        let ended = world.work_until_ended(&key, &looks_at(&job, Every::fixed(60 * SECOND)), 60_000, 60).await;
        assert!(matches!(&ended.state, State::Completed { result, .. } if *result == given::inline("25")));
        assert_eq!((job.looks(), ended.attempt), (25, 25), "one leg for each look");
        assert_eq!(journal(&world, &key).await, [(EntryKind::Step, "job".to_owned())]);
    });
}

#[test]
fn what_was_found_is_not_looked_for_again() {
    run(async {
        let world = World::new();
        let key = world.accepted().await.key();
        let job = Job::there_at(1);
        let looked_for = job.clone();
        let tool = tool(move |leg| {
            let job = looked_for.clone();
            async move {
                let found = job.until_there(&leg, "job", Every::fixed(HOUR)).await;
                leg.sleep_ms(60_000).await;
                completed(&found)
            }
        });
        let ended = world.work_until_ended(&key, &tool, 60_000, 5).await;
        assert_eq!((ended.status(), tool.runs(), job.looks()), (Status::Completed, 2, 1));
    });
}

#[test]
fn an_interval_that_grows_does_not_begin_again_when_its_worker_dies() {
    run(async {
        let world = World::new();
        let key = world.accepted().await.key();
        let tool = looks_at(&Job::there_at(usize::MAX), Every::growing(2 * SECOND, 100 * SECOND));
        for slept_ms in [2_000, 2_000, 2_000, 3_000, 4_500] {
            world.work(&tool).await;
            assert_eq!(sleeps_for_ms(&world, &key).await, slept_ms);
            world.clock.advance_ms(slept_ms);
        }
        world.killed_in_the_tool(&world.receive().await.unwrap()).await;
        world.clock.advance_ms(46_500);
        world.work(&tool).await;
        assert_eq!(sleeps_for_ms(&world, &key).await, 30_000, "half of the minute since the first look");
        world.clock.advance_ms(500_000);
        world.work(&tool).await;
        assert_eq!(sleeps_for_ms(&world, &key).await, 100_000);
        assert_eq!(journal(&world, &key).await, [(EntryKind::Timer, "since job".to_owned())]);
    });
}

#[test]
fn a_beginning_that_cannot_be_read_ends_the_task_and_says_why() {
    run(async {
        let world = World::new();
        let key = world.accepted().await.key();
        world.killed_in_the_tool(&world.receive().await.unwrap()).await;
        let name = "since job".to_owned();
        let entry = Entry { kind: EntryKind::Timer, name, value: given::inline("long ago"), recording: None };
        world.store.record(&key, &entry).await.unwrap();
        world.clock.advance_ms(world.engine.settings().lease_ms);
        world.work(&looks_at(&Job::there_at(1), Every::growing(SECOND, HOUR))).await;
        let State::Failed { failure } = world.on_record(&key).await.state.clone() else { panic!() };
        assert_eq!(failure.kind, FailureKind::Corrupt);
        assert!(failure.message.starts_with("timer `since job` cannot be read: "), "{}", failure.message);
    });
}

#[test]
fn an_error_of_a_look_is_returned_and_not_recorded() {
    run(async {
        let world = World::new();
        let key = world.accepted().await.key();
        let tool = tool(|leg| async move {
            let refused = leg.poll_until("job", Every::fixed(HOUR), async || Err("the service refused")).await;
            assert_eq!(refused, Err("the service refused"));
            let Ok(text) = leg.poll_until("job", Every::fixed(HOUR), async || Job::there_at(1).look()).await;
            completed(&text)
        });
        world.work(&tool).await;
        assert_eq!((world.on_record(&key).await.status(), tool.runs()), (Status::Completed, 1));
    });
}

#[test]
fn a_cancelled_task_is_not_looked_for_any_more() {
    run(async {
        let world = World::new();
        let key = world.accepted().await.key();
        let job = Job::there_at(usize::MAX);
        let tool = looks_at(&job, Every::fixed(60 * SECOND));
        world.work(&tool).await;
        world.engine.cancel(&key).await.unwrap();
        world.clock.advance_ms(60_000);
        world.work(&tool).await;
        assert_eq!((world.on_record(&key).await.status(), job.looks()), (Status::Cancelled, 1));
    });
}

#[test]
fn looks_end_when_another_branch_wins_the_race() {
    run(async {
        let world = World::new();
        let key = world.accepted().await.key();
        let tool = tool(|leg| async move {
            {
                let ask = pin!(leg.ask("stop", "{}".to_owned()));
                let job = Job::there_at(usize::MAX);
                let look = pin!(job.until_there(&leg, "job", Every::fixed(60 * SECOND)));
                assert!(matches!(select(ask, look).await, Either::Left(_)));
            }
            completed(&leg.ask("sure", "{}".to_owned()).await)
        });
        let moment = world.now().plus_ms(60_000);
        world.work(&tool).await;
        let state = world.on_record(&key).await.state.clone();
        assert!(matches!(&state, State::InputRequired { until, .. } if *until == Some(moment)), "{state:?}");
        world.engine.answer(&key, &answers("stop", "1")).await.unwrap();
        world.work(&tool).await;
        let state = world.on_record(&key).await.state.clone();
        assert!(matches!(&state, State::InputRequired { until: None, .. }), "{state:?}");
    });
}

#[test]
fn branches_look_concurrently_and_the_earliest_pause_wakes_the_task() {
    run(async {
        let world = World::new();
        let key = world.accepted().await.key();
        let (one, other) = (Job::there_at(3), Job::there_at(2));
        let jobs = (one.clone(), other.clone());
        let tool = tool(move |leg| {
            let (one, other) = jobs.clone();
            async move {
                let often = one.until_there(&leg, "one", Every::fixed(20 * SECOND));
                let seldom = other.until_there(&leg, "other", Every::fixed(HOUR));
                let (one, other) = join(often, seldom).await;
                completed(&format!("{one} and {other}"))
            }
        });
        world.work(&tool).await;
        assert_eq!(sleeps_for_ms(&world, &key).await, 20_000);
        let ended = world.work_until_ended(&key, &tool, 20_000, 5).await;
        assert!(matches!(&ended.state, State::Completed { result, .. } if *result == given::inline("3 and 2")));
        assert_eq!((one.looks(), other.looks()), (3, 2), "the second leg looked at both");
    });
}

/// A tool that looks at every moment that passes in its leg.
fn looks_every_second(job: &Job) -> Tool {
    looks_at(job, Every::fixed(SECOND))
}

#[test]
fn a_short_pause_stays_in_its_leg() {
    run(async {
        let world = World::new();
        let key = world.accepted().await.key();
        let job = Job::there_at(4);
        let tool = looks_every_second(&job);
        world.while_time_passes(1_000, world.work(&tool)).await;
        assert_eq!((world.on_record(&key).await.status(), tool.runs(), job.looks()), (Status::Completed, 1, 4));
    });
}

#[test]
fn a_pause_that_does_not_fit_into_its_leg_ends_it() {
    run(async {
        let settings = Settings { leg_ms_max: Some(5_000), leg_margin_ms: 1_000, ..Settings::default() };
        let world = World::with(settings);
        let key = world.accepted().await.key();
        let job = Job::there_at(8);
        let tool = looks_every_second(&job);
        let ended = world.while_time_passes(1_000, world.work_until_ended(&key, &tool, 1_000, 50)).await;
        assert_eq!((ended.status(), job.looks(), ended.failures), (Status::Completed, 8, 0));
        assert_eq!(tool.runs(), 2, "four looks in each");
    });
}

/// Runs a leg in which so much time passes, and kills its worker.
async fn dies_after_ms(world: &World, tool: &Tool, ms: u64) {
    let delivery = world.receive().await.unwrap();
    let signals = WorkerSignals::default();
    let mut leg = pin!(world.engine.run_delivery(&delivery, tool, &signals));
    for _ in 0..=ms / 1_000 {
        assert!(leg.as_mut().now_or_never().is_none());
        world.clock.advance_ms(1_000);
    }
    world.clock.advance_ms(world.engine.settings().lease_ms);
}

#[test]
fn workers_that_die_between_looks_do_not_use_up_the_retries() {
    run(async {
        let world = World::new();
        let key = world.accepted().await.key();
        let job = Job::there_at(usize::MAX);
        let tool = looks_every_second(&job);
        for leg in 1..8 {
            dies_after_ms(&world, &tool, 15_000).await;
            assert_eq!(world.on_record(&key).await.failures, 0, "after leg {leg}");
        }
        assert_eq!(world.on_record(&key).await.status(), Status::Working);
    });
}

#[test]
fn a_look_in_which_the_worker_dies_counts_as_a_failure() {
    run(async {
        let world = World::new();
        let key = world.accepted().await.key();
        let tool = tool(|leg| async move {
            let crash = async || Err(LegEnd::Crashed { reason: "it panicked".to_owned() });
            match leg.poll_until("job", Every::fixed(60 * SECOND), crash).await {
                Ok(found) => completed(&found),
                Err(crashed) => crashed,
            }
        });
        let ended = world.work_until_ended(&key, &tool, 1_000, 10).await;
        let State::Failed { failure } = &ended.state else { panic!("{:?}", ended.state) };
        assert_eq!((failure.kind, tool.runs()), (FailureKind::RetriesExhausted, 3));
    });
}

#[test]
fn a_worker_that_is_asked_to_stop_gives_the_task_back_before_the_next_look() {
    run(async {
        let world = World::new();
        let key = world.accepted().await.key();
        let job = Job::there_at(usize::MAX);
        let (tool, signals) = (looks_every_second(&job), WorkerSignals::default());
        let delivery = world.receive().await.unwrap();
        let mut leg = pin!(world.engine.run_delivery(&delivery, &tool, &signals));
        assert!(leg.as_mut().now_or_never().is_none());
        signals.stop.cancel();
        assert!(leg.as_mut().now_or_never().is_none());
        world.clock.advance_ms(1_000);
        assert!(leg.as_mut().now_or_never().is_some());
        assert_eq!((world.on_record(&key).await.state.clone(), job.looks()), (State::Queued, 1));
    });
}

#[test]
fn two_looks_of_one_name_end_the_task_and_say_so() {
    run(async {
        let world = World::new();
        let key = world.accepted().await.key();
        let tool = tool(|leg| async move {
            let (one, other) = (Job::there_at(1), Job::there_at(1));
            drop(one.until_there(&leg, "job", Every::fixed(HOUR)).await);
            completed(&other.until_there(&leg, "job", Every::fixed(HOUR)).await)
        });
        world.work(&tool).await;
        let State::Failed { failure } = world.on_record(&key).await.state.clone() else { panic!() };
        assert_eq!(failure.kind, FailureKind::Misuse);
    });
}

/// A tool that looks takes time: the interval counts from the end of a look.
#[test]
fn a_look_that_takes_long_is_followed_by_a_whole_pause() {
    run(async {
        let world = World::new();
        let key = world.accepted().await.key();
        let clock = Arc::clone(&world.clock);
        let tool = tool(move |leg| slow_look(leg, Arc::clone(&clock)));
        world.work(&tool).await;
        assert_eq!(sleeps_for_ms(&world, &key).await, 60_000);
    });
}

async fn slow_look(leg: Leg, clock: Arc<ManualClock>) -> LegEnd {
    let look = async || {
        clock.advance_ms(45_000);
        Ok::<Option<String>, Infallible>(None)
    };
    let Ok(found) = leg.poll_until("job", Every::fixed(60 * SECOND), look).await;
    completed(&found)
}
