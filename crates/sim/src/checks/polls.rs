//! Checkers of tools that poll until something is there.

use longhaul_core::{Suspension, TaskKey};
use longhaul_engine::Every;
use longhaul_testkit::models::Promise;

use super::super::kernel::EPOCH_MS;
use super::super::plan::{Op, Tool};
use super::state::{Checks, Polled};

impl Checks {
    /// The operation at this position of the tool's script polls its condition. Returns when it did so first.
    pub(crate) fn poll_begins(&mut self, key: &TaskKey, attempt: u32, position: usize, every: Every) -> u64 {
        let at_ms = self.now_ms();
        self.step_runs(key, attempt, &format!("l{position}"));
        let before = self.latest_poll(key, attempt);
        if let Some(before) = before {
            self.check_until(key, before, at_ms);
        }
        let Some(trace) = self.trace(key) else { return at_ms };
        if before.is_some() {
            // The pause was part of the attempt, and is as good as a suspension.
            trace.attempts_in_a_row = trace.attempts_in_a_row.min(1);
            trace.attempt(attempt).into_iter().for_each(|attempt| attempt.advanced = true);
        }
        let first = trace.polls.first.iter().find(|(held, _)| *held == position).map(|(_, first_ms)| *first_ms);
        let first_ms = first.unwrap_or(at_ms);
        if first.is_none() {
            trace.polls.first.push((position, at_ms));
        }
        trace.polls.latest.insert(attempt, Polled { first_ms, every, at_ms });
        first_ms
    }

    fn latest_poll(&mut self, key: &TaskKey, attempt: u32) -> Option<Polled> {
        self.trace(key).and_then(|trace| trace.polls.latest.get(&attempt).copied())
    }

    /// The poll of this attempt has ended.
    pub(crate) fn poll_ends(&mut self, key: &TaskKey, attempt: u32) {
        let at_ms = self.now_ms();
        let polls = self.trace(key).map(|trace| &mut trace.polls);
        if let Some(poll) = polls.and_then(|polls| polls.latest.get_mut(&attempt)) {
            poll.at_ms = at_ms;
        }
    }

    /// The poll of the tool has found its value.
    pub(crate) fn polls_end(&mut self, key: &TaskKey, attempt: u32) {
        if let Some(trace) = self.trace(key) {
            trace.polls.latest.remove(&attempt);
        }
    }

    /// An attempt that ends after a poll does so for the pause that the tool asked for.
    pub(super) fn check_pause(&mut self, key: &TaskKey, attempt: u32, suspension: &Suspension) {
        let Suspension::Timer(until) = suspension else { return };
        let poll = self.latest_poll(key, attempt);
        // A task with cleanup polls again at its deadline, to find that it has ended.
        let is_deadline =
            self.trace(key).and_then(|trace| trace.latest()).is_some_and(|task| *until == task.deadline());
        if let Some(poll) = poll.filter(|_| !is_deadline) {
            self.check_until(key, poll, until.as_ms().saturating_sub(EPOCH_MS));
        }
    }

    /// The pause after `poll` lasts until `until_ms`.
    fn check_until(&mut self, key: &TaskKey, poll: Polled, until_ms: u64) {
        let since_first_ms = (poll.at_ms - poll.first_ms).saturating_sub(self.skew_ms);
        let pause_ms = poll.every.pause_ms(since_first_ms);
        if until_ms + self.skew_ms < poll.at_ms + pause_ms {
            let what = format!(
                "{} polls again after {} ms instead of {pause_ms} ms",
                self.name(key),
                until_ms.saturating_sub(poll.at_ms)
            );
            self.fail(Promise::PollsKeepTheirInterval, what);
        }
    }

    /// A task has no more entries than its script explains, however often it polls.
    pub(super) fn check_entries(&mut self, key: &TaskKey) {
        let Some((call, entries)) = self.trace(key).map(|trace| (trace.call, trace.entries.len())) else { return };
        let Some(Tool::Script(ops)) = self.calls.get(call).map(|call| &call.tool) else { return };
        let entries_max: usize = ops.iter().map(|op| op.entries_max()).sum();
        if entries > entries_max && ops.iter().any(|op| matches!(op, Op::Poll(..))) {
            let what = format!("{} has {entries} stored entries, and its tool makes {entries_max}", self.name(key));
            self.fail(Promise::PollsAreNotRecorded, what);
        }
    }
}
