//! Whether anything has happened in the database since it was read as a whole.

use crate::limits::LOOKS_SPARED_MAX;

/// Spares an idle database the scan of all its tasks, if the last scan found none without a message.
#[derive(Default)]
pub(crate) struct Quiet {
    /// How many rows had been changed before that look, and how many messages in memory were gone.
    since: Option<(u64, u64)>,
    looks_left: u32,
}

impl Quiet {
    /// The state after a scan of all unfinished tasks. `happened` are the counts at its beginning. `none` if it found
    /// none without a message.
    pub(crate) fn after_scan(happened: (u64, u64), none: bool) -> Self {
        Self { since: none.then_some(happened), looks_left: LOOKS_SPARED_MAX }
    }

    /// Whether there is still no task without a message, if so much has happened by now.
    pub(crate) fn is_known(&mut self, happened: (u64, u64)) -> bool {
        let is_known = self.since == Some(happened) && self.looks_left > 0;
        self.looks_left = self.looks_left.saturating_sub(1);
        is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_spared_while_nothing_changes_and_not_for_ever() {
        let mut quiet = Quiet { since: Some((7, 1)), looks_left: 3 };
        assert!(!quiet.is_known((8, 1)) && !quiet.is_known((7, 2)));
        assert!(quiet.is_known((7, 1)));
        assert!(!quiet.is_known((7, 1)));
        assert!(!Quiet::default().is_known((0, 0)));
    }
}
