//! Checkers of tools that look until something is there.

use longhaul_core::{Suspension, TaskKey};
use longhaul_engine::Every;
use longhaul_testkit::models::Promise;

use super::super::kernel::EPOCH_MS;
use super::super::plan::{Op, Tool};
use super::state::{Checks, Looked};

impl Checks {
    /// The tool looks for what the operation at this position of its script waits for. Returns when it did so first.
    pub(crate) fn look_begins(
        &mut self,
        key: &TaskKey,
        attempt: u32,
        position: usize,
        every: Every,
        at_ms: u64,
    ) -> u64 {
        self.step_runs(key, attempt, &format!("l{position}"), at_ms);
        let before = self.latest_look(key, attempt);
        if let Some(before) = before {
            self.check_until(key, before, at_ms, at_ms);
        }
        let Some(trace) = self.trace(key) else { return at_ms };
        if before.is_some() {
            // The pause was part of the leg, and is as good as a suspension.
            trace.legs_in_a_row = trace.legs_in_a_row.min(1);
            trace.leg(attempt).into_iter().for_each(|leg| leg.advanced = true);
        }
        let first = trace.looks.first.iter().find(|(held, _)| *held == position).map(|(_, first_ms)| *first_ms);
        let first_ms = first.unwrap_or(at_ms);
        if first.is_none() {
            trace.looks.first.push((position, at_ms));
        }
        trace.looks.latest.insert(attempt, Looked { first_ms, every, at_ms });
        first_ms
    }

    fn latest_look(&mut self, key: &TaskKey, attempt: u32) -> Option<Looked> {
        self.trace(key).and_then(|trace| trace.looks.latest.get(&attempt).copied())
    }

    /// The look of this attempt is over.
    pub(crate) fn look_ends(&mut self, key: &TaskKey, attempt: u32, at_ms: u64) {
        let looks = self.trace(key).map(|trace| &mut trace.looks);
        if let Some(look) = looks.and_then(|looks| looks.latest.get_mut(&attempt)) {
            look.at_ms = at_ms;
        }
    }

    /// The tool has what it looked for.
    pub(crate) fn looks_end(&mut self, key: &TaskKey, attempt: u32) {
        if let Some(trace) = self.trace(key) {
            trace.looks.latest.remove(&attempt);
        }
    }

    /// A leg that ends after a look does so for the pause that the tool asked for.
    pub(super) fn check_pause(&mut self, key: &TaskKey, attempt: u32, suspension: &Suspension, at_ms: u64) {
        let Suspension::Timer(until) = suspension else { return };
        let look = self.latest_look(key, attempt);
        // A task with cleaning looks again at its deadline, to find it over.
        let is_deadline =
            self.trace(key).and_then(|trace| trace.latest()).is_some_and(|task| *until == task.deadline());
        if let Some(look) = look.filter(|_| !is_deadline) {
            self.check_until(key, look, until.as_ms().saturating_sub(EPOCH_MS), at_ms);
        }
    }

    /// The pause after `look` lasts until `until_ms`.
    fn check_until(&mut self, key: &TaskKey, look: Looked, until_ms: u64, at_ms: u64) {
        let since_first_ms = (look.at_ms - look.first_ms).saturating_sub(self.skew_ms);
        let pause_ms = look.every.pause_ms(since_first_ms);
        if until_ms + self.skew_ms < look.at_ms + pause_ms {
            let what = format!(
                "{} looks again after {} ms instead of {pause_ms} ms",
                self.name(key),
                until_ms.saturating_sub(look.at_ms)
            );
            self.fail(Promise::LooksKeepTheirInterval, at_ms, what);
        }
    }

    /// A task has no more entries than its script explains, however often it looks.
    pub(super) fn check_entries(&mut self, key: &TaskKey, at_ms: u64) {
        let Some((call, entries)) = self.trace(key).map(|trace| (trace.call, trace.entries.len())) else { return };
        let Some(Tool::Script(ops)) = self.calls.get(call).map(|call| &call.tool) else { return };
        let entries_max: usize = ops.iter().map(|op| op.entries_max()).sum();
        if entries > entries_max && ops.iter().any(|op| matches!(op, Op::Look(..))) {
            let what = format!("{} has {entries} entries on record, and its tool makes {entries_max}", self.name(key));
            self.fail(Promise::LooksAreNotRecorded, at_ms, what);
        }
    }
}
