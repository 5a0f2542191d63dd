//! Tools that register compensations, the replay of their tasks after the end, and worlds that are full of them.

use std::convert::Infallible;
use std::sync::Arc;

use futures::FutureExt;
use longhaul_core::{Cleanup, EntryKind};
use longhaul_engine::{Cleaned, Driven, Ended, Retry, Tried};
use longhaul_testkit::models::Randomness;

use super::plan::{After, CallPlan, Ending, Op, Plan, Tool};
use super::tools::{Running, SimTools};

impl Plan {
    /// The world of `seed`, whose tools register a compensation for each of their steps. Many of their tasks fail, or
    /// are cancelled.
    #[must_use]
    pub fn with_compensations(seed: u64) -> Self {
        let dice = &mut Randomness::stream(seed, 16);
        let mut plan = Self::of(seed);
        let lease_ms = plan.settings.lease_ms;
        for call in &mut plan.calls {
            let ops = (0..dice.between(1, 4)).flat_map(|_| undoable_and(dice, lease_ms)).collect();
            call.tool = Tool::Script(ops);
            call.cleanup = Cleanup::ARMED;
            call.cleanup_fails = dice.one_of(&[0, 0, 1]) as u32;
            call.run_ms = call.run_ms.min(lease_ms * 250);
            call.ending = match dice.below(3) {
                0 => Ending::Error(10),
                1 => Ending::ToolError,
                _ => Ending::Result(20),
            };
        }
        plan.delay_ms_max = plan.delay_ms_max.max(lease_ms * 2);
        plan.after = After::Stop;
        plan
    }
}

/// A step that is undone, and perhaps something before the next one.
fn undoable_and(dice: &mut Randomness, lease_ms: u64) -> Vec<Op> {
    let next = match dice.below(6) {
        0 => Some(Op::Sleep(dice.below(lease_ms * 3))),
        1 => Some(Op::Ask),
        2 => Some(Op::Crash(dice.between(1, 4) as u32)),
        _ => None,
    };
    [Op::Undoable(dice.below(lease_ms / 3))].into_iter().chain(next).collect()
}

impl SimTools {
    /// Replays the tool of a task that has not ended with success, and runs the compensations that it has registered.
    pub(super) async fn undo(&self, ended: &Ended, (call, plan): (usize, &CallPlan)) -> Cleaned {
        if ended.task().attempt == 0 || !plan.is_undoable() {
            return Cleaned::Done;
        }
        let attempt = ended.replay();
        let replayed = {
            let running = Running::new(&self.world, &attempt, (call, plan));
            attempt.drive(running.script(plan.ops())).await
        };
        attempt
            .undo(match replayed {
                Driven::Ended(_) => Driven::Ended(false),
                Driven::Suspended(suspended) => Driven::Suspended(suspended),
            })
            .await
    }
}

impl Running<'_> {
    /// A step and its compensation, which is registered first: the step may have run without a record.
    pub(super) async fn undoable(&self, position: usize, ms: u64) {
        let (world, key) = (Arc::clone(self.world), self.key);
        let work = move |_number: u32| {
            let world = Arc::clone(&world);
            async move {
                world.lock().checks.compensation_runs(&key, position);
                world.kernel.sleep(world.plan.latency_ms * 2).await;
                Tried::Value("null".to_owned())
            }
            .boxed()
        };
        self.attempt.on_failure(&format!("u{position}"), Retry::never(), Box::new(work)).await;
        let name = format!("s{position}");
        let body = || async {
            self.world.lock().checks.step_runs(&self.key, self.number, &name);
            self.world.lock().checks.undoable_begins(&self.key, position, self.is_replay());
            self.world.kernel.sleep(ms).await;
            Ok::<_, Infallible>(format!("{}.{}", self.number, self.world.kernel.events()))
        };
        let Ok(text) = self.attempt.step(&name, body).await;
        self.got(EntryKind::Step, &name, &text);
    }
}
