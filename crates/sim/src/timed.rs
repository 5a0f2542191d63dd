//! A schedule of a world. Code from outside the test kit polls it, on the ports of the simulation.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::OwnerId;
use longhaul_engine::Engine;

use super::clients::owner;
use super::fault_profile::InjectedFault;
use super::lying::Instance;
use super::plan::{CallPlan, Plan};
use super::ports::engine;
use super::world::{Killable, World};

/// One process that polls the schedule of a world.
#[async_trait]
pub trait Polls: Send + Sync {
    /// Handles what is due. Whether all of it was handled.
    async fn poll(&self) -> bool;
}

/// Makes the processes that poll the schedule of a world: for the plan, with this engine.
pub type MakePolls = dyn Fn(&Plan, Engine) -> Box<dyn Polls> + Send + Sync;

impl Plan {
    /// Whose tasks the schedule makes.
    #[must_use]
    pub fn schedule_owner() -> OwnerId {
        owner(0)
    }

    /// The script of the schedule's tasks.
    #[must_use]
    pub fn scheduled_call(&self) -> Option<&CallPlan> {
        self.calls.get(self.schedule.as_ref()?.call)
    }
}

/// Polls again and again, until no faults are injected any more. A process that is killed, or stops, is replaced later.
pub(crate) async fn poll(world: Arc<World>, make: Arc<MakePolls>, number: usize) {
    let Some(plan) = world.plan.schedule.clone() else { return };
    let skew_ms = plan.lookers.get(number).copied().unwrap_or(0);
    let engine = engine(&world, Instance::Api, skew_ms);
    let goes_on = || world.lock().quiescent_since_ms.is_none();
    while goes_on() {
        let process = make(&world.plan, engine.clone());
        let polls = world.kernel.draw(|dice| dice.between(1, 40));
        let life = Killable { killed_by: InjectedFault::Kill, stop: None };
        let living = async {
            for _ in (0..polls).take_while(|_| goes_on()) {
                poll_once(&world, &*process).await;
                world.kernel.sleep(plan.poll_ms).await;
            }
        };
        let _killed = world.killable(&life, living).await;
        let away_ms = world.kernel.draw(|dice| dice.below(plan.away_ms + 1));
        world.kernel.sleep(away_ms + 1).await;
    }
}

async fn poll_once(world: &World, process: &dyn Polls) {
    let begun_ms = world.kernel.now_ms();
    if process.poll().await {
        world.lock().checks.polled(begun_ms);
    }
}
