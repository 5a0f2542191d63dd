//! Looking at something again and again, with nothing on record but what was found.

use std::future::Future;

use longhaul_core::{EntryKind, Timestamp};

use crate::{Every, IsRecorded, Leg};

impl Leg {
    /// Looks until `look` finds something: records the JSON text that it found as step `name`, and returns the recorded
    /// text in this and every later leg. A pause between two looks ends the leg if it is long, as a long sleep does.
    /// Every leg that comes here looks at once.
    ///
    /// Looks that find nothing are not recorded. A growing interval costs one timer, which says when it began.
    ///
    /// # Errors
    /// Those of `look`, which are not recorded. If the store does not answer, the leg ends instead.
    pub async fn poll_until<E, F, Fut>(&self, name: &str, every: Every, mut look: F) -> Result<String, E>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<Option<String>, E>>,
    {
        if let Some(text) = self.replayed(name).await {
            return Ok(text);
        }
        let since = self.looking_since(name, every).await;
        loop {
            self.yield_near_the_end().await;
            let looking = self.0.suspend.step_running();
            let began_at = self.0.engine.now();
            if let Some(text) = self.run_step(name, &mut look).await? {
                return Ok(self.record_step(name, text, began_at, looking).await);
            }
            let now = self.0.engine.now();
            self.wait_until(now.plus_ms(every.pause_ms(now.since_ms(since))), looking).await;
            // To wait here is as good as to suspend the task, which sets the count of failures to 0.
            self.note_advance();
        }
    }

    /// When the first look was, for an interval that depends on it.
    async fn looking_since(&self, name: &str, every: Every) -> Timestamp {
        let now = self.0.engine.now();
        if !every.is_growing() {
            return now;
        }
        let _recording = self.0.suspend.step_running();
        self.recorded_moment(&format!("since {name}"), now).await
    }

    /// Notes that this leg got further than the ones before it.
    pub(super) fn note_advance(&self) {
        if self.0.task.failures > 0 {
            // The count of failures is reset at once, in case this leg dies before its next heartbeat.
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
