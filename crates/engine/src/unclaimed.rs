//! Seeing to it that a task which should have a message has one: for those who hear of each record that waits for a
//! worker, and whom nobody tells whether the message was sent.

use longhaul_core::ports::{ApplyError, QueueError, StoreError};
use longhaul_core::{State, Task, TaskEvent, TaskKey, Timestamp};

use crate::Engine;

/// How often others may have sent a message between a read and a write.
const TRIES_MAX: u32 = 4;

/// What became of the message of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ensured {
    /// None is needed: a worker took the task, it has ended, or it is gone.
    NotNeeded,
    /// One was sent, which is visible after this time in milliseconds.
    Sent {
        /// How long it is hidden.
        delay_ms: u64,
    },
}

/// Why it is not known that a task has its message. The same call may be made again.
#[derive(Debug, thiserror::Error)]
pub enum EnsureError {
    /// The store did not answer.
    #[error("the store did not answer")]
    Store(#[from] StoreError),
    /// The message was not sent.
    #[error("the message was not sent")]
    Queue(#[from] QueueError),
    /// Others sent messages all the time, or could not.
    #[error("others sent messages for the task all the time")]
    Contended,
}

impl Engine {
    /// Sends the message of a task once more if no worker has taken it: one that waits for a worker, or is to be
    /// cleaned. Once this returns, the task does not depend on anybody who sent, or should have sent, its message
    /// before this.
    ///
    /// Like a poll, it sends one message per [`resend_ms`](crate::Settings::resend_ms) together with all others that
    /// resend; but it does not come back later. So if it is too early, it sends now what others would send then, hidden
    /// until that moment.
    ///
    /// # Errors
    /// [`EnsureError`]
    pub async fn ensure_message(&self, key: &TaskKey) -> Result<Ensured, EnsureError> {
        let Some(mut task) = self.with_retry(|| self.store().get(key, self.now())).await? else {
            return Ok(Ensured::NotNeeded);
        };
        for _ in 0..TRIES_MAX {
            let Some(visible_at) = self.next_message_at(&task) else { return Ok(Ensured::NotNeeded) };
            let not_since = visible_at.minus_ms(self.settings.resend_after_ms(task.resends));
            // The write bears the moment of the message, from which others count.
            let resent = self.store().apply(key, &TaskEvent::Resend { not_since }, visible_at).await;
            match resent {
                Ok(resent) => {
                    let delay_ms = visible_at.since_ms(self.now());
                    tracing::info!(task_id = %key.id, delay_ms, "nobody took the task, and its message is sent again");
                    self.observer().recovered(&resent);
                    self.send(&resent, delay_ms).await?;
                    return Ok(Ensured::Sent { delay_ms });
                }
                // Whoever sent a message meanwhile may have died before that.
                Err(ApplyError::Refused { current, .. }) => task = *current,
                Err(ApplyError::NotFound) => return Ok(Ensured::NotNeeded),
                Err(ApplyError::Store(error)) => return Err(error.into()),
            }
        }
        Err(EnsureError::Contended)
    }

    /// When the next message of the task may be visible, if no worker has taken it; now, if that is over.
    fn next_message_at(&self, task: &Task) -> Option<Timestamp> {
        let wanted_at = match &task.state {
            _ if task.needs_cleanup() => self.cleanup_wanted_at(task),
            State::Queued => task.sent_at,
            // Whoever brought it there has a message, which it deletes only when it has sent the next one.
            State::Running { .. } | State::Sleeping { .. } | State::InputRequired { .. } => return None,
            State::Completed { .. } | State::Failed { .. } | State::Cancelled => return None,
        };
        Some(wanted_at.plus_ms(self.settings.resend_after_ms(task.resends)).max(self.now()))
    }
}
