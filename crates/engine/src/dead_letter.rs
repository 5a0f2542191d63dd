//! Dead letters: messages that were delivered too often.

use longhaul_core::ports::{Delivery, Purpose};
use longhaul_core::{State, Task, TaskEvent, Timestamp};

use crate::{Disposition, Engine};

/// What the task of a dead letter needs.
enum Need {
    /// Nothing: it has ended, or waits for its client.
    Nothing,
    /// The end that this event is.
    End(TaskEvent),
    /// A new message, visible from this moment on.
    Message(Timestamp),
}

impl Engine {
    /// Recovers the task of a dead letter. Whether the task has failed is decided by the failures in its record: a
    /// task that was merely unlucky gets a new message.
    pub async fn run_dead_letter(&self, letter: &Delivery) -> Disposition {
        if letter.purpose == Purpose::Wake {
            return self.run_wake(letter).await;
        }
        let key = &letter.message.task;
        let now = self.now();
        let task = match self.with_retry(|| self.store().get(key, now)).await {
            Ok(Some(task)) => task,
            Ok(None) => return Disposition::Acknowledge,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(task_id = %key.id, error, "the task of a dead letter could not be read");
                return self.later();
            }
        };
        match self.need_of(&task, now) {
            Need::Nothing => Disposition::Acknowledge,
            Need::End(event) => match self.end_for_good(&task, event).await {
                Disposition::Acknowledge if task.cleanup.is_armed() => {
                    self.replace_message(&task, self.settings.lease_ms).await
                }
                disposition => disposition,
            },
            Need::Message(at) => match self.send(&task, at.since_ms(now)).await {
                Ok(()) => Disposition::Acknowledge,
                Err(_logged) => self.later(),
            },
        }
    }

    fn need_of(&self, task: &Task, now: Timestamp) -> Need {
        if task.needs_cleanup() {
            return Need::Message(self.cleanup_due_at(task).max(now.plus_ms(self.settings.retry_ms)));
        }
        if task.has_ended() {
            return Need::Nothing;
        }
        if now >= task.deadline() {
            return Need::End(TaskEvent::TimeOut);
        }
        match &task.state {
            State::Running { lease } if now >= lease.until && task.is_on_last_retry() => {
                Need::End(TaskEvent::RetriesExhausted)
            }
            State::Running { lease } => Need::Message(lease.until),
            State::Sleeping { until } | State::InputRequired { until: Some(until), .. } => Need::Message(*until),
            State::Queued => Need::Message(now.plus_ms(self.settings.retry_ms)),
            State::InputRequired { until: None, .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Cancelled => Need::Nothing,
        }
    }
}
