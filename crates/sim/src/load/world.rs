//! What all actors of a load share.

use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard};

use longhaul_core::{Clock, OwnerId, RequestedTerms, Terms};
use longhaul_engine::{Engine, Ports, Settings};
use longhaul_testkit::{FakeStore, Layered};

use super::super::clients::owner;
use super::super::kernel::Kernel;
use super::super::metered::MeteredStore;
use super::super::partitions::Partitions;
use super::super::ports::{SimClock, SimIds};
use super::super::story::StoryMode;
use super::plan::LoadPlan;
use super::ports::held;
use super::queue::{LoadQueue, Waiting};
use super::store::{LoadStore, Records};
use super::tally::Tally;

/// What all actors share.
pub(super) struct LoadWorld {
    pub(super) plan: LoadPlan,
    pub(super) kernel: Arc<Kernel>,
    pub(super) engine: Engine,
    pub(super) waiting: Arc<Mutex<Waiting>>,
    pub(super) records: Arc<Mutex<Records>>,
    pub(super) partitions: Arc<Partitions>,
    tally: Mutex<Tally>,
    /// Callers that are not done.
    pub(super) busy: AtomicUsize,
    /// Attempts that were started.
    pub(super) attempts: AtomicU64,
}

impl LoadWorld {
    pub(super) fn new(plan: &LoadPlan) -> Arc<Self> {
        let kernel = Kernel::new(plan.seed, StoryMode::Skip);
        let clock: Arc<dyn Clock> = Arc::new(SimClock { kernel: Arc::clone(&kernel), skew_ms: 0 });
        let ids = Arc::new(SimIds(Arc::clone(&kernel)));
        let records = Arc::new(Mutex::new(Records::default()));
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let partitions = Arc::new(Partitions::with(Some(plan.throughput)));
        let store =
            LoadStore { records: Arc::clone(&records), kernel: Arc::clone(&kernel), rest: FakeStore::default() };
        let store = Arc::new(Layered(store));
        let store = MeteredStore::over(store, Arc::clone(&partitions), Arc::clone(&clock), Arc::<SimIds>::clone(&ids));
        let queue = LoadQueue { waiting: Arc::clone(&waiting), kernel: Arc::clone(&kernel) };
        let ports = Ports { store: Arc::new(Layered(store)), queue: Arc::new(queue), clock, ids };
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
            attempts: AtomicU64::new(0),
        })
    }

    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        held(&self.tally)
    }
}

/// What is agreed on for each task: a day.
pub(super) fn terms() -> Terms {
    Terms::negotiate(&longhaul_testkit::given::policy(), RequestedTerms::default())
}

/// The owner of this call.
pub(super) fn owner_of(plan: &LoadPlan, call: usize) -> OwnerId {
    owner(call % plan.owners.max(1) as usize)
}
