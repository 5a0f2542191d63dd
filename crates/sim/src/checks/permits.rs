//! The checker of the limits of running attempts: how many tasks of one owner, or of the tool, have an attempt that has
//! a permit.

use longhaul_core::ports::AttemptPermit;
use longhaul_core::{LeaseToken, State, Task, TaskKey, Timestamp};
use longhaul_testkit::models::Promise;

use super::super::kernel::EPOCH_MS;
use super::state::Checks;

impl Checks {
    /// An attempt has a permit.
    pub(crate) fn permit_is_taken(&mut self, permit: &AttemptPermit) {
        self.attempts.until.push((permit.lease, permit.until));
    }

    /// It is not known whether an attempt has a permit.
    pub(crate) fn permit_is_unknown(&mut self, lease: LeaseToken) {
        self.attempts.unknown.push(lease);
    }

    /// The tool of an attempt begins.
    pub(super) fn attempt_begins(&mut self, task: &Task) {
        let limit = self.owner_attempts.or(self.tool_attempts);
        let (Some(attempts_max), State::Running { lease }) = (limit, &task.state) else { return };
        let key = task.key();
        self.attempts.running.push((key, task.attempt, lease.token));
        let until =
            |lease: &LeaseToken| self.attempts.until.iter().rev().find(|(of, _)| of == lease).map(|(_, until)| *until);
        if until(&lease.token).is_none() && !self.attempts.unknown.contains(&lease.token) {
            return self.fail(
                Promise::AttemptsAreLimited,
                format!("an attempt of {} began without a permit", self.name(&key)),
            );
        }
        // The clocks of the workers decide when a permit is free.
        let now = Timestamp::from_ms(EPOCH_MS + self.now_ms() + self.skew_ms);
        let counts = |(task, number, lease): &&(TaskKey, u32, LeaseToken)| {
            // An attempt that lost its task runs on until its next heartbeat; the permit is the next attempt's.
            let lost = self
                .traces
                .iter()
                .any(|trace| trace.key == *task && trace.attempts.iter().any(|attempt| attempt.number > *number));
            (task.owner == key.owner || self.tool_attempts.is_some())
                && !lost
                && until(lease).is_some_and(|until| until > now)
        };
        let running = self.attempts.running.iter().filter(counts).count();
        if running > attempts_max as usize {
            let what = format!("{running} attempts of one owner or tool run at a time, and {attempts_max} may");
            self.fail(Promise::AttemptsAreLimited, what);
        }
    }

    /// The tool of an attempt has ended, or was dropped.
    pub(super) fn attempt_stops(&mut self, key: &TaskKey, attempt: u32) {
        self.attempts.running.retain(|(task, of, _)| (task, *of) != (key, attempt));
    }
}
