//! Dead letters: messages that were handed over too often.

use longhaul_core::planted::{Fault, planted};
use longhaul_core::ports::{ApplyError, Delivery};
use longhaul_core::{State, TaskEvent};

use crate::{Disposition, Engine};

impl Engine {
    /// Looks after the task of a dead letter. Whether a task has failed is decided by the failures in its record: a
    /// task that is merely unlucky gets a new message.
    pub async fn run_dead_letter(&self, letter: &Delivery) -> Disposition {
        let key = &letter.message.task;
        let now = self.now();
        let task = match self.surely(|| self.store().get(key, now)).await {
            Ok(Some(task)) => task,
            Ok(None) => return Disposition::Done,
            Err(_) => return self.later(),
        };
        if task.has_ended() || planted(Fault::DeadLetterDropped) {
            return Disposition::Done;
        }
        let (end, resume_at) = match &task.state {
            State::Running { lease } if now >= lease.until && task.is_on_last_try() => (Some(TaskEvent::GiveUp), now),
            State::Running { lease } => (None, lease.until),
            State::Sleeping { until } | State::InputRequired { until: Some(until), .. } => (None, *until),
            State::InputRequired { until: None, .. } => return Disposition::Done,
            State::Queued | State::Completed { .. } | State::Failed { .. } | State::Cancelled => {
                (None, now.plus_ms(self.settings.retry_ms))
            }
        };
        let end = if now >= task.deadline() { Some(TaskEvent::TimeOut) } else { end };
        match end {
            None => match self.send(&task, resume_at.since_ms(now)).await {
                Ok(()) => Disposition::Done,
                Err(_) => self.later(),
            },
            Some(event) => match self.apply_surely(key, &event).await {
                Ok(_) | Err(ApplyError::NotFound) => Disposition::Done,
                // The record moved on while this looked at it: look again.
                Err(ApplyError::Refused { current, .. }) if current.has_ended() => Disposition::Done,
                Err(ApplyError::Refused { .. } | ApplyError::Store(_)) => self.later(),
            },
        }
    }
}
