//! The limits of a local server, but for those that operators set and those of its connections, which are in
//! `connections/allowed.rs`.

use std::time::Duration;

use longhaul_core::limits;

/// The longest message of a client on standard input, in bytes.
pub(crate) const LINE_BYTES_MAX: u64 = 16 << 20;

/// How often the file of tokens is read. It is compared by its content: two changes may have the same time and size.
pub(crate) const TOKEN_FILE_READ_EVERY_MS: u64 = 1_000;

/// The longest secret: as on AWS.
pub(crate) const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// How long an answer about readiness is given again, so that those who ask often cost nothing.
pub(crate) const HEALTH_REMEMBERED_MS: u64 = 1_000;

/// How long store and queue may take to answer.
pub(crate) const PROBE_WAIT: Duration = Duration::from_secs(3);

/// How often expired tasks are deleted.
pub(crate) const PURGE_EVERY_MS: u64 = 10_000;

/// Expired tasks that are deleted in one transaction.
pub(crate) const PURGE_MAX: u32 = 500;

/// How long the last writes of attempts may take after their time has passed.
pub(crate) const LAST_WRITES: Duration = Duration::from_secs(15);

/// How long attempts may continue after a stop if processes share the store. Orchestrators wait longer, by some time
/// for the last writes.
pub(crate) const DRAIN_MS_SHARED: u64 = 20_000;

/// How long to wait after the queue did not answer.
pub(crate) const RECEIVE_BACKOFF_MS: u64 = 500;

/// How often to look for dead letters.
pub(crate) const DEAD_LETTERS_EVERY_MS: u64 = 5_000;

/// How many dead letters to take at a time.
pub(crate) const DEAD_LETTERS_MAX: usize = 16;

/// The longest pause between two looks: the clock may be set, and the machine may have been asleep.
pub(crate) const SCHEDULES_PAUSE_MS_MAX: u64 = 30_000;

/// The pause after a failed check.
pub(crate) const SCHEDULES_RETRY_MS: u64 = 5_000;

/// How long one read of the outbox waits for a notification.
pub(crate) const OUTBOX_WAIT_MS: u64 = 60_000;

/// How long to wait after notifications could not be passed on.
pub(crate) const OUTBOX_BACKOFF_MS: u64 = 1_000;

/// Bytes of a request's head.
pub(crate) const HEAD_BYTES_MAX: u32 = 64 * 1024;

/// Requests that one HTTP/2 connection may have at a time.
pub(crate) const STREAMS_MAX: u32 = 128;

/// Requests that one HTTP/2 client may reset before they are handled. A client that resets more is cut off.
pub(crate) const RESETS_MAX: usize = 20;

/// How long open answers may take after the server was asked to stop.
pub(crate) const DRAIN_WAIT: Duration = Duration::from_secs(5);

/// How long an idle connection may take to end after the message that ends it.
pub(crate) const GOODBYE_WAIT: Duration = Duration::from_secs(1);

/// Tools with time series of their own in the metrics. All further tools share one. Also the most servers behind a
/// gateway.
pub(crate) const METRICS_LABELS_MAX: usize = 100;

/// How long to wait after a connection could not be accepted: doubled each time, up to the second value.
pub(crate) const ACCEPT_BACKOFF_MS: (u64, u64) = (10, 1_000);

/// How long a new connection waits for the end of the one that is closed in its favour.
pub(crate) const ROOM_WAIT: Duration = Duration::from_secs(1);

/// How long the rest of a body is read that is too large: its sender looks for the refusal only after it has sent all.
pub(crate) const DISCARD: Duration = Duration::from_secs(5);

// What is related stays so.
const _: () = {
    assert!(ACCEPT_BACKOFF_MS.0 < ACCEPT_BACKOFF_MS.1);
    // A probe takes no longer than an orchestrator waits for its answer; an answer is not remembered for longer.
    assert!(HEALTH_REMEMBERED_MS as u128 <= PROBE_WAIT.as_millis());
    // A connection that says goodbye is part of the drain.
    assert!(GOODBYE_WAIT.as_millis() <= DRAIN_WAIT.as_millis());
    assert!(SCHEDULES_RETRY_MS <= SCHEDULES_PAUSE_MS_MAX);
    // Schedules and stuck tasks are looked at more often than what a task may miss by.
    assert!(SCHEDULES_PAUSE_MS_MAX < limits::EXPIRES_SOON_MS && OUTBOX_WAIT_MS < limits::EXPIRES_SOON_MS);
};
