//! The promises that the checkers watch over.

/// A promise, and the checker that watches over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// An accepted call is on record until it expires.
    AcceptedIsKept,
    /// Nothing changes a task that has ended.
    EndsOnce,
    /// A task that somebody asks for ends within a bound.
    EndsInTime,
    /// Work goes on without polls where nothing was lost between record and message.
    GoesOnWithoutPolls,
    /// Only the highest attempt writes, and there is one worker for an attempt.
    StaleCannotWrite,
    /// A worker that lives keeps its lease.
    LivingKeepsLease,
    /// Legs that die in a row are counted, and their number is bounded.
    TriesAreCounted,
    /// A step is recorded once, and not run again after that.
    StepsAreRecordedOnce,
    /// The tool of a task that has ended is stopped within a heartbeat.
    CancelStopsTheTool,
    /// Work stops at the deadline.
    DeadlineStopsTheTool,
    /// No poller sees a task go back.
    ReadingIsMonotone,
    /// Owners see only their own tasks.
    OwnersSeeTheirOwn,
    /// The same key is the same task.
    SameKeySameTask,
    /// What has expired is not found, and not a moment earlier.
    ExpiredIsNotFound,
    /// An owner has at most as many unfinished tasks as allowed, and is refused only then.
    QuotaIsRight,
    /// What a client is told is on record.
    RepliesMatchTheRecord,
    /// Arguments, results and steps come back as they went in, whatever their size.
    NothingIsCut,
    /// The first answer to a question is the answer, and a tool gets what was asked for.
    AnswersAreFinal,
    /// The message is sent after the record was written.
    RecordBeforeMessage,
    /// Polls send a message again at most once per bound.
    ResendsAreBounded,
    /// Variables are what the tool set last.
    VariablesAreKept,
    /// Progress of one attempt does not go back.
    ProgressOnlyGrows,
    /// A sleep lasts as long as it was told to.
    SleepsAreSlept,
    /// When all has ended, nothing happens any more.
    ComesToRest,
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
