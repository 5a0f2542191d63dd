//! The promises that the checkers verify.

/// One line or more for each promise: what it says, and its name.
macro_rules! promises {
    ($($(#[doc = $what:literal])+ $promise:ident,)+) => {
        /// A promise, and the checker that verifies it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Promise {
            $($(#[doc = $what])+ $promise,)+
        }

        impl Promise {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$promise,)+];
        }
    };
}

promises! {
    /// An accepted call is recorded until it expires.
    AcceptedStaysOnRecord,
    /// Nothing changes a task that has ended.
    EndsOnce,
    /// A task whose client waits for it ends within a bound.
    EndsInTime,
    /// Work continues without polls if nothing was lost between record and message.
    ContinuesWithoutPolls,
    /// No task needs a client that polls it, even if messages are lost, while the server recovers unfinished tasks.
    /// None expires unfinished while the server is up.
    EndsWithoutPolls,
    /// Only the highest attempt writes, and there is one worker for an attempt.
    StaleCannotWrite,
    /// A worker that is alive keeps its lease.
    LiveWorkerKeepsLease,
    /// Consecutive attempts that die are counted, and their number is bounded.
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
    /// A filtered list shows, newest first, each task that its filter takes exactly once, and no other one. This covers
    /// the tasks that do not change while its pages are read.
    FilteredListsAreWhole,
    /// The same idempotency key gives the same task.
    SameKeySameTask,
    /// A task is found until it expires, and not afterwards.
    ExpiredIsNotFound,
    /// An owner runs at most as many attempts at a time as allowed, if that is limited.
    AttemptsAreLimited,
    /// An owner has at most as many unfinished tasks as allowed, and is refused only then.
    QuotaIsRight,
    /// Replies to clients agree with the record.
    RepliesMatchTheRecord,
    /// Arguments, results and steps of any size are read back as they were written.
    NothingIsTruncated,
    /// The first answer to a question counts, and the tool gets it. The same applies to the first record of a signal.
    AnswersAreFinal,
    /// The message is sent after the record was written.
    RecordBeforeMessage,
    /// Polls send a message again at most once per bound.
    ResendsAreBounded,
    /// Variables have the values that the tool set last.
    VariablesAreKept,
    /// Progress of one attempt does not go back.
    ProgressOnlyGrows,
    /// A task whose caller asked for a later start is not begun before.
    StartsAtItsMoment,
    /// A sleep lasts as long as the tool asked for.
    SleepsLastAsAsked,
    /// A tool that polls until something is there pauses between two looks for as long as it asked for.
    PollsKeepTheirInterval,
    /// Only the beginning and the result of polls are recorded.
    PollsAreNotRecorded,
    /// A task with cleanup that did not end with success is cleaned at least once, and never while its tool runs. No
    /// other task is ever cleaned.
    CleansUp,
    /// A step that has begun is undone by the compensation that its tool registered before, if its task ends otherwise
    /// than with success. The last one is undone first, and none before the end.
    Undoes,
    /// The record says of each of the latest attempts when it began, when it ended, and how.
    AttemptsAreNoted,
    /// In a calm world, a task that waits for a signal continues soon after the signal is recorded. Either may come
    /// first, and no client has to poll.
    SignalsWake,
    /// A tool that is run again calls another tool once for each name.
    OneChildPerName,
    /// Tools call each other as deep as allowed, and are refused only then.
    DepthIsLimited,
    /// A tool that waits for the tool that it called has no attempt.
    CallsWaitWithoutAttempt,
    /// A tool learns how the tool that it called ended, soon in a calm world.
    ParentsHearTheEnd,
    /// When a task was cancelled, failed or timed out, all tasks below it end too, even if processes die.
    CancelReachesAll,
    /// A task that continues a failed one does not do again what that had recorded before its failure, and does what
    /// depends on the failure. A request to resume a task is refused only for its reasons.
    ResumesAtTheFailure,
    /// A request to resume a task writes nothing to that task.
    FailedTaskStays,
    /// Each end, and each question, is published to each endpoint at least once, and nothing else is.
    EndsArePublished,
    /// Each time of a schedule has at most one task. This holds with any number of pollers, if processes die, and after
    /// earlier records are gone.
    TimesAreOneTask,
    /// Each time of a schedule that a poll came to has its task, and no other time has one.
    TimesAreKept,
    /// A time is left out if the task of the one before has not ended, where the schedule says so.
    OverlapsAreLeftOut,
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
    /// The observation that breaks it.
    pub what: String,
}
