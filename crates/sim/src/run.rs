//! One run of one world.

use std::sync::Arc;

use longhaul_core::ports::{TaskStore, WorkQueue};
use longhaul_core::{Clock, Task, TaskKey, limits};
use longhaul_testkit::models::{PlantedFault, Promise, Violation};

use super::clients::{Client, care, cared_for, owner, stream_of};
use super::kernel::{Kernel, RunEnd};
use super::outside::record_signals;
use super::plan::{After, Answers, CallPlan, Care, Plan};
use super::story::{Line, StoryMode};
use super::timed::MakePolls;
use super::world::{Injected, State, World, stream};
use super::{ports, publishing, stream_records, timed, workers};

/// More events than any world needs. In the longest ones, messages of waiting tasks come again until the deadline.
const EVENTS_MAX: u64 = 240_000;

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// A hash of the whole order of events: the same plan gives the same hash.
    pub hash: u64,
    /// How many events there were.
    pub events: u64,
    /// The first promise that was broken.
    pub violation: Option<Violation>,
    /// The faults that were injected.
    pub injected: Vec<Injected>,
    /// The story, if it was asked for.
    pub story: Vec<Line>,
}

/// Real adapters, which do what the models do and are compared with them.
#[derive(Clone)]
pub struct Real {
    /// The store.
    pub store: Arc<dyn TaskStore>,
    /// The queue; it uses the clock that it was opened with.
    pub queue: Arc<dyn WorkQueue>,
}

/// Runs the world of `plan`, with `planted` in its ports.
#[must_use]
pub fn run(plan: &Plan, planted: Option<PlantedFault>, story_mode: StoryMode) -> Report {
    run_with(plan, planted, story_mode, |_clock| None)
}

/// Runs the world of `plan` also on the adapters that `open` returns; they get the world's clock.
#[must_use]
pub fn run_with(
    plan: &Plan,
    planted: Option<PlantedFault>,
    story_mode: StoryMode,
    open: impl FnOnce(Arc<dyn Clock>) -> Option<Real>,
) -> Report {
    run_as(plan, planted, story_mode, None, open)
}

/// Runs the world of `plan`. The processes that `make` makes poll its schedule.
#[must_use]
pub fn run_scheduled(
    plan: &Plan,
    planted: Option<PlantedFault>,
    story_mode: StoryMode,
    make: &Arc<MakePolls>,
) -> Report {
    run_as(plan, planted, story_mode, Some(make), |_clock| None)
}

fn run_as(
    plan: &Plan,
    planted: Option<PlantedFault>,
    story_mode: StoryMode,
    make: Option<&Arc<MakePolls>>,
    open: impl FnOnce(Arc<dyn Clock>) -> Option<Real>,
) -> Report {
    let kernel = Kernel::new(plan.seed, story_mode);
    let world = World::new(Arc::clone(&kernel), plan.clone(), planted);
    if let Some(real) = open(ports::true_clock(&world)) {
        let mut state = world.lock();
        state.real_store = Some(real.store);
        state.real_queue = Some(real.queue);
    }
    spawn_actors(&world);
    let lookers = plan.schedule.as_ref().map_or(0, |schedule| schedule.lookers.len());
    for (number, make) in make.into_iter().flat_map(|make| (0..lookers).map(move |number| (number, make))) {
        let polls = timed::poll(Arc::clone(&world), Arc::clone(make), number);
        kernel.spawn(stream_of(70 + number), format!("looker {}", number + 1), polls);
    }
    let end = kernel.run(EVENTS_MAX);
    let mut state = world.lock();
    match end {
        RunEnd::Over => {}
        RunEnd::Stuck => state.checks.fail(Promise::BecomesIdle, "no actor can continue".to_owned()),
        RunEnd::TooManyEvents => {
            let what = format!("more than {EVENTS_MAX} events without an end");
            state.checks.fail(Promise::BecomesIdle, what);
        }
    }
    let violation = state.checks.violation().cloned();
    let injected = std::mem::take(&mut state.injected);
    state.checks.take_down();
    let waiters = std::mem::take(&mut state.queue.waiters);
    drop(state);
    drop(waiters);
    let report =
        Report { hash: kernel.hash(), events: kernel.events(), violation, injected, story: kernel.take_story() };
    kernel.dissolve();
    report
}

fn spawn_actors(world: &Arc<World>) {
    let plan = &world.plan;
    let kernel = &world.kernel;
    kernel.spawn(stream::DIRECTOR, "the caretaker".to_owned(), direct(Arc::clone(world)));
    for (number, client) in plan.clients.iter().enumerate() {
        let actor = Client::new(world, number, owner(client.owner));
        let name = format!("client {} ({})", number + 1, if client.owner == 0 { "Ann" } else { "Bob" });
        kernel.spawn(stream_of(number), name, actor.play(client.clone()));
    }
    for (number, worker) in plan.workers.iter().enumerate() {
        let play = workers::work(Arc::clone(world), worker.clone());
        kernel.spawn(stream::WORKER + number as u64, format!("worker {}", number + 1), play);
    }
    let dead_letters = workers::handle_dead_letters(Arc::clone(world));
    kernel.spawn(stream::DEAD_LETTERS, "the dead-letter consumer".to_owned(), dead_letters);
    // After the workers, which the checks know by their numbers.
    for number in plan.filtered_lists_ms.iter().flat_map(|_| 0..2) {
        let reader = Client::new(world, 2_000 + number, owner(number));
        kernel.spawn(stream_of(50 + number), format!("reader {}", number + 1), reader.read_filtered_lists());
    }
    if plan.has_signals() {
        let client = Client::new(world, 3_000, owner(0));
        kernel.spawn(stream_of(60), "an outside system".to_owned(), record_signals(Arc::clone(world), client));
    }
    if plan.care == Care::Stream {
        kernel.spawn(stream::STREAM, "the record stream".to_owned(), stream_records::hear(Arc::clone(world)));
    }
    if plan.endpoints > 0 {
        kernel.spawn(stream::PUBLISHER, "the publisher".to_owned(), publishing::publish(Arc::clone(world)));
    }
    if world.lock().real_store.is_some() {
        // A real store deletes expired tasks on its own. In either case an expired task is not found.
        return;
    }
    kernel.spawn(stream::SWEEPER, "the sweeper".to_owned(), workers::sweep(Arc::clone(world)));
}

/// Lets faults be injected for a while, then stops them, and checks that every task ends.
async fn direct(world: Arc<World>) {
    let plan = &world.plan;
    let lease_ms = plan.settings.lease_ms;
    world.kernel.sleep(plan.chaos_ms).await;
    world.lock().quiescent_since_ms = Some(world.kernel.now_ms());
    world.partitions.iter().for_each(|partitions| partitions.open());
    world.kernel.tell(|| "stops the injection of faults".to_owned());
    let carers = [Client::new(&world, 1_000, owner(0)), Client::new(&world, 1_001, owner(1))];
    let mut ends_ms = u64::MAX;
    while world.kernel.now_ms() < ends_ms {
        care(&world, &carers).await;
        let quiet = world.lock().clients_busy == 0;
        if quiet && all_ended(&world) {
            break;
        }
        if quiet {
            ends_ms = ends_ms.min(world.kernel.now_ms() + patience_ms(plan));
        }
        world.kernel.sleep(lease_ms / 2).await;
    }
    let now = world.clock(0);
    let keys = cared_for(&world);
    {
        let mut state = world.lock();
        let State { checks, store, .. } = &mut *state;
        checks.must_have_ended(store, &keys, plan.care, now);
        checks.must_not_have_expired(&keys, plan, now);
        checks.must_be_clean(store, &keys, now);
        checks.must_be_undone(store, &keys, now);
        checks.ends_have_reasons();
        checks.must_be_published(plan.endpoints);
        checks.must_have_kept_times();
    }
    if plan.after == After::Expiry {
        check_expiry(&world, &carers).await;
    }
    check_rest(&world).await;
    world.kernel.end();
}

/// Checks that tasks that have ended leave nothing behind.
async fn check_rest(world: &Arc<World>) {
    let lease_ms = world.plan.settings.lease_ms;
    let over = {
        let state = world.lock();
        state.checks.over(&state.store)
    };
    let longest_ms = world.plan.visibility_ms.max(lease_ms) * (u64::from(world.plan.receives_max) + 3);
    // The message of a wait that was cut short comes when that wait would have been over.
    let waits_ms =
        if world.plan.has_signals() || world.plan.has_children() { 2 * limits::SIGNAL_POLL_MS_MAX } else { 0 };
    // So does that of a task that was cancelled before its start.
    let starts_ms = world.plan.last_start_ms();
    // Workers that were frozen send what they were about to send.
    world.kernel.sleep(longest_ms + waits_ms + starts_ms + 8 * lease_ms).await;
    // The message for the deadline of a task that asked is found superfluous when it comes.
    let last_at_ms = world.lock().queue.last_at_ms().unwrap_or(0);
    let until_last_ms = last_at_ms.saturating_sub(world.kernel.now_ms());
    world.kernel.sleep(until_last_ms + longest_ms + 8 * lease_ms).await;
    let mut state = world.lock();
    let messages: Vec<TaskKey> = state.queue.messages().map(|message| message.task).collect();
    state.checks.must_rest(&over, &messages);
}

/// How long a quiescent world may take to end all tasks, in milliseconds.
fn patience_ms(plan: &Plan) -> u64 {
    // A task whose tool hangs, or uses up its retries by hanging, ends at its deadline. A task that waits past its
    // deadline does too.
    let never_answered = plan.answers == Answers::NeverCome;
    let waits = |call: &&CallPlan| never_answered || !call.ends_by_itself() || !call.fits();
    let hang_ms = plan.calls.iter().filter(waits).map(|call| call.run_ms).max().unwrap_or(0);
    plan.settling_ms() + hang_ms
}

impl Plan {
    /// How long a quiescent world may take until all is done that has nothing to wait for, in milliseconds.
    pub(crate) fn settling_ms(&self) -> u64 {
        let (plan, settings) = (self, &self.settings);
        let work_ms: u64 = plan.calls.iter().filter(|call| call.fits()).map(CallPlan::work_ms).sum();
        // Each task may lose some attempts to the end of the chaos, and each lost attempt costs a lease, a visibility,
        // a retry.
        let tries = plan.calls.iter().map(|call| u64::from(call.consecutive_failures_max) + 4).sum::<u64>();
        let lost_ms = settings.lease_ms * 2
            + plan.visibility_ms.min(settings.lease_ms * 6)
            + settings.resend_ms_max
            + settings.retry_ms_max;
        // A worker that dies leaves its attempt's permit taken, and those that wait look for one at times.
        let limited_ms = if plan.owner_attempts.or(plan.tool_attempts).is_some() {
            tries * (plan.attempt_ms() + settings.lease_ms)
        } else {
            0
        };
        // A task polls for a signal itself if the process that recorded it died: twice, if an attempt dies too.
        let signals_ms = if plan.has_signals() { tries * 2 * limits::SIGNAL_POLL_MS_MAX } else { 0 };
        // A task may be cleaned only a lease after its end, and each try may die too.
        let clean_ms = 6 * (settings.lease_ms + settings.cleanup_ms + settings.retry_ms_max) + settings.resend_ms_max;
        // The same for the ends of children. One that sleeps polls its parent now and then, and each generation does so
        // again.
        let children_ms = if plan.has_children() {
            tries * 2 * limits::SIGNAL_POLL_MS_MAX + u64::from(limits::CHILD_DEPTH_MAX) * limits::CHILD_POLL_MS_MAX
        } else {
            0
        };
        let once_ms = clean_ms
            + limited_ms
            + children_ms
            + signals_ms
            + plan.last_start_ms()
            + 4 * work_ms
            + tries * lost_ms
            + 20 * plan.latency_ms
            + plan.skew_ms_max();
        once_ms * (1 + plan.resumptions() as u64)
    }
}

fn all_ended(world: &World) -> bool {
    let now = world.clock(0);
    let keys = cared_for(world);
    let state = world.lock();
    if state.checks.untold(world.plan.endpoints).is_some() {
        return false;
    }
    let done = |key: &TaskKey| {
        let over = |task: &Arc<Task>| (task.has_ended() && !task.needs_cleanup()) || task.has_expired(now);
        state.store.peek(key).is_none_or(over)
    };
    keys.iter().all(done)
}

/// Lets time pass until all tasks have expired, including those that no client knows, and looks for them.
async fn check_expiry(world: &Arc<World>, carers: &[Client]) {
    let (keys, expires_at) = {
        let state = world.lock();
        let keys: Vec<TaskKey> = state.store.tasks().map(|task| task.key()).collect();
        (keys, state.store.tasks().map(|task| task.expires_at).max())
    };
    let Some(expires_at) = expires_at else { return };
    let now = world.clock(0);
    world.kernel.sleep(expires_at.since_ms(now) + world.plan.skew_ms_max() + 1).await;
    for (number, carer) in carers.iter().enumerate() {
        for key in keys.iter().filter(|key| key.owner == owner(number)) {
            carer.poll(*key).await;
            carer.cancel(*key).await;
        }
        carer.list().await;
    }
}
