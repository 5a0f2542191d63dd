//! Load in virtual time: many calls a second, for one owner or for many, on a store with DynamoDB's partitions and on a queue
//! whose workers start as Lambda starts them. The engine is real; nothing goes wrong but that calls to the store are refused.
//!
//! A world of this kind is large and simple, so it has checkers of its own: every accepted call has one task, which ended
//! once, with its own result. What the other checkers know of refused calls they see in the small worlds of
//! [`Plan::with_partitions`](super::Plan::with_partitions).

mod callers;
mod ports;
mod queue;
mod report;
mod store;
mod workers;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_core::{Clock, OwnerId, Policy, RequestedTerms, Terms};
use longhaul_engine::{Engine, Ports, Settings};

use self::ports::{LoadClock, LoadIds};
use self::queue::{LoadQueue, Waiting};
pub use self::report::LoadReport;
use self::report::Tally;
use self::store::{LoadStore, Records};
use super::kernel::Kernel;
use super::metered::MeteredStore;
use super::partitions::{Partitions, Throughput};
use super::story::StoryMode;

/// More events than any of these worlds needs.
const EVENTS_MAX: u64 = 400_000_000;

/// How long the rest may take once nobody calls any more, in seconds of virtual time.
const REST_S: u64 = 900;

/// Calls at a steady rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadPlan {
    /// Where all randomness comes from.
    pub seed: u64,
    /// Who calls, in turn.
    pub owners: u32,
    /// Calls a second.
    pub rate: u32,
    /// For how many seconds.
    pub seconds: u32,
    /// Whether each call has an idempotency key.
    pub keys: bool,
    /// Steps of a task; its leg takes one second, whatever it does.
    pub steps: u32,
    /// The units of the store.
    pub throughput: Throughput,
    /// How many unfinished tasks an owner may have.
    pub open_tasks_max: u32,
    /// How many legs run at a time in the beginning, and how many more each second, up to how many.
    pub legs: Legs,
}

/// How many legs run at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Legs {
    /// At once.
    pub first: u32,
    /// More of them, each second.
    pub per_second: u32,
    /// At most.
    pub max: u32,
}

impl Legs {
    /// As many as are needed.
    pub const ENOUGH: Self = Self { first: 1 << 17, per_second: 0, max: 1 << 17 };

    /// As Lambda starts them for a queue that was empty, each with one leg: five at once, 300 more a minute, up to 1,000.
    pub const OF_A_NEW_QUEUE: Self = Self { first: 5, per_second: 5, max: 1_000 };
}

impl LoadPlan {
    /// Calls without keys and without steps, with as many workers as are needed.
    #[must_use]
    pub const fn new(owners: u32, rate: u32, seconds: u32, throughput: Throughput) -> Self {
        Self {
            seed: 1,
            owners,
            rate,
            seconds,
            keys: false,
            steps: 0,
            throughput,
            open_tasks_max: 1_000_000,
            legs: Legs::ENOUGH,
        }
    }

    /// The rows of the table in `docs/scale.md`.
    #[must_use]
    pub fn of_the_page() -> Vec<Self> {
        let quota = |owners, rate, seconds| Self::new(owners, rate, seconds, Throughput::BY_QUOTA);
        let many = 1_000;
        vec![
            quota(1, 10, 20),
            quota(many, 10, 20),
            quota(1, 1_000, 8),
            Self { keys: true, ..quota(1, 1_000, 8) },
            Self { steps: 10, ..quota(1, 1_000, 8) },
            quota(many, 1_000, 8),
            Self::new(many, 1_000, 8, Throughput::NEW_TABLE),
            Self { legs: Legs::OF_A_NEW_QUEUE, ..quota(many, 1_000, 20) },
            Self { legs: Legs::OF_A_NEW_QUEUE, open_tasks_max: 10_000, ..quota(1, 1_000, 20) },
            quota(1, 2_000, 6),
            quota(1, 3_000, 6),
            quota(1, 6_000, 4),
            quota(1, 20_000, 2),
            quota(many, 5_000, 4),
            quota(many, 8_000, 4),
            quota(many, 20_000, 2),
        ]
    }

    const fn calls(&self) -> usize {
        self.rate as usize * self.seconds as usize
    }
}

/// What all actors share.
pub(super) struct LoadWorld {
    plan: LoadPlan,
    kernel: Arc<Kernel>,
    engine: Engine,
    waiting: Arc<Mutex<Waiting>>,
    records: Arc<Mutex<Records>>,
    partitions: Arc<Partitions>,
    tally: Mutex<Tally>,
    /// Callers that are not done.
    busy: AtomicUsize,
    /// Legs that were started.
    legs: AtomicU64,
}

impl LoadWorld {
    fn new(plan: &LoadPlan) -> Arc<Self> {
        let kernel = Kernel::new(plan.seed, StoryMode::Skip);
        let clock: Arc<dyn Clock> = Arc::new(LoadClock(Arc::clone(&kernel)));
        let ids = Arc::new(LoadIds(Arc::clone(&kernel)));
        let records = Arc::new(Mutex::new(Records::default()));
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let partitions = Arc::new(Partitions::with(Some(plan.throughput)));
        let store = Arc::new(LoadStore { records: Arc::clone(&records), kernel: Arc::clone(&kernel) });
        let store = MeteredStore::over(store, Arc::clone(&partitions), Arc::clone(&clock), Arc::<LoadIds>::clone(&ids));
        let queue = LoadQueue { waiting: Arc::clone(&waiting), kernel: Arc::clone(&kernel) };
        let ports = Ports { store: Arc::new(store), queue: Arc::new(queue), clock, ids };
        let settings = Settings { open_tasks_max: plan.open_tasks_max, ..Settings::default() };
        Arc::new(Self {
            plan: plan.clone(),
            engine: Engine::new(ports, settings),
            kernel,
            waiting,
            records,
            partitions,
            tally: Mutex::default(),
            busy: AtomicUsize::new(plan.calls()),
            legs: AtomicU64::new(0),
        })
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        held(&self.tally)
    }
}

/// Locks what one thread uses.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is agreed on for each task: a day.
fn terms() -> Terms {
    Terms::negotiate(&Policy::default(), RequestedTerms::default())
}

/// The owner of this call.
fn owner_of(plan: &LoadPlan, call: usize) -> OwnerId {
    super::clients::owner(call % plan.owners.max(1) as usize)
}

/// Runs the calls of `plan`, and all that they lead to.
#[must_use]
pub fn run_load(plan: &LoadPlan) -> LoadReport {
    let world = LoadWorld::new(plan);
    let kernel = Arc::clone(&world.kernel);
    kernel.spawn(2, "the director".to_owned(), direct(Arc::clone(&world)));
    kernel.spawn(3, "the callers".to_owned(), callers::call(Arc::clone(&world)));
    kernel.spawn(4, "the workers".to_owned(), workers::start(Arc::clone(&world)));
    let end = kernel.run(EVENTS_MAX);
    let report = LoadReport::of(&world, end);
    kernel.dissolve();
    let waiters = held(&world.waiting).take_waiters();
    drop(waiters);
    report
}

/// Ends the run when everything has ended, or after long enough.
async fn direct(world: Arc<LoadWorld>) {
    let plan = &world.plan;
    world.kernel.sleep(u64::from(plan.seconds) * 1_000).await;
    for _ in 0..REST_S {
        let quiet = world.busy.load(Ordering::Relaxed) == 0;
        if quiet && held(&world.records).all_ended() {
            break;
        }
        world.kernel.sleep(1_000).await;
    }
    world.kernel.end();
}
