//! The fakes keep the contracts of their ports, so that a test of the engine assumes nothing that an adapter does not
//! promise.

use std::panic::catch_unwind;
use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ports::{StoreError, TaskStore, UnfinishedTasks, WorkQueue};
use longhaul_core::{Clock, Task, TaskKey, Timestamp};
use longhaul_testkit::{
    FakeQueue, FakeStore, FakeUnfinished, ManualClock, QueueHarness, StoreHarness, UnfinishedHarness, block_on,
};

struct Fakes {
    clock: Arc<ManualClock>,
    store: Arc<FakeStore>,
    queue: Arc<FakeQueue>,
    unfinished: Box<dyn UnfinishedTasks>,
}

impl Fakes {
    fn new(unfinished: impl FnOnce(FakeUnfinished) -> Box<dyn UnfinishedTasks>) -> Self {
        let clock = Arc::new(ManualClock::default());
        let queue = Arc::new(FakeQueue::new(Arc::clone(&clock) as Arc<dyn Clock>, 3));
        let store = Arc::new(FakeStore::one_with(Arc::clone(&queue)));
        let unfinished = unfinished(FakeUnfinished::of(Arc::clone(&store), Arc::clone(&queue)));
        Self { clock, store, queue, unfinished }
    }
}

impl StoreHarness for Fakes {
    fn store(&self) -> &dyn TaskStore {
        &*self.store
    }
}

#[async_trait]
impl QueueHarness for Fakes {
    fn queue(&self) -> &dyn WorkQueue {
        &*self.queue
    }

    async fn pass_ms(&self, ms: u64) {
        self.clock.advance_ms(ms);
    }

    fn receives_max(&self) -> u32 {
        3
    }
}

impl UnfinishedHarness for Fakes {
    fn unfinished(&self) -> &dyn UnfinishedTasks {
        &*self.unfinished
    }
}

async fn fakes() -> Fakes {
    Fakes::new(|unfinished| Box::new(unfinished))
}

async fn store_apart() -> Arc<FakeStore> {
    Arc::default()
}

mod store {
    longhaul_testkit::store_contract!(super::store_apart);
    longhaul_testkit::store_model_property!(super::store_apart);
}

mod one_database {
    longhaul_testkit::one_database_contract!(super::fakes);
    longhaul_testkit::store_contract!(super::fakes);
}

#[test]
fn all_owners_have_one_list() {
    block_on(async {
        let store = store_apart().await;
        longhaul_testkit::all_owners_contract::a_list_of_all_owners_has_what_its_filter_takes(&*store).await;
    });
}

mod unfinished {
    longhaul_testkit::unfinished_contract!(super::fakes);
}

/// The names of the queue's promises, each with the function that checks it.
macro_rules! kept_by_the_queue {
    ($make:path; $($promise:ident,)*) => {
        [$((
            stringify!($promise),
            (|| block_on(async { longhaul_testkit::queue_contract::$promise(&$make().await).await })) as fn(),
        )),*]
    };
}

/// The queue answers at once, and says so: tests of the engine pass the time themselves.
#[test]
fn the_queue_keeps_every_promise_but_to_wait() {
    let broken: Vec<&str> = longhaul_testkit::queue_promises!([kept_by_the_queue], fakes)
        .into_iter()
        .filter(|(_, keep)| catch_unwind(keep).is_err())
        .map(|(name, _)| name)
        .collect();
    let waits = [
        "a_waiting_receive_wakes_when_a_message_is_sent",
        "a_waiting_receive_wakes_when_a_message_becomes_visible",
        "a_waiting_receive_comes_back_empty_after_its_wait",
    ];
    assert!(broken.iter().all(|name| waits.contains(name)), "{broken:?}");
}

/// A mistake of a reader of unfinished tasks.
#[derive(Clone, Copy, Debug)]
enum Mistake {
    FindsNothing,
    LeavesNothingOut,
    FindsWhatHasExpired,
    BeginsEachPageAnew,
    IgnoresTheLimit,
}

struct Mistaken {
    right: FakeUnfinished,
    store: Arc<FakeStore>,
    mistake: Mistake,
}

#[async_trait]
impl UnfinishedTasks for Mistaken {
    async fn unfinished(&self, after: Option<TaskKey>, max: usize, now: Timestamp) -> Result<Vec<Task>, StoreError> {
        match self.mistake {
            Mistake::FindsNothing => Ok(Vec::new()),
            Mistake::LeavesNothingOut => {
                let none = Arc::new(FakeQueue::new(Arc::new(ManualClock::default()) as Arc<dyn Clock>, 3));
                FakeUnfinished::of(Arc::clone(&self.store), none).unfinished(after, max, now).await
            }
            Mistake::FindsWhatHasExpired => self.right.unfinished(after, max, Timestamp::from_ms(0)).await,
            Mistake::BeginsEachPageAnew => self.right.unfinished(None, max, now).await,
            Mistake::IgnoresTheLimit => self.right.unfinished(after, usize::MAX, now).await,
        }
    }
}

macro_rules! broken_by_a_reader {
    ($make:path; $($promise:ident,)*) => {
        [$((
            stringify!($promise),
            (|mistake| block_on(async {
                longhaul_testkit::unfinished_contract::$promise(&$make(mistake)).await;
            })) as fn(Mistake),
        )),*]
    };
}

fn mistaken(mistake: Mistake) -> Fakes {
    let fakes = Fakes::new(|unfinished| Box::new(unfinished));
    let right = FakeUnfinished::of(Arc::clone(&fakes.store), Arc::clone(&fakes.queue));
    let mistaken = Mistaken { right, store: Arc::clone(&fakes.store), mistake };
    Fakes { unfinished: Box::new(mistaken), ..fakes }
}

#[test]
fn each_mistake_of_a_reader_of_unfinished_tasks_breaks_its_promise() {
    let promises = longhaul_testkit::unfinished_promises!([broken_by_a_reader], mistaken);
    for (mistake, promise) in [
        (Mistake::FindsNothing, "an_unfinished_task_without_a_message_is_found"),
        (Mistake::LeavesNothingOut, "a_task_with_a_message_is_left_out"),
        (Mistake::LeavesNothingOut, "a_message_is_that_of_its_task_alone"),
        (Mistake::FindsWhatHasExpired, "what_has_ended_or_expired_is_not_unfinished"),
        (Mistake::BeginsEachPageAnew, "pages_of_unfinished_tasks_have_no_gaps_and_no_duplicates"),
        (Mistake::IgnoresTheLimit, "pages_of_unfinished_tasks_have_no_gaps_and_no_duplicates"),
    ] {
        let (_, keep) = promises.iter().find(|(name, _)| *name == promise).expect("the contract has the promise");
        assert!(catch_unwind(|| keep(mistake)).is_err(), "{promise} does not find {mistake:?}");
    }
}
