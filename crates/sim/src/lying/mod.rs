//! Ports that lie: each does at the port what an engine with the planted mistake would do there.
//!
//! They sit between the engine and the models, so that the checkers, which watch the models, see what happened.

mod journal;
mod memo;
mod queue;
mod resumed;
mod runner;
mod store;

use std::sync::Arc;

use longhaul_core::ports::{TaskStore, WorkQueue};
use longhaul_engine::ToolRunner;
use longhaul_testkit::Layered;

use self::memo::Memo;
use longhaul_testkit::models::PlantedFault;

pub(crate) use memo::Instance;

/// The ports of one instance, with `fault` in them.
pub(crate) fn ports(
    fault: PlantedFault,
    instance: Instance,
    store: Arc<dyn TaskStore>,
    queue: Arc<dyn WorkQueue>,
) -> (Arc<dyn TaskStore>, Arc<dyn WorkQueue>) {
    let memo = Arc::new(Memo::default());
    let lying_queue = queue::LyingQueue::new(fault, Arc::clone(&queue), Arc::clone(&memo));
    (Arc::new(Layered(store::LyingStore::new(fault, instance, store, queue, memo))), Arc::new(lying_queue))
}

/// The tools of one worker, with `fault` in their runner if it is a fault of the runner.
pub(crate) fn runner<R: ToolRunner + 'static>(planted: Option<PlantedFault>, tools: R) -> Box<dyn ToolRunner> {
    if planted == Some(PlantedFault::CrashIsTheEnd) {
        Box::new(runner::CrashIsTheEnd::new(tools))
    } else {
        Box::new(tools)
    }
}
