//! Errors of stores.

use std::error::Error;

use crate::{Refusal, Task};

/// Why a store did not do what it was asked to do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store did not answer, or not reliably: a retry may succeed. The write may have been applied.
    #[error("the store is not available")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
    /// The storage below is gone: a retry fails until an operator has acted.
    #[error("the store is gone")]
    Lost(#[source] Box<dyn Error + Send + Sync>),
    /// The stored data cannot be read, now or later: a retry fails in the same way. A store does not answer so for the
    /// record of a task, in whose place it returns [`Task::unreadable`].
    #[error("a stored record cannot be read")]
    Corrupt(#[source] Box<dyn Error + Send + Sync>),
    /// A newer version of Longhaul wrote what is stored. This one leaves it as it is; an instance of the newer version
    /// can answer.
    #[error("a newer version of Longhaul wrote this record")]
    NewerVersion(#[source] Box<dyn Error + Send + Sync>),
}

impl StoreError {
    /// Whether the same call may succeed later, or on another instance.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::NewerVersion(_) => true,
            Self::Corrupt(_) | Self::Lost(_) => false,
        }
    }
}

/// Why an event was not applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The event does not apply to the task in its present state. Nothing was written.
    #[error("{why}")]
    Refused {
        /// The task as it is.
        current: Box<Task>,
        /// The reason.
        why: Refusal,
    },
    /// The task does not exist, or it is past its time to live. Nothing was written.
    #[error("the task does not exist")]
    NotFound,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a task was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The idempotency key belongs to a task that another request created. Nothing was written.
    #[error("the idempotency key was used for another request")]
    KeyReused,
    /// The owner already has the highest allowed number of unfinished tasks. Nothing was written.
    #[error("there are already {open_max} unfinished tasks")]
    TooManyOpen {
        /// The limit.
        open_max: u32,
    },
    /// The owner's arguments and results would have more bytes than allowed. Nothing was written.
    #[error("at most {stored_max} bytes of arguments and results are stored for one owner")]
    TooMuchStored {
        /// The limit.
        stored_max: u64,
    },
    /// The owner has created as many tasks as it may in a minute. Nothing was written.
    #[error("at most {new_max} tasks are created for one owner in a minute")]
    TooManyNew {
        /// The limit.
        new_max: u32,
        /// After this time there is room again.
        retry_ms: u64,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
