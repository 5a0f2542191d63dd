//! Mailboxes: how one request hands a text to another one, whichever instances they reach.

use longhaul_core::ports::Left;
use longhaul_core::{MailboxId, OwnerId, Timestamp, limits};

use crate::changes::Subject;
use crate::{CollectError, Engine, LeaveError};

impl Engine {
    /// Leaves `text` in one of the owner's mailboxes until `expires_at`. The first text stays, and later
    /// callers get it. If the store's first answer was lost, that may be the caller's own text.
    ///
    /// # Errors
    /// [`LeaveError`]
    pub async fn leave(
        &self,
        owner: &OwnerId,
        mailbox: &MailboxId,
        text: &str,
        expires_at: Timestamp,
    ) -> Result<Left, LeaveError> {
        if text.len() > limits::ENTRY_BYTES_MAX {
            return Err(LeaveError::TooLarge { bytes: text.len(), bytes_max: limits::ENTRY_BYTES_MAX });
        }
        let left = self.with_retry(|| self.store().leave(owner, mailbox, text, expires_at, self.now())).await;
        self.changes.tell(Subject::Mailbox(*owner, *mailbox));
        left.map_err(self.unavailable(LeaveError::Unavailable))
    }

    /// The text in one of the owner's mailboxes; `None` if none was left or it has expired.
    ///
    /// # Errors
    /// [`CollectError`]
    pub async fn collect(&self, owner: &OwnerId, mailbox: &MailboxId) -> Result<Option<String>, CollectError> {
        self.with_retry(|| self.store().collect(owner, mailbox, self.now()))
            .await
            .map_err(self.unavailable(CollectError))
    }
}
