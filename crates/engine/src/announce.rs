//! Passing announcements on: each becomes one task for each endpoint that is told of it, and then leaves the outbox.

use longhaul_core::Announcement;
use longhaul_core::ports::{Outbox, StoreError};

use crate::{AcceptError, Engine, Notice};

/// How many announcements are passed on at a time.
const ANNOUNCEMENTS_MAX: usize = 32;

/// Who is told of what.
pub trait Notices: Send + Sync {
    /// What is told to whom of this announcement: one notice for each endpoint.
    fn of(&self, announcement: &Announcement) -> Vec<Notice>;
}

/// Why announcements were not passed on. They stay in the outbox.
#[derive(Debug, thiserror::Error)]
pub enum AnnounceError {
    /// A task for an endpoint could not be created.
    #[error("the task that tells an endpoint could not be created")]
    Accept(#[from] AcceptError),
    /// The outbox did not answer.
    #[error("the outbox did not answer")]
    Outbox(#[from] StoreError),
}

impl Engine {
    /// Passes on what is in the outbox; waits up to `wait_ms` for the first announcement. Returns how many it passed
    /// on. Whoever dies in the middle leaves the announcement for the next call, which finds the tasks that exist.
    ///
    /// # Errors
    /// [`AnnounceError`]
    pub async fn announce(
        &self,
        outbox: &dyn Outbox,
        notices: &dyn Notices,
        wait_ms: u64,
    ) -> Result<usize, AnnounceError> {
        let announcements = outbox.announcements(ANNOUNCEMENTS_MAX, wait_ms).await?;
        for announcement in &announcements {
            self.tell(announcement, notices).await?;
        }
        self.with_retry(|| outbox.remove(&announcements)).await?;
        Ok(announcements.len())
    }

    /// Creates the tasks that tell the endpoints of `announcement`, those that exist already excepted.
    ///
    /// # Errors
    /// [`AcceptError`]
    pub async fn tell(&self, announcement: &Announcement, notices: &dyn Notices) -> Result<(), AcceptError> {
        for notice in notices.of(announcement) {
            self.accept_notice(announcement, notice).await?;
        }
        Ok(())
    }
}
