//! Waits that would outlast their task: they fail when they begin, and not at the deadline.

use longhaul_core::{FailureKind, Timestamp};

use crate::Attempt;

impl Attempt {
    /// Fails the task if `waits`, the next wait of the tool, would outlast its deadline. It lasts until `until`.
    pub async fn fits_until(&self, waits: &str, until: Timestamp) {
        let (now, deadline) = (self.now(), self.task().deadline());
        if until < deadline || !self.is_stored() {
            return;
        }
        let (takes_ms, left_ms, run_ms) = (until.since_ms(now), deadline.since_ms(now), self.task().terms.run_ms);
        let message = format!(
            "{waits} would take {takes_ms} ms, and the task has {left_ms} ms left. It may take {run_ms} ms, waits \
             included: allow more with `TaskPolicy::run_at_most`"
        );
        self.fail(FailureKind::TimedOut, message).await
    }
}
