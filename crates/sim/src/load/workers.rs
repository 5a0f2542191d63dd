//! The workers of the load, which start as Lambda starts them: each is one attempt at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use longhaul_core::ResultKind;
use longhaul_engine::{Attempt, AttemptEnd, Disposition, Driven, ToolRunner, WorkerSignals};

use super::super::kernel::Kernel;
use super::world::LoadWorld;

/// How long an attempt works.
pub(super) const ATTEMPT_MS: u64 = 1_000;

/// Starts workers until there are as many as there may be. No more than could ever be needed.
pub(super) async fn start(world: Arc<LoadWorld>) {
    let attempts = world.plan.attempts;
    let max = attempts.max.min(u32::try_from(world.plan.calls()).unwrap_or(u32::MAX));
    let mut started = 0;
    let mut may_run = attempts.first.min(max);
    loop {
        for number in started..may_run {
            let name = 1_000_000_000 + u64::from(number);
            world.kernel.spawn(name, "a worker".to_owned(), work(Arc::clone(&world)));
        }
        started = may_run;
        if started >= max || attempts.per_second == 0 {
            return;
        }
        world.kernel.sleep(1_000).await;
        may_run = may_run.saturating_add(attempts.per_second).min(max);
    }
}

async fn work(world: Arc<LoadWorld>) {
    let tools = Sleeps { steps: world.plan.steps, kernel: Arc::clone(&world.kernel) };
    let (engine, signals) = (&world.engine, WorkerSignals::default());
    let (queue, lease_ms) = (&engine.ports().queue, engine.settings().lease_ms);
    loop {
        let Ok(taken) = queue.receive(1, lease_ms, 20_000).await else { continue };
        for delivery in taken {
            world.attempts.fetch_add(1, Ordering::Relaxed);
            let settled = match engine.run_delivery(&delivery, &tools, &signals).await {
                Disposition::Acknowledge => queue.delete(&delivery.receipt).await,
                Disposition::RetryAfter { after_ms } => queue.extend(&delivery.receipt, after_ms).await,
            };
            drop(settled);
        }
    }
}

/// A tool that takes its time, and returns what it was given.
struct Sleeps {
    steps: u32,
    kernel: Arc<Kernel>,
}

#[async_trait]
impl ToolRunner for Sleeps {
    async fn run(&self, attempt: Attempt) -> AttemptEnd {
        let script = async {
            let pieces = u64::from(self.steps) + 1;
            for step in 0..self.steps {
                let work = || async {
                    self.kernel.sleep(ATTEMPT_MS / pieces).await;
                    Ok::<_, std::convert::Infallible>(String::from("1"))
                };
                let _value = attempt.step(&format!("step {step}"), work).await;
            }
            self.kernel.sleep(ATTEMPT_MS / pieces).await;
            AttemptEnd::Completed { result: attempt.request().to_owned(), kind: ResultKind::Success }
        };
        match attempt.drive(script).await {
            Driven::Ended(end) => end,
            Driven::Suspended(suspended) => AttemptEnd::Suspended(suspended),
        }
    }
}
