//! Tools of the simulation that call other tools.

use std::ops::Range;
use std::pin::pin;

use futures::future::{join_all, select};
use longhaul_core::{Labels, TaskId, TaskKey};
use longhaul_engine::{AttemptEnd, Call, CallError, ChildEnd};
use longhaul_testkit::models::PlantedFault;

use super::plan::request_of;
use super::tools::Running;

/// How long a tool waits in its attempt, by mistake.
const LEASES_IN_ATTEMPT: u32 = 5;

impl Running<'_> {
    /// Calls these tools at once, and waits for all of them. How the attempt ends, if it cannot.
    pub(super) async fn call_all(&self, first: usize, count: usize) -> Option<AttemptEnd> {
        self.world.lock().checks.calls_begin(&self.key, self.number);
        let ends = join_all((first..first + count).map(|number| self.call(number))).await;
        self.world.lock().checks.calls_end(&self.key);
        for end in ends {
            match end {
                Ok(_) => {}
                Err(CallError::TooDeep { .. }) => self.world.lock().checks.call_refused(self.attempt.task()),
                Err(error @ CallError::NotAccepted(_)) => {
                    return Some(AttemptEnd::Crashed { reason: error.to_string() });
                }
            }
        }
        None
    }

    /// Calls these tools at once, and waits for them in a step that ends after a while.
    pub(super) async fn call_and_give_up(&self, position: usize, calls: Range<usize>, ms: u64) {
        let calls = pin!(join_all(calls.map(|number| self.call(number))));
        let patience = async || {
            self.world.kernel.sleep(ms).await;
            Err::<String, ()>(())
        };
        let name = format!("g{position}");
        let _either = select(calls, pin!(self.attempt.step(&name, patience))).await;
        self.world.kernel.tell(|| "gives up".to_owned());
    }

    async fn call(&self, number: usize) -> Result<ChildEnd, CallError> {
        let name = format!("c{number}");
        let task = self.attempt.task();
        let id = TaskId::derived(task.created_at, &[task.owner.as_bytes(), task.id.as_bytes(), name.as_bytes()]);
        let plan = &self.world.plan.calls[number];
        let prepare = || async move {
            self.world.kernel.tell(|| format!("calls call {number} from its tool"));
            Ok::<_, CallError>(Call {
                owner: task.owner,
                tool: "tool".to_owned(),
                request: request_of(number, plan.request_bytes),
                terms: plan.terms(),
                idempotency: None,
                trace: None,
                cleanup: plan.cleanup,
                not_before: None,
                flow: self.world.plan.flow(),
                labels: Labels::default(),
            })
        };
        if self.world.planted == Some(PlantedFault::ChildAwaitedInAttempt) {
            self.wait_in_attempt(TaskKey::new(task.owner, id)).await;
        }
        let end = self.attempt.call(&name, id, prepare).await?;
        let mut state = self.world.lock();
        let super::world::State { checks, store, .. } = &mut *state;
        checks.child_heard(store, &self.key, id, &end);
        Ok(end)
    }

    /// Waits in its attempt for a child that the tool has made before, which tools must not do.
    async fn wait_in_attempt(&self, child: TaskKey) {
        let unfinished = || self.world.lock().store.peek(&child).is_some_and(|task| !task.has_ended());
        for _ in 0..LEASES_IN_ATTEMPT {
            if unfinished() {
                self.world.kernel.sleep(self.world.plan.settings.lease_ms).await;
            }
        }
    }
}
