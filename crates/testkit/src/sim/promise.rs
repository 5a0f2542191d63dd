//! The promises that the checkers verify.

/// A promise, and the checker that verifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// An accepted call is on record until it expires.
    AcceptedStaysOnRecord,
    /// Nothing changes a task that has ended.
    EndsOnce,
    /// A task whose client waits for it ends within a bound.
    EndsInTime,
    /// Work continues without polls if nothing was lost between record and message.
    ContinuesWithoutPolls,
    /// Only the highest attempt writes, and there is one worker for an attempt.
    StaleCannotWrite,
    /// A worker that is alive keeps its lease.
    LiveWorkerKeepsLease,
    /// Consecutive legs that die are counted, and their number is bounded.
    FailuresAreCounted,
    /// A step is recorded once, and not run again after that.
    StepsAreRecordedOnce,
    /// The tool of a task that has ended is stopped within a heartbeat.
    CancelStopsTheTool,
    /// Work stops at the deadline.
    DeadlineStopsTheTool,
    /// No poller sees a task go back to an earlier state.
    ReadsAreMonotonic,
    /// Owners see only their own tasks.
    OwnersSeeOnlyTheirOwn,
    /// The same idempotency key gives the same task.
    SameKeySameTask,
    /// What has expired is not found, and not a moment earlier.
    ExpiredIsNotFound,
    /// An owner runs at most as many legs at a time as allowed, if that is limited.
    LegsAreLimited,
    /// An owner has at most as many unfinished tasks as allowed, and is refused only then.
    QuotaIsRight,
    /// What a client is told agrees with the record.
    RepliesMatchTheRecord,
    /// Arguments, results and steps are read back as they were written, whatever their size.
    NothingIsTruncated,
    /// The first answer to a question counts, and the tool gets it.
    AnswersAreFinal,
    /// The message is sent after the record was written.
    RecordBeforeMessage,
    /// Polls send a message again at most once per bound.
    ResendsAreBounded,
    /// Variables are what the tool set last.
    VariablesAreKept,
    /// Progress of one attempt does not go back.
    ProgressOnlyGrows,
    /// A sleep lasts as long as the tool asked for.
    SleepsLastAsAsked,
    /// A tool that looks until something is there pauses between two looks for as long as it asked for.
    LooksKeepTheirInterval,
    /// Of all looks, only the beginning and what was found are recorded.
    LooksAreNotRecorded,
    /// A task with cleaning that its tool did not bring to its end is cleaned at least once, never while its tool runs,
    /// and no other task ever is.
    CleansUp,
    /// The record says of each of the latest legs when it began, when it ended, and how.
    LegsAreNoted,
    /// When all tasks have ended, nothing more happens.
    BecomesIdle,
    /// A store does what the model does.
    EqualsTheModel,
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub promise: Promise,
    /// When, in milliseconds since the world began.
    pub at_ms: u64,
    /// What was seen.
    pub what: String,
}
