//! Checkers of tools that call other tools.

use longhaul_core::{State, Task, TaskId, TaskKey, limits};
use longhaul_engine::ChildEnd;
use longhaul_testkit::models::{Promise, StoreModel};

use super::record::text_of;
use super::rules::ended;
use super::state::{Checks, Trace, was_forgotten};

/// How deep tools may call each other.
const DEPTH_MAX: u8 = 8;

impl Checks {
    /// A task was created, perhaps by the tool of another one.
    pub(super) fn check_child(&mut self, task: &Task, call: usize) {
        let Some(parent) = task.parent else { return };
        let name = self.name(&task.key());
        let above = self.traces.iter().find(|trace| trace.key == TaskKey::new(task.owner, parent.id));
        let depth_above = above.and_then(|trace| trace.latest()).map(|task| task.parent.map_or(0, |above| above.depth));
        if depth_above.is_none_or(|above| parent.depth != above + 1) || parent.depth > DEPTH_MAX {
            let what = format!("{name} has {} tasks above it, and its parent has {depth_above:?}", parent.depth);
            self.fail(Promise::DepthIsLimited, what);
        }
        let is_of_call = |trace: &&Trace| {
            let of = trace.latest().and_then(|task| task.parent);
            trace.key.owner == task.owner && of.is_some_and(|of| of.id == parent.id) && trace.call == call
        };
        if self.traces.iter().filter(is_of_call).count() > 1 {
            self.fail(Promise::OneChildPerName, format!("{name} is the second task for one call of its parent"));
        }
    }

    /// A tool is refused a call because it is too deep to call another one.
    pub(crate) fn call_refused(&mut self, task: &Task) {
        if task.parent.is_none_or(|parent| parent.depth < DEPTH_MAX) {
            let what = format!("the tool of {} may not call another one", self.name(&task.key()));
            self.fail(Promise::DepthIsLimited, what);
        }
    }

    /// A tool calls others, or waits for them again.
    pub(crate) fn calls_begin(&mut self, key: &TaskKey, attempt: u32) {
        let at_ms = self.now_ms();
        if let Some(trace) = self.trace(key) {
            trace.calls.waits = Some((attempt, at_ms));
        }
    }

    /// They have all ended.
    pub(crate) fn calls_end(&mut self, key: &TaskKey) {
        if let Some(trace) = self.trace(key) {
            trace.calls.waits = None;
        }
    }

    /// A tool ended, or was dropped: while it waited for others it had no attempt for longer than it took to call them.
    pub(super) fn check_wait(&mut self, key: &TaskKey, attempt: u32, quiet_since_ms: u64) {
        let at_ms = self.now_ms();
        let bound_ms = self.lease_ms * 2;
        let Some(trace) = self.trace(key) else { return };
        let Some((_, since_ms)) = trace.calls.waits.take_if(|(held, _)| *held == attempt) else { return };
        if at_ms > since_ms.max(quiet_since_ms) + bound_ms {
            let what = format!("{} waited {} ms in its attempt for another tool", self.name(key), at_ms - since_ms);
            self.fail(Promise::CallsWaitWithoutAttempt, what);
        }
    }

    /// A tool got the end of the tool that it called.
    pub(crate) fn child_heard(&mut self, store: &StoreModel, parent: &TaskKey, child: TaskId, end: &ChildEnd) {
        let at_ms = self.now_ms();
        let (key, bound_ms) = (TaskKey::new(parent.owner, child), self.lease_ms * 10);
        let is_first = self.trace(parent).is_some_and(|trace| !trace.calls.heard.contains(&child));
        let ended_ms = self.trace(&key).and_then(|trace| trace.ended).map_or(at_ms, |(ended_ms, _)| ended_ms);
        if is_first && self.is_calm && at_ms > ended_ms + bound_ms {
            let what = format!("{} got the end of a child after {} ms", self.name(parent), at_ms - ended_ms);
            self.fail(Promise::ParentsHearTheEnd, what);
        }
        self.trace(parent).into_iter().for_each(|trace| trace.calls.heard.push(child));
        let task = self.trace(&key).and_then(|trace| trace.latest().cloned());
        let is_right = match (end, task.as_ref().map(|task| (task, &task.record().state))) {
            (ChildEnd::Completed(text), Some((_, State::Completed { result, .. }))) => {
                text_of(store, &key, result).is_none_or(|held| held == *text)
            }
            (ChildEnd::Failed { .. }, Some((_, State::Failed { .. }))) => true,
            (ChildEnd::Cancelled, Some((_, State::Cancelled))) => true,
            (ChildEnd::Gone, Some((task, _))) => at_ms + self.skew_ms >= expires_at_ms(task),
            (ChildEnd::Gone, None) => true,
            _ => false,
        };
        if !is_right {
            let state = task.map(|task| task.state.clone());
            let what = format!("{} saw {} end with {end:?}, and it is {state:?}", self.name(parent), self.name(&key));
            self.fail(Promise::ParentsHearTheEnd, what);
        }
    }

    /// A record changed, which may be that of a child.
    pub(super) fn check_family(&mut self, before: &Task, after: &Task) {
        if let Some(parent) = after.parent.filter(|_| !ended(before) && ended(after)) {
            self.check_ended_with_its_parent(&after.key(), &TaskKey::new(after.owner, parent.id));
        }
    }

    /// A child ended: not long after its parent, if that ended otherwise than by a result.
    fn check_ended_with_its_parent(&mut self, key: &TaskKey, parent: &TaskKey) {
        let at_ms = self.now_ms();
        let created_ms = self.trace(key).and_then(|trace| trace.versions.first().map(|(since_ms, _)| *since_ms));
        let (lease_ms, is_calm, chaos_ms) = (self.lease_ms, self.is_calm, self.chaos_ms);
        let Some(above) = self.trace(parent) else { return };
        let (Some((ended_ms, _)), Some(task), Some(created_ms)) = (above.ended, above.latest().cloned(), created_ms)
        else {
            return;
        };
        // A child learns of the end from the record, while that is retained.
        if matches!(task.record().state, State::Completed { .. }) || was_forgotten(&task) {
            return;
        }
        // A cancellation of the parent finds the children in its journal, and the parent's first attempt knows them.
        let is_found = is_calm && created_ms + lease_ms <= ended_ms;
        let (from_ms, bound_ms) = if is_found {
            (ended_ms, lease_ms * 10)
        } else {
            (ended_ms.max(created_ms).max(chaos_ms), limits::CHILD_POLL_MS_MAX + lease_ms * 80)
        };
        if at_ms > from_ms + bound_ms {
            let what = format!("{} ended {} ms after its parent", self.name(key), at_ms - ended_ms);
            self.fail(Promise::CancelReachesAll, what);
        }
    }
}

fn expires_at_ms(task: &Task) -> u64 {
    task.expires_at.as_ms().saturating_sub(super::super::kernel::EPOCH_MS)
}
