//! The limits of the use cases themselves. The limits of tasks are in `longhaul_core::limits`. The limits that
//! operators set are in [`Settings`](crate::Settings).

use longhaul_core::limits;

/// The most subjects of all listeners of one process. A later listener is not woken, and waits for its next poll.
pub(crate) const LISTENED_MAX: usize = 65_536;

/// The longest wait before memory for an attempt's arguments is looked for again. Each try costs two writes.
pub(crate) const MEMORY_WAIT_MS: u64 = 5_000;

/// How long the replay of a tool may take that registers its compensations.
pub(crate) const REPLAY_MS_MAX: u64 = 10_000;

/// How long a task waits at first before it looks for a permit of its tool again. The longer it has waited, the longer
/// it waits.
pub(crate) const FLOW_WAIT_MS: u64 = 1_000;

/// The longest of these waits.
pub(crate) const FLOW_WAIT_MS_MAX: u64 = 30_000;

/// How many notifications are passed on at a time.
pub(crate) const NOTIFICATIONS_MAX: usize = 32;

/// After so many failures the store counts as unavailable.
pub(crate) const PUBLISH_FAILURES_MAX: usize = 4;

/// Unfinished tasks that are read at a time.
pub(crate) const UNFINISHED_PAGE_MAX: usize = 256;

/// How many tasks one recovery scan reads.
pub(crate) const SWEPT_MAX: usize = 1 << 20;

/// How often others may have sent a message between a read and a write.
pub(crate) const ENSURE_TRIES_MAX: u32 = 4;

// What is related stays so.
const _: () = {
    assert!(PUBLISH_FAILURES_MAX < NOTIFICATIONS_MAX);
    assert!(UNFINISHED_PAGE_MAX <= SWEPT_MAX);
    // A task that waits for memory is tried again long before it may expire.
    assert!(MEMORY_WAIT_MS < limits::EXPIRES_SOON_MS);
};
