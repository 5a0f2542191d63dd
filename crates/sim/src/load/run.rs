//! One run of a load.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::plan::LoadPlan;
use super::ports::held;
use super::report::LoadReport;
use super::world::LoadWorld;
use super::{callers, workers};

/// More events than any of these worlds needs.
const EVENTS_MAX: u64 = 400_000_000;

/// How long the rest may take after the last call, in seconds of virtual time.
const REST_S: u64 = 900;

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
