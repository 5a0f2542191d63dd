//! How a writer whose answer was lost recognises its own write.

use crate::{FailureKind, State, Suspension, Task, TaskEvent};

impl Task {
    /// Whether `self`, the task for which a store refused `event`, shows that the same write was applied before. A
    /// writer that lost the answer repeats the write, which its own effect then refuses.
    ///
    /// Only the holder of an attempt writes events that carry it, and a token is generated for one claim. So a task in
    /// the state that such an event leads to was brought there by that event.
    #[must_use]
    pub fn already_applied(&self, event: &TaskEvent) -> bool {
        match event {
            TaskEvent::Claim { token, .. } => matches!(&self.state, State::Running { lease } if lease.token == *token),
            TaskEvent::Suspend { attempt, suspension, .. } => {
                self.attempt == *attempt && self.is_suspended_by(suspension)
            }
            TaskEvent::Retry { attempt, not_before, .. } => {
                self.attempt == *attempt && self.state == State::Sleeping { until: *not_before }
            }
            TaskEvent::Finish { attempt, outcome, .. } => self.attempt == *attempt && self.state == outcome.state(),
            // A task that goes on at exactly this moment for another reason is taken for woken, and gets one more
            // message.
            TaskEvent::Wake { at } => self.waits_until() == Some(*at),
            TaskEvent::BeginCleanup { lease } => self.has_begun_cleanup(*lease),
            TaskEvent::EndCleanup { token, end } => self.has_ended_cleanup(*token, *end),
            // These leave nothing that identifies their writer, or are rightly refused the second time.
            TaskEvent::Heartbeat { .. }
            | TaskEvent::SetVariables { .. }
            | TaskEvent::Answer { .. }
            | TaskEvent::Cancel
            | TaskEvent::Resend { .. }
            | TaskEvent::RetriesExhausted
            | TaskEvent::TimeOut
            | TaskEvent::ExtendRetention { .. }
            | TaskEvent::Forget => false,
        }
    }

    /// Whether the task has ended with the status that `event` gives, from any writer. For a writer that wrote it
    /// perhaps, and was not told.
    #[must_use]
    pub fn has_ended_as(&self, event: &TaskEvent) -> bool {
        let failed_by = |kind| matches!(&self.state, State::Failed { failure } if failure.kind == kind);
        *event == TaskEvent::Cancel && self.state == State::Cancelled
            || *event == TaskEvent::RetriesExhausted && failed_by(FailureKind::RetriesExhausted)
            || *event == TaskEvent::TimeOut && failed_by(FailureKind::TimedOut)
            || event.ends_task() && self.already_applied(event)
    }

    /// Whether the task is in a state that this suspension leads to. Its questions may have been answered before it, or
    /// since.
    fn is_suspended_by(&self, suspension: &Suspension) -> bool {
        let Suspension::Input { asks, until } = suspension else {
            return suspension.state().is_ok_and(|state| state == self.state);
        };
        match &self.state {
            State::Queued => !asks.is_empty(),
            State::InputRequired { asks: open, until: waits_until } => {
                until == waits_until && open.iter().all(|ask| asks.contains(ask))
            }
            State::Running { .. }
            | State::Sleeping { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Cancelled => false,
        }
    }
}
