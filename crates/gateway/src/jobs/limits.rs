//! Limits for the cost of an external job, and for the time that requests about it may take.

use std::time::Duration;

/// The first and the longest pause between two polls, unless the job or the configuration sets others. Between them
/// each pause is half of the time that has passed, so that short jobs end soon and long ones cost little.
pub(crate) const POLL_FIRST: Duration = Duration::from_secs(1);
pub(crate) const POLL_LONGEST: Duration = Duration::from_secs(15 * 60);

/// The first and the longest pause before a start is tried again. Between them each pause is half of the time that has
/// passed.
pub(crate) const START_AGAIN: Duration = Duration::from_secs(5);
pub(crate) const START_AGAIN_LONGEST: Duration = Duration::from_secs(5 * 60);

/// How often a start is tried that a system refuses for now, and that must be recorded before each try. This takes more
/// than seven hours.
pub(crate) const STARTS_MAX: u32 = 100;

/// How long a system may take to show a job that it has started. AWS promises no time; for tasks of ECS it recommends
/// to poll for five minutes.
pub(crate) const SEEN_WITHIN_MS: u64 = 5 * 60 * 1_000;

/// The longest pause between two searches for a job that was not found.
pub(crate) const FIND_LONGEST: Duration = Duration::from_secs(60);

/// How long the driver tries to stop a job that cannot be polled. Cleanup after a task takes as long: see
/// `longhaul-core`.
pub(crate) const STOPPED_WITHIN_MS: u64 = 6 * 60 * 60 * 1_000;

/// How often one job may ask.
pub(crate) const ASKED_MAX: u32 = 256;

/// The largest output of a job that becomes a result. It is in the result twice, as structured content and as text, and
/// results have 4.5 MiB at most.
pub(crate) const OUTPUT_BYTES_MAX: usize = 2 << 20;

/// The largest answer that is read: an output within the limit, and what is around it.
pub(crate) const ANSWER_BYTES_MAX: usize = 4 << 20;

/// How long a connection may take to be made, and how long a request may take with its answer.
pub(crate) const CONNECT: Duration = Duration::from_secs(5);
pub(crate) const REQUEST: Duration = Duration::from_secs(20);

/// How many pages of a list are read.
pub(crate) const PAGES_MAX: u32 = 20;

/// How often an idempotent request to AWS is made.
pub(crate) const TRIES_MAX: u32 = 3;

/// How long to wait before the second try; the third waits twice as long.
pub(crate) const TRY_AGAIN_MS: u64 = 200;

/// How many characters of another system's error Longhaul puts into its own.
pub(crate) const ERROR_CHARS_MAX: usize = 2_000;
