//! The checker of what a record says of its latest legs.

use longhaul_core::{LegOutcome, PastLeg, State, Suspension, Task, TaskEvent, Timestamp};
use longhaul_testkit::models::Promise;

use super::state::Checks;

/// Legs that a record remembers.
const NOTED_LEGS_MAX: usize = 16;

impl Checks {
    /// A leg is noted by the event that ends it, with its own attempt and its own beginning, and stays as it is.
    pub(super) fn check_legs(&mut self, before: &Task, after: &Task, event: &TaskEvent, now: Timestamp, at_ms: u64) {
        let (mut expected, mut since) = (before.legs.past.clone(), before.legs.since);
        if let Some((end, to)) = ended_leg(before, event, now) {
            expected.push(PastLeg { attempt: before.attempt, from: since.take().unwrap_or(to), to, end });
            expected.drain(..expected.len().saturating_sub(NOTED_LEGS_MAX));
        }
        if let TaskEvent::Claim { .. } = event {
            since = Some(now);
        }
        if (&expected, since) != (&after.legs.past, after.legs.since) {
            let what = format!(
                "{}: after {event:?} its legs are {:?}, and not {expected:?} and one since {since:?}",
                self.name(&before.key()),
                after.legs
            );
            self.fail(Promise::LegsAreNoted, at_ms, what);
        }
    }
}

/// How and when the leg ended that the event ends while its task goes on.
fn ended_leg(before: &Task, event: &TaskEvent, now: Timestamp) -> Option<(LegOutcome, Timestamp)> {
    match (event, &before.state) {
        (TaskEvent::Suspend { suspension, .. }, _) => Some(match suspension {
            Suspension::Input { .. } => (LegOutcome::Input, now),
            Suspension::Timer(_) => (LegOutcome::Timer, now),
            Suspension::Yield => (LegOutcome::Yield, now),
        }),
        (TaskEvent::Retry { reason, .. }, _) => Some((LegOutcome::failed(reason), now)),
        (TaskEvent::Claim { .. }, State::Running { lease }) => Some((LegOutcome::Died, lease.until)),
        _ => None,
    }
}
