//! A tool that polls until something is there: only what it found is on record, and nothing runs between the polls.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, join, select};
use longhaul_core::ports::TaskStore;
use longhaul_core::{Entry, EntryKind, FailureKind, State, Status, TaskKey};
use longhaul_engine::{Attempt, AttemptEnd, Every, Settings, WorkerSignals};
use longhaul_testkit::{ManualClock, given};

use super::world::{Tool, World, answers, completed, tool};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// Something that is there at this poll, and the count of polls.
#[derive(Clone)]
struct Job {
    polls: Arc<AtomicUsize>,
    there_at: usize,
}

impl Job {
    fn there_at(poll: usize) -> Self {
        Self { polls: Arc::default(), there_at: poll }
    }

    fn polls(&self) -> usize {
        self.polls.load(Ordering::Relaxed)
    }

    fn poll(&self) -> Result<Option<String>, Infallible> {
        let poll = self.polls.fetch_add(1, Ordering::Relaxed) + 1;
        Ok((poll >= self.there_at).then(|| poll.to_string()))
    }

    async fn until_there(&self, attempt: &Attempt, name: &str, every: Every) -> String {
        let Ok(text) = attempt.poll_until(name, every, async || self.poll()).await;
        text
    }
}

/// A tool that polls until the job is there.
fn polls_at(job: &Job, every: Every) -> Tool {
    let job = job.clone();
    tool(move |attempt| {
        let job = job.clone();
        async move { completed(&job.until_there(&attempt, "job", every).await) }
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

#[tokio::test]
async fn hours_of_polls_leave_one_entry() {
    let (world, key) = World::with_key().await;
    let job = Job::there_at(25);
    let ended = world.work_until_ended(&key, &polls_at(&job, Every::fixed(60 * SECOND)), 60_000, 60).await;
    assert!(matches!(&ended.state, State::Completed { result, .. } if *result == given::inline("25")));
    assert_eq!((job.polls(), ended.attempt), (25, 25), "one attempt for each poll");
    assert_eq!(journal(&world, &key).await, [(EntryKind::Step, "job".to_owned())]);
}

#[tokio::test]
async fn what_was_found_is_not_polled_for_again() {
    let (world, key) = World::with_key().await;
    let job = Job::there_at(1);
    let looked_for = job.clone();
    let tool = tool(move |attempt| {
        let job = looked_for.clone();
        async move {
            let found = job.until_there(&attempt, "job", Every::fixed(HOUR)).await;
            attempt.sleep_ms(60_000).await;
            completed(&found)
        }
    });
    let ended = world.work_until_ended(&key, &tool, 60_000, 5).await;
    assert_eq!((ended.status(), tool.runs(), job.polls()), (Status::Completed, 2, 1));
}

#[tokio::test]
async fn an_interval_that_grows_does_not_begin_again_when_its_worker_dies() {
    let (world, key) = World::with_key().await;
    let tool = polls_at(&Job::there_at(usize::MAX), Every::growing(2 * SECOND, 100 * SECOND));
    for slept_ms in [2_000, 2_000, 2_000, 3_000, 4_500] {
        world.work(&tool).await;
        assert_eq!(sleeps_for_ms(&world, &key).await, slept_ms);
        world.clock.advance_ms(slept_ms);
    }
    world.killed_in_the_tool(&world.receive().await.unwrap()).await;
    world.clock.advance_ms(46_500);
    world.work(&tool).await;
    assert_eq!(sleeps_for_ms(&world, &key).await, 30_000, "half of the minute since the first poll");
    world.clock.advance_ms(500_000);
    world.work(&tool).await;
    assert_eq!(sleeps_for_ms(&world, &key).await, 100_000);
    assert_eq!(journal(&world, &key).await, [(EntryKind::Timer, "since job".to_owned())]);
}

#[tokio::test]
async fn a_beginning_that_cannot_be_read_ends_the_task_and_says_why() {
    let (world, key) = World::with_key().await;
    world.killed_in_the_tool(&world.receive().await.unwrap()).await;
    let name = "since job".to_owned();
    let entry = Entry { kind: EntryKind::Timer, name, value: given::inline("long ago"), recording: None };
    world.store.record(&key, &entry).await.unwrap();
    world.clock.advance_ms(world.engine.settings().lease_ms);
    world.work(&polls_at(&Job::there_at(1), Every::growing(SECOND, HOUR))).await;
    let State::Failed { failure } = world.on_record(&key).await.state.clone() else { panic!() };
    assert_eq!(failure.kind, FailureKind::Corrupt);
    assert!(failure.message.starts_with("timer `since job` cannot be read: "), "{}", failure.message);
}

#[tokio::test]
async fn an_error_of_a_poll_is_returned_and_not_recorded() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let refused = attempt.poll_until("job", Every::fixed(HOUR), async || Err("the service refused")).await;
        assert_eq!(refused, Err("the service refused"));
        let Ok(text) = attempt.poll_until("job", Every::fixed(HOUR), async || Job::there_at(1).poll()).await;
        completed(&text)
    });
    world.work(&tool).await;
    assert_eq!((world.on_record(&key).await.status(), tool.runs()), (Status::Completed, 1));
}

#[tokio::test]
async fn a_cancelled_task_is_not_polled_for_any_more() {
    let (world, key) = World::with_key().await;
    let job = Job::there_at(usize::MAX);
    let tool = polls_at(&job, Every::fixed(60 * SECOND));
    world.work(&tool).await;
    world.engine.cancel(&key).await.unwrap();
    world.clock.advance_ms(60_000);
    world.work(&tool).await;
    assert_eq!((world.on_record(&key).await.status(), job.polls()), (Status::Cancelled, 1));
}

#[tokio::test]
async fn polls_end_when_another_branch_wins_the_race() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        {
            let ask = pin!(attempt.ask("stop", "{}".to_owned()));
            let job = Job::there_at(usize::MAX);
            let poll = pin!(job.until_there(&attempt, "job", Every::fixed(60 * SECOND)));
            assert!(matches!(select(ask, poll).await, Either::Left(_)));
        }
        completed(&attempt.ask("sure", "{}".to_owned()).await)
    });
    let moment = world.now().plus_ms(60_000);
    world.work(&tool).await;
    let state = world.on_record(&key).await.state.clone();
    assert!(matches!(&state, State::InputRequired { until, .. } if *until == Some(moment)), "{state:?}");
    world.engine.answer(&key, &answers("stop", "1")).await.unwrap();
    world.work(&tool).await;
    let state = world.on_record(&key).await.state.clone();
    assert!(matches!(&state, State::InputRequired { until: None, .. }), "{state:?}");
}

#[tokio::test]
async fn branches_poll_concurrently_and_the_earliest_pause_wakes_the_task() {
    let (world, key) = World::with_key().await;
    let (one, other) = (Job::there_at(3), Job::there_at(2));
    let jobs = (one.clone(), other.clone());
    let tool = tool(move |attempt| {
        let (one, other) = jobs.clone();
        async move {
            let often = one.until_there(&attempt, "one", Every::fixed(20 * SECOND));
            let seldom = other.until_there(&attempt, "other", Every::fixed(HOUR));
            let (one, other) = join(often, seldom).await;
            completed(&format!("{one} and {other}"))
        }
    });
    world.work(&tool).await;
    assert_eq!(sleeps_for_ms(&world, &key).await, 20_000);
    let ended = world.work_until_ended(&key, &tool, 20_000, 5).await;
    assert!(matches!(&ended.state, State::Completed { result, .. } if *result == given::inline("3 and 2")));
    assert_eq!((one.polls(), other.polls()), (3, 2), "the second attempt polled both");
}

/// A tool that polls every moment that passes in its attempt.
fn polls_every_second(job: &Job) -> Tool {
    polls_at(job, Every::fixed(SECOND))
}

#[tokio::test]
async fn a_short_pause_stays_in_its_attempt() {
    let (world, key) = World::with_key().await;
    let job = Job::there_at(4);
    let tool = polls_every_second(&job);
    world.while_time_passes(1_000, world.work(&tool)).await;
    assert_eq!((world.on_record(&key).await.status(), tool.runs(), job.polls()), (Status::Completed, 1, 4));
}

#[tokio::test]
async fn a_pause_that_does_not_fit_into_its_attempt_ends_it() {
    let settings = Settings { attempt_ms_max: Some(5_000), attempt_margin_ms: 1_000, ..Settings::default() };
    let world = World::with(settings);
    let key = world.accepted().await.key();
    let job = Job::there_at(8);
    let tool = polls_every_second(&job);
    let ended = world.while_time_passes(1_000, world.work_until_ended(&key, &tool, 1_000, 50)).await;
    assert_eq!((ended.status(), job.polls(), ended.failures), (Status::Completed, 8, 0));
    assert_eq!(tool.runs(), 2, "four polls in each");
}

/// Runs an attempt in which so much time passes, and kills its worker.
async fn dies_after_ms(world: &World, tool: &Tool, ms: u64) {
    let delivery = world.receive().await.unwrap();
    let signals = WorkerSignals::default();
    let mut attempt = pin!(world.engine.run_delivery(&delivery, tool, &signals));
    for _ in 0..=ms / 1_000 {
        assert!(attempt.as_mut().now_or_never().is_none());
        world.clock.advance_ms(1_000);
    }
    world.clock.advance_ms(world.engine.settings().lease_ms);
}

#[tokio::test]
async fn workers_that_die_between_polls_do_not_use_up_the_retries() {
    let (world, key) = World::with_key().await;
    let job = Job::there_at(usize::MAX);
    let tool = polls_every_second(&job);
    for attempt in 1..8 {
        dies_after_ms(&world, &tool, 15_000).await;
        assert_eq!(world.on_record(&key).await.failures, 0, "after attempt {attempt}");
    }
    assert_eq!(world.on_record(&key).await.status(), Status::Working);
}

#[tokio::test]
async fn a_poll_in_which_the_worker_dies_counts_as_a_failure() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let crash = async || Err(AttemptEnd::Crashed { reason: "it panicked".to_owned() });
        match attempt.poll_until("job", Every::fixed(60 * SECOND), crash).await {
            Ok(found) => completed(&found),
            Err(crashed) => crashed,
        }
    });
    let ended = world.work_until_ended(&key, &tool, 1_000, 10).await;
    let State::Failed { failure } = &ended.state else { panic!("{:?}", ended.state) };
    assert_eq!((failure.kind, tool.runs()), (FailureKind::RetriesExhausted, 3));
}

#[tokio::test]
async fn a_worker_that_is_asked_to_stop_gives_the_task_back_before_the_next_poll() {
    let (world, key) = World::with_key().await;
    let job = Job::there_at(usize::MAX);
    let (tool, signals) = (polls_every_second(&job), WorkerSignals::default());
    let delivery = world.receive().await.unwrap();
    let mut attempt = world.begun_with(&delivery, &tool, &signals);
    signals.stop.cancel();
    assert!(attempt.as_mut().now_or_never().is_none());
    world.clock.advance_ms(1_000);
    assert!(attempt.as_mut().now_or_never().is_some());
    assert_eq!((world.on_record(&key).await.state.clone(), job.polls()), (State::Queued, 1));
}

#[tokio::test]
async fn two_polls_of_one_name_end_the_task_and_say_so() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let (one, other) = (Job::there_at(1), Job::there_at(1));
        drop(one.until_there(&attempt, "job", Every::fixed(HOUR)).await);
        completed(&other.until_there(&attempt, "job", Every::fixed(HOUR)).await)
    });
    world.work(&tool).await;
    let State::Failed { failure } = world.on_record(&key).await.state.clone() else { panic!() };
    assert_eq!(failure.kind, FailureKind::Misuse);
}

/// A tool that polls takes time: the interval counts from the end of a poll.
#[tokio::test]
async fn a_poll_that_takes_long_is_followed_by_a_whole_pause() {
    let (world, key) = World::with_key().await;
    let clock = Arc::clone(&world.clock);
    let tool = tool(move |attempt| slow_poll(attempt, Arc::clone(&clock)));
    world.work(&tool).await;
    assert_eq!(sleeps_for_ms(&world, &key).await, 60_000);
}

async fn slow_poll(attempt: Attempt, clock: Arc<ManualClock>) -> AttemptEnd {
    let poll = async || {
        clock.advance_ms(45_000);
        Ok::<Option<String>, Infallible>(None)
    };
    let Ok(found) = attempt.poll_until("job", Every::fixed(60 * SECOND), poll).await;
    completed(&found)
}
