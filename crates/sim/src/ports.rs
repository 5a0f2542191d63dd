//! The ports of one instance of the simulation: its store, its queue, its clock and its ids.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::{Clock, IdSource, Timestamp};
use longhaul_engine::{AttemptLimit, Engine, Ports};
use longhaul_testkit::Layered;

use super::kernel::{EPOCH_MS, Kernel};
use super::lying::{self, Instance};
use super::metered::{HearOfRefusal, MeteredStore};
use super::permits_port::SimPermits;
use super::queue_port::queue_port;
use super::store_port::store_port;
use super::world::World;

/// An engine of an instance whose clock is off by `skew_ms`.
pub(crate) fn engine(world: &Arc<World>, instance: Instance, skew_ms: i64) -> Engine {
    let (mut store, mut queue) = (store_port(world), queue_port(world));
    if let Some(fault) = world.planted {
        (store, queue) = lying::ports(fault, instance, store, queue);
    }
    let clock = Arc::new(SimClock { kernel: Arc::clone(&world.kernel), skew_ms });
    let ids = Arc::new(SimIds(Arc::clone(&world.kernel)));
    if let Some(partitions) = &world.partitions {
        let metered = MeteredStore::over(store, Arc::clone(partitions), true_clock(world), Arc::<SimIds>::clone(&ids));
        store = Arc::new(Layered(metered.telling(hear_of_refusals(world))));
    }
    let ports = Ports { store, queue, clock, ids };
    let permits = Arc::new(SimPermits { world: Arc::clone(world) });
    let engine = Engine::new(ports, world.plan.settings).with_permits(Arc::<SimPermits>::clone(&permits));
    let limit = world.plan.owner_attempts.map(|attempts_max| AttemptLimit {
        permits,
        attempts_max,
        attempt_ms: world.plan.attempt_ms(),
        wait_ms: world.plan.settings.lease_ms / 10,
        wait_ms_max: world.plan.settings.lease_ms,
    });
    limit.into_iter().fold(engine, Engine::limited_by)
}

/// A refused actor has trouble until its next try.
fn hear_of_refusals(world: &Arc<World>) -> Arc<HearOfRefusal> {
    let world = Arc::clone(world);
    Arc::new(move |what, ms| {
        world.disturb(ms);
        world.kernel.tell(|| format!("is refused by the store: the units of the {what} are used up"));
    })
}

/// The clock that is right.
pub(crate) fn true_clock(world: &Arc<World>) -> Arc<dyn Clock> {
    Arc::new(SimClock { kernel: Arc::clone(&world.kernel), skew_ms: 0 })
}

/// A clock that is off by `skew_ms`.
pub(crate) struct SimClock {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) skew_ms: i64,
}

#[async_trait]
impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms((EPOCH_MS + self.kernel.now_ms()).saturating_add_signed(self.skew_ms))
    }

    async fn sleep_ms(&self, ms: u64) {
        self.kernel.sleep(ms).await;
    }
}

pub(crate) struct SimIds(pub(crate) Arc<Kernel>);

impl IdSource for SimIds {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.draw(|dice| {
            for chunk in bytes.chunks_mut(8) {
                chunk.copy_from_slice(&dice.next().to_le_bytes()[..chunk.len()]);
            }
        });
    }
}
