//! The checker of the limit of running legs: how many tasks of one owner have a leg that has a place.

use longhaul_core::ports::LegPlace;
use longhaul_core::{LeaseToken, State, Task, TaskKey, Timestamp};
use longhaul_testkit::models::Promise;

use super::super::kernel::EPOCH_MS;
use super::state::Checks;

impl Checks {
    /// A leg has a place.
    pub(crate) fn place_is_taken(&mut self, place: &LegPlace) {
        self.legs.until.push((place.lease, place.until));
    }

    /// It is not known whether a leg has a place.
    pub(crate) fn place_is_unknown(&mut self, lease: LeaseToken) {
        self.legs.unknown.push(lease);
    }

    /// The tool of a leg begins.
    pub(super) fn leg_begins(&mut self, task: &Task, at_ms: u64) {
        let (Some(legs_max), State::Running { lease }) = (self.owner_legs, &task.state) else { return };
        let key = task.key();
        self.legs.running.push((key, task.attempt, lease.token));
        let until =
            |lease: &LeaseToken| self.legs.until.iter().rev().find(|(of, _)| of == lease).map(|(_, until)| *until);
        if until(&lease.token).is_none() && !self.legs.unknown.contains(&lease.token) {
            let what = format!("a leg of {} began without a place", self.name(&key));
            return self.fail(Promise::LegsAreLimited, at_ms, what);
        }
        // The clocks of the workers decide when a place is free.
        let now = Timestamp::from_ms(EPOCH_MS + at_ms + self.skew_ms);
        let counts = |(task, attempt, lease): &&(TaskKey, u32, LeaseToken)| {
            // A leg that lost its task runs on until its next heartbeat; the place is the next leg's.
            let lost = self
                .traces
                .iter()
                .any(|trace| trace.key == *task && trace.legs.iter().any(|leg| leg.attempt > *attempt));
            task.owner == key.owner && !lost && until(lease).is_some_and(|until| until > now)
        };
        let running = self.legs.running.iter().filter(counts).count();
        if running > legs_max as usize {
            let what = format!("{running} legs of one owner run at a time, and {legs_max} may");
            self.fail(Promise::LegsAreLimited, at_ms, what);
        }
    }

    /// The tool of a leg has ended, or was dropped.
    pub(super) fn leg_stops(&mut self, key: &TaskKey, attempt: u32) {
        self.legs.running.retain(|(task, of, _)| (task, *of) != (key, attempt));
    }
}
