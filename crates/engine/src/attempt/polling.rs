//! Polling at something again and again, with nothing on record but what was found.

use std::future::Future;

use longhaul_core::{EntryKind, Timestamp};

use crate::{Attempt, Every, IsRecorded};

impl Attempt {
    /// Polls until `poll` finds something: records the JSON text that it found as step `name`, and returns the recorded
    /// text in this and every later attempt. A pause between two polls ends the attempt if it is long, as a long sleep
    /// does. Every attempt that comes here polls at once.
    ///
    /// Polls that find nothing are not recorded. A growing interval costs one timer, which says when it began.
    ///
    /// # Errors
    /// Those of `poll`, which are not recorded. If the store does not answer, the attempt ends instead.
    pub async fn poll_until<E, F, Fut>(&self, name: &str, every: Every, mut poll: F) -> Result<String, E>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<Option<String>, E>>,
    {
        if let Some(text) = self.replayed(name).await {
            return Ok(text);
        }
        let since = self.polling_since(name, every).await;
        loop {
            self.yield_near_the_end().await;
            let polling = self.0.suspend.step_running();
            let began_at = self.0.engine.now();
            if let Some(text) = self.run_step(name, &mut poll).await? {
                return Ok(self.record_step(name, text, began_at, polling).await);
            }
            let now = self.0.engine.now();
            self.wait_until(now.plus_ms(every.pause_ms(now.since_ms(since))), polling).await;
            // To wait here is as good as to suspend the task, which sets the count of failures to 0.
            self.note_advance();
        }
    }

    /// When the first poll was, for an interval that depends on it.
    async fn polling_since(&self, name: &str, every: Every) -> Timestamp {
        let now = self.0.engine.now();
        if !every.is_growing() {
            return now;
        }
        let _recording = self.0.suspend.step_running();
        self.recorded_moment(&format!("since {name}"), now).await
    }

    /// Notes that this attempt got further than the ones before it.
    pub(super) fn note_advance(&self) {
        if self.0.task.failures > 0 {
            // The count of failures is reset at once, in case this attempt dies before its next heartbeat.
            self.0.pending.note_urgent_advance();
        } else {
            self.0.pending.note_advance();
        }
    }

    /// The recorded text of step `name`, if there is one.
    pub(super) async fn replayed(&self, name: &str) -> Option<String> {
        self.check_name(EntryKind::Step, name).await;
        let text = self.recorded(EntryKind::Step, name).await?;
        self.came_to(name, IsRecorded::Yes);
        self.name_once(EntryKind::Step, name).await;
        Some(text)
    }
}
