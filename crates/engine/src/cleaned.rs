//! How a try to clean up ended. It stands below the attempt, which runs compensations, and the tool runner.

use longhaul_core::Timestamp;

/// How a try to clean up ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cleaned {
    /// All is clean.
    Done,
    /// It failed, and is to be tried again, but not often: it may always fail.
    Failed {
        /// The known cause, for the log.
        reason: String,
    },
    /// The author's code returned an error, and is to be tried again for hours: what it cleans may not be reachable.
    Unfinished {
        /// The known cause, for the log.
        reason: String,
    },
    /// A compensation is to be tried again at this time, which is recorded. This does not count as a try.
    Waits {
        /// The time of the next try.
        until: Timestamp,
    },
    /// All that could be done is done. Some compensations have failed for good, and are given up.
    GivenUp {
        /// Which ones, and why, for the log.
        reason: String,
    },
    /// This worker does not have the tool, or no cleanup for it: nothing was run, and another worker may have it.
    NoSuchTool,
    /// This worker has no memory for the arguments of the call. Nothing was run, and it may have some soon.
    NoMemory,
}
