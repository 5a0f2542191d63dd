//! The checker of the latest attempts in a record.

use longhaul_core::{AttemptOutcome, PastAttempt, State, Suspension, Task, TaskEvent, Timestamp};
use longhaul_testkit::models::Promise;

use super::state::Checks;

/// Attempts that a record remembers.
const NOTED_ATTEMPTS_MAX: usize = 16;

impl Checks {
    /// An attempt is noted by the event that ends it, with its own attempt and its own beginning, and stays as it is.
    pub(super) fn check_attempts(&mut self, before: &Task, after: &Task, event: &TaskEvent, now: Timestamp) {
        let (mut expected, mut since) = (before.attempts.past.clone(), before.attempts.since);
        if let Some((end, to)) = ended_attempt(before, event, now) {
            expected.push(PastAttempt { number: before.attempt, from: since.take().unwrap_or(to), to, end });
            expected.drain(..expected.len().saturating_sub(NOTED_ATTEMPTS_MAX));
        }
        if let TaskEvent::Claim { .. } = event {
            since = Some(now);
        }
        if (&expected, since) != (&after.attempts.past, after.attempts.since) {
            let what = format!(
                "{}: after {event:?} its attempts are {:?}, and not {expected:?} and one since {since:?}",
                self.name(&before.key()),
                after.attempts
            );
            self.fail(Promise::AttemptsAreNoted, what);
        }
    }
}

/// How and when the attempt ended that the event ends while its task continues.
fn ended_attempt(before: &Task, event: &TaskEvent, now: Timestamp) -> Option<(AttemptOutcome, Timestamp)> {
    match (event, &before.state) {
        (TaskEvent::Suspend { suspension, .. }, _) => Some(match suspension {
            Suspension::Input { .. } => (AttemptOutcome::Input, now),
            Suspension::Timer(_) => (AttemptOutcome::Timer, now),
            Suspension::Yield => (AttemptOutcome::Yield, now),
        }),
        (TaskEvent::Retry { reason, .. }, _) => Some((AttemptOutcome::failed(reason), now)),
        (TaskEvent::Claim { .. }, State::Running { lease }) => Some((AttemptOutcome::Died, lease.until)),
        _ => None,
    }
}
