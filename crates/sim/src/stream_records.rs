//! The reader of the record stream. It learns of each record that waits for a worker, once its time is up, and ensures
//! its message. The stream reports a record again if the reader could not handle it.

use std::collections::BTreeSet;
use std::sync::Arc;

use longhaul_core::TaskKey;
use longhaul_testkit::models::PlantedFault;

use super::fault_profile::InjectedFault;
use super::lying::Instance;
use super::ports::engine;
use super::world::{Killable, World};

/// How many records come at a time.
const BATCH_MAX: usize = 10;

/// Receives records in batches.
pub(crate) async fn hear(world: Arc<World>) {
    let engine = engine(&world, Instance::Worker, 0);
    let lease_ms = world.plan.settings.lease_ms;
    loop {
        world.kernel.sleep(lease_ms * 2).await;
        // Several records of one task are one task to poll.
        let batch: BTreeSet<TaskKey> = world.lock().heard_of.iter().take(BATCH_MAX).copied().collect();
        for key in batch {
            let life = Killable { killed_by: InjectedFault::Kill, stop: None };
            let ensured = world.killable(&life, engine.ensure_message(&key)).await;
            let is_treated = matches!(ensured, Some(Ok(_)));
            if is_treated || world.planted == Some(PlantedFault::UntreatedRecordDropped) {
                world.lock().heard_of.retain(|held| *held != key);
            } else {
                break;
            }
        }
    }
}
