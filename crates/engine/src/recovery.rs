//! Recovering what a poll of the record shows to be stuck: a lost message, a dead worker, a missed deadline.

use longhaul_core::ports::ApplyError;
use longhaul_core::{Cleanup, State, Task, TaskEvent, Timestamp};

use crate::Engine;

impl Engine {
    /// Recovers `task` if it is stuck, and returns it as it is then. Never fails: the record was read, and that is an
    /// answer.
    pub(crate) async fn recover(&self, task: Task) -> Task {
        self.note_on_span(&task);
        let now = self.now();
        let Some(event) = self.recovery_event(&task, now) else { return task };
        match self.apply_once(&task.key(), &event).await {
            Ok(recovered) => {
                tracing::info!(task_id = %task.id, attempt = task.attempt, ?event, "a poll recovered the task");
                self.observer().recovered(&recovered);
                if event.ends_task() {
                    self.observer().ended(&recovered);
                    self.notify_parent_and_children(&recovered).await;
                    self.send_for_cleanup(&recovered).await;
                } else {
                    // A failure is logged; the record remembers this sending, and the next poll after the bound repeats
                    // it.
                    let _logged = self.send(&recovered, 0).await;
                }
                recovered
            }
            Err(ApplyError::Refused { current, .. }) => *current,
            Err(ApplyError::NotFound) => task,
            Err(ApplyError::Store(error)) => {
                tracing::warn!(
                    task_id = %task.id, error = &error as &dyn std::error::Error,
                    "the task could not be recovered; the next poll tries again"
                );
                task
            }
        }
    }

    /// The event that recovers a stuck task; `None` if it is not stuck.
    fn recovery_event(&self, task: &Task, now: Timestamp) -> Option<TaskEvent> {
        if task.needs_cleanup() {
            return self.resend_event(task, self.cleanup_wanted_at(task), now);
        }
        if task.has_ended() {
            return None;
        }
        if now >= task.deadline() {
            return Some(TaskEvent::TimeOut);
        }
        let due = match &task.state {
            State::Queued => task.sent_at,
            State::Running { lease } if now >= lease.until && task.is_on_last_retry() => {
                return Some(TaskEvent::RetriesExhausted);
            }
            State::Running { lease } => lease.until.max(task.sent_at),
            State::Sleeping { until } | State::InputRequired { until: Some(until), .. } => (*until).max(task.sent_at),
            State::InputRequired { until: None, .. } => return None,
            State::Completed { .. } | State::Failed { .. } | State::Cancelled => return None,
        };
        self.resend_event(task, due, now)
    }

    /// When a message should be visible for the cleanup of the task.
    pub(crate) fn cleanup_wanted_at(&self, task: &Task) -> Timestamp {
        let due_at = self.cleanup_due_at(task).max(task.sent_at);
        match task.cleanup {
            Cleanup::Armed { lease: Some(lease), .. } => due_at.max(lease.until),
            Cleanup::Armed { lease: None, .. } | Cleanup::None | Cleanup::Done | Cleanup::GivenUp => due_at,
        }
    }

    /// Sends the message for the cleanup of a task that has just ended without a worker.
    pub(crate) async fn send_for_cleanup(&self, task: &Task) {
        if task.needs_cleanup() {
            let delay_ms = self.cleanup_due_at(task).since_ms(self.now());
            // A failure is logged, and a poll sends it again.
            let _logged = self.send(task, delay_ms).await;
        }
    }

    /// The event of a message that is sent again, if it was due long enough ago.
    fn resend_event(&self, task: &Task, due: Timestamp, now: Timestamp) -> Option<TaskEvent> {
        let resend_ms = self.settings.resend_after_ms(task.resends);
        (now >= due.plus_ms(resend_ms)).then(|| TaskEvent::Resend { not_since: now.minus_ms(resend_ms) })
    }
}
