//! The checker of compensations: what a tool has begun is undone if its task does not end with success.

use longhaul_core::{Cleanup, TaskKey, Timestamp};
use longhaul_testkit::models::{Promise, StoreModel};

use super::state::Checks;

impl Checks {
    /// A step begins its work. That never happens in a replay.
    pub(crate) fn step_begins(&mut self, key: &TaskKey, name: &str, is_replay: bool) {
        if is_replay {
            self.fail(Promise::Undoes, format!("step `{name}` of {} runs in a replay", self.name(key)));
        }
    }

    /// A step whose compensation is registered begins its work.
    /// A frozen worker may begin one after the cleanup has begun, before it notices that. Such a step is not undone.
    pub(crate) fn undoable_begins(&mut self, key: &TaskKey, position: usize, is_replay: bool) {
        self.step_begins(key, &format!("s{position}"), is_replay);
        if let Some(trace) = self.trace(key)
            && trace.cleanups == 0
            && !trace.begun.contains(&position)
        {
            trace.begun.push(position);
        }
    }

    /// The compensation of the step at this place of its tool runs: after those of all later steps. A replay in which
    /// the tool panics does not register those of steps that no attempt began. A later replay may come to them, and
    /// then they run last, with nothing to undo.
    pub(crate) fn compensation_runs(&mut self, key: &TaskKey, position: usize) {
        let name = self.name(key);
        let Some(trace) = self.trace(key) else { return };
        let earlier = trace.undone.last().copied();
        let is_over = trace.latest().is_some_and(|task| task.has_ended());
        let has_begun = trace.begun.contains(&position);
        trace.undone.push(position);
        if has_begun && earlier.is_some_and(|earlier| earlier < position) {
            self.fail(Promise::Undoes, format!("step {position} of {name} is undone after an earlier one"));
        }
        if !is_over {
            self.fail(Promise::Undoes, format!("step {position} of {name} is undone before the end"));
        }
    }

    /// At the end of the run, where the record says that the cleanup has succeeded, every step that began is undone.
    pub(crate) fn must_be_undone(&mut self, store: &StoreModel, keys: &[TaskKey], now: Timestamp) {
        for key in keys {
            let Some(task) = store.peek(key).filter(|task| !task.has_expired(now)) else { continue };
            let Some(trace) = self.trace(key).filter(|_| task.cleanup == Cleanup::Done) else { continue };
            let left = trace.begun.iter().find(|position| !trace.undone.contains(position)).copied();
            if let Some(position) = left {
                self.fail(Promise::Undoes, format!("step {position} of {} is not undone", self.name(key)));
            }
        }
    }
}
