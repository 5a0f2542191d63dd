//! The workers, the consumer of dead letters, and the sweeper.

use std::sync::Arc;

use longhaul_core::ports::{Delivery, WorkQueue};
use longhaul_engine::{Disposition, Engine, ToolRunner, WorkerSignals};
use tokio_util::sync::CancellationToken;

use super::fault_profile::InjectedFault;
use super::lying::{self, Instance};
use super::plan::WorkerPlan;
use super::ports::engine;
use super::tools::SimTools;
use super::world::{Killable, World};

/// A worker: handles one delivery after another. When it is killed, another one replaces it later.
pub(crate) async fn work(world: Arc<World>, plan: WorkerPlan) {
    let engine = engine(&world, Instance::Worker, plan.skew_ms);
    let tools = lying::runner(world.planted, SimTools { world: Arc::clone(&world) });
    let lease_ms = world.plan.settings.lease_ms;
    loop {
        let stop = CancellationToken::new();
        let life = Killable { killed_by: InjectedFault::Kill, stop: Some(&stop) };
        let ended = world.killable(&life, serve(&world, &engine, &*tools, &plan, &stop)).await;
        if ended.is_none() {
            world.disturb(0);
        }
        let pause_ms = world.kernel.draw(|dice| dice.between(1, lease_ms / 2));
        world.kernel.sleep(pause_ms).await;
    }
}

async fn serve(
    world: &Arc<World>,
    engine: &Engine,
    tools: &dyn ToolRunner,
    plan: &WorkerPlan,
    stop: &CancellationToken,
) {
    let queue = &engine.ports().queue;
    let (lease_ms, visibility_ms) = (world.plan.settings.lease_ms, world.plan.visibility_ms);
    while !stop.is_cancelled() {
        let Ok(taken) = queue.receive(1, visibility_ms, lease_ms * 4).await else { continue };
        for delivery in taken {
            if visibility_ms > lease_ms {
                // The queue's setting covers a function's timeout; a crash should cost less time than that.
                let _comes_later = queue.extend(&delivery.receipt, lease_ms).await;
            }
            let reserve_ms = lease_ms / 10;
            let signals = WorkerSignals {
                until: plan.timeout_ms.map(|ms| world.clock(plan.skew_ms).plus_ms(ms - reserve_ms)),
                stop: stop.clone(),
            };
            let ends_ms = plan.timeout_ms.map(|ms| world.kernel.now_ms() + ms);
            world.will_be_killed(ends_ms);
            match world.killable_until(ends_ms, engine.run_delivery(&delivery, tools, &signals)).await {
                Some(disposition) => settle(world, &**queue, &delivery, disposition).await,
                None => return,
            }
        }
    }
}

async fn settle(world: &World, queue: &dyn WorkQueue, delivery: &Delivery, disposition: Disposition) {
    match disposition {
        Disposition::Acknowledge => {
            world.kernel.tell(|| "deletes its message".to_owned());
            let _again_later = queue.delete(&delivery.receipt).await;
        }
        Disposition::RetryAfter { after_ms } => {
            world.kernel.tell(|| format!("has its message delivered again after {after_ms} ms"));
            let _again_later = queue.extend(&delivery.receipt, after_ms).await;
        }
    }
}

/// The consumer of dead letters.
pub(crate) async fn handle_dead_letters(world: Arc<World>) {
    let engine = engine(&world, Instance::Worker, 0);
    let lease_ms = world.plan.settings.lease_ms;
    loop {
        let queue = &engine.ports().queue;
        let round = async {
            let letters = queue.receive_dead(1, lease_ms).await.unwrap_or_default();
            for letter in &letters {
                let disposition = engine.run_dead_letter(letter).await;
                settle(&world, &**queue, letter, disposition).await;
            }
            letters.len()
        };
        let life = Killable { killed_by: InjectedFault::Kill, stop: None };
        if world.killable(&life, round).await.unwrap_or(0) == 0 {
            world.kernel.sleep(lease_ms).await;
        }
    }
}

/// Deletes what has expired, now and then.
pub(crate) async fn sweep(world: Arc<World>) {
    let lease_ms = world.plan.settings.lease_ms;
    loop {
        let pause_ms = world.kernel.draw(|dice| dice.between(lease_ms, lease_ms * 20));
        world.kernel.sleep(pause_ms).await;
        let now = world.clock(0);
        world.lock().store.purge(now);
    }
}
