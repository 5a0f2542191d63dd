//! The errors of use cases. The protocol versions decide their form on the wire.

use longhaul_core::limits;
use longhaul_core::ports::StoreError;

/// Why a call was not accepted. Nothing is recorded then, except after [`AcceptError::Unavailable`], when it is unknown
/// whether the call was recorded: a retry with the same idempotency key finds out.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The request is too large.
    #[error("the request has {0} bytes; at most {max} are allowed", max = limits::REQUEST_BYTES_MAX)]
    TooLarge(usize),
    /// The idempotency key is empty or too long.
    #[error("an idempotency key must have 1 to {} bytes", limits::IDEMPOTENCY_KEY_BYTES_MAX)]
    InvalidKey,
    /// The idempotency key was used for another request before.
    #[error("this idempotency key was used for another request; use a new key for a new request")]
    KeyReused,
    /// The owner has too many unfinished tasks.
    #[error("you have {open_max} unfinished tasks, which is the limit; wait for some to end, or cancel them")]
    TooManyOpen {
        /// The limit.
        open_max: u32,
    },
    /// The arguments and results of the owner's tasks have too many bytes.
    #[error(
        "with this call, your tasks' arguments and results would have more than {stored_max} bytes, which is the \
         limit; \
         wait until older tasks expire, or ask for a shorter time to live"
    )]
    TooMuchStored {
        /// The limit.
        stored_max: u64,
    },
    /// The owner has created as many tasks as it may in a minute.
    #[error(
        "you have created {new_max} tasks within a minute, which is the limit; call again in {} s, with the same \
         idempotency key if the call has one",
        retry_ms.div_ceil(1_000)
    )]
    TooManyNew {
        /// The limit.
        new_max: u32,
        /// After this time there is room again.
        retry_ms: u64,
    },
    /// The call asks to start too late.
    #[error("a call may ask to start at most {} days ahead", limits::START_AHEAD_MS_MAX / 86_400_000)]
    TooFarAhead,
    /// The store failed.
    #[error("the call could not be recorded")]
    Unavailable(#[source] StoreError),
}

impl AcceptError {
    /// Whether the same call may be accepted later.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        match self {
            Self::TooManyOpen { .. } | Self::TooMuchStored { .. } | Self::TooManyNew { .. } => true,
            Self::Unavailable(error) => error.may_pass(),
            Self::TooLarge(_) | Self::InvalidKey | Self::KeyReused | Self::TooFarAhead => false,
        }
    }
}

/// Why a poll or a cancel request could not be answered.
#[derive(Debug, thiserror::Error)]
pub enum PollError {
    /// The task does not exist, it is not the caller's, or it has expired: the same answer to all three.
    #[error("task not found")]
    NotFound,
    /// The store failed.
    #[error("the task could not be read")]
    Unavailable(#[source] StoreError),
}

/// Why answers were not accepted.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// The caller does not have this task.
    #[error("task not found")]
    NotFound,
    /// An answer is too large.
    #[error("the answer to `{key}` has {bytes} bytes; at most {} are allowed", limits::ENTRY_BYTES_MAX)]
    TooLarge {
        /// The key of the answer.
        key: String,
        /// Its size.
        bytes: usize,
    },
    /// The store failed; the same answers may be sent again.
    #[error("the answers could not be recorded")]
    Unavailable(#[source] StoreError),
}

/// Why a signal was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum SignalError {
    /// The task does not exist, or it has expired.
    #[error("task not found")]
    NotFound,
    /// The task waits for nothing any more.
    #[error("the task has ended")]
    Ended,
    /// Its name is empty or too long.
    #[error("the name of a signal must have 1 to {} bytes", limits::NAME_BYTES_MAX)]
    Name,
    /// Its text is empty, which no JSON is.
    #[error("a signal must be JSON")]
    Empty,
    /// Its text is too large.
    #[error("the signal has {0} bytes; at most {max} are allowed", max = limits::ENTRY_BYTES_MAX)]
    TooLarge(usize),
    /// The store failed; the same signal may be recorded again.
    #[error("the signal could not be recorded")]
    Unavailable(#[source] StoreError),
}

/// Why a stored text could not be read back.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A part is missing.
    #[error("a part of the stored text is missing")]
    Missing,
    /// It is damaged.
    #[error("the stored text cannot be read")]
    Unreadable(#[source] StoreError),
    /// The store failed.
    #[error("the stored text could not be read")]
    Unavailable(#[source] StoreError),
}

/// Why a text was not left in a mailbox.
#[derive(Debug, thiserror::Error)]
pub enum LeaveError {
    /// The text is too large.
    #[error("the text has {0} bytes; at most {max} are allowed", max = limits::ENTRY_BYTES_MAX)]
    TooLarge(usize),
    /// The store failed; the same text may be left again.
    #[error("the text could not be recorded")]
    Unavailable(#[source] StoreError),
}

/// A mailbox could not be read, because the store failed.
#[derive(Debug, thiserror::Error)]
#[error("the mailbox could not be read")]
pub struct CollectError(#[source] pub StoreError);
