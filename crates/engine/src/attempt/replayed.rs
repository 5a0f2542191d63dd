//! How far a tool has come in its journal, and when that was: the same in every attempt, and recorded with the entries.

use std::sync::{MutexGuard, PoisonError};

use longhaul_core::{EntryKind, Timestamp};

use super::place::{Cursor, Place, SINCE};
use crate::Attempt;

impl Attempt {
    /// The time that the tool's run has reached: that of its latest journal entry, or when the task was due if there is
    /// none. A replay sees the same times, and nothing is written for them.
    #[must_use]
    pub fn recorded_now(&self) -> Timestamp {
        let due_at = self.0.task.due_at();
        self.place().cursor().at.map_or(due_at, |at| at.max(due_at))
    }

    /// A name that the tool gets at this call, in every attempt, and at no other call: for numbers that look random.
    #[must_use]
    pub fn next_draw(&self) -> String {
        let mut place = self.place();
        let cursor = place.cursor();
        cursor.draws = cursor.draws.saturating_add(1);
        format!("{}\0{}", cursor.entry, cursor.draws)
    }

    /// The recorded text of step `name`, before the tool comes to it.
    pub async fn peek_at_step(&self, name: &str) -> Option<String> {
        if !self.place().shows(EntryKind::Step, name) {
            return None;
        }
        let (payload, _at) = self.lock_journal().get(&(EntryKind::Step, name.to_owned())).cloned()?;
        let _reading = self.reading();
        Some(self.load_or_abort(&payload).await)
    }

    /// Records `text` as step `name`, without any work, and returns what is recorded.
    pub async fn choose(&self, name: &str, text: String) -> String {
        if let Some(text) = self.replayed(name).await {
            return text;
        }
        let running = self.step_running();
        self.record_step(name, text, self.begins(), running).await
    }

    /// Notes that the tool has come to an entry, which was recorded at `at`. Entries of older versions have no time.
    pub(super) fn come_to_entry(&self, kind: EntryKind, name: &str, at: Option<Timestamp>) {
        let mut place = self.place();
        place.visit(kind, name);
        let cursor = place.cursor();
        *cursor = Cursor { entry: format!("{}#{name}", kind.as_str()), at: cursor.at.max(at), draws: 0 };
    }

    /// Notes that the tool has waited until `at`.
    pub(super) fn come_to_moment(&self, at: Timestamp) {
        let mut place = self.place();
        let cursor = place.cursor();
        cursor.at = cursor.at.max(Some(at));
    }

    /// Whether a step, a sleep or an answer is recorded that the tool has not come to yet. Then an earlier attempt has
    /// been at this place.
    #[must_use]
    pub fn is_replaying(&self) -> bool {
        let place = self.place();
        let is_on_the_way = |(kind, name): &(EntryKind, String)| match kind {
            EntryKind::Step | EntryKind::Answer => true,
            EntryKind::Timer => !name.starts_with(SINCE),
            EntryKind::Signal | EntryKind::Token | EntryKind::Round | EntryKind::Try => false,
        };
        self.lock_journal().keys().any(|entry| is_on_the_way(entry) && !place.visited.contains(entry))
    }

    pub(super) fn place(&self) -> MutexGuard<'_, Place> {
        self.0.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
