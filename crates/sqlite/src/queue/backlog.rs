//! The messages that wait for a worker: how many there are, and since when.

/// The messages of a [`Database`](crate::Database) that are visible and not delivered. A message with a delay, such as
/// the timer of a waiting task, is not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// How many there are. Messages in the file are counted up to a hundred thousand.
    pub messages: usize,
    /// How long the oldest of them has been visible; 0 if there are none.
    pub oldest_age_ms: u64,
}

impl Backlog {
    /// The messages of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            messages: self.messages.saturating_add(other.messages),
            oldest_age_ms: self.oldest_age_ms.max(other.oldest_age_ms),
        }
    }
}
