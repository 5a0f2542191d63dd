//! Planted faults: mistakes that an implementation could make, to prove that the checkers find them.
//!
//! None of them is in the product. A fault is a store, a queue or a tool runner of the test kit that lies:
//!
//! - a transition whose input or answer is changed (`transition.rs`)
//! - a model that breaks its port's promise (`store.rs`, `queue.rs`, `permits.rs`)
//! - a port between the engine and the model (`lying/`) that acts as an engine with the mistake would act there

use super::promise::Promise;

/// The worlds in which a fault shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShowsIn {
    /// All worlds.
    AnyWorld,
    /// Worlds in which the attempts of an owner are limited.
    LimitedAttempts,
    /// Worlds whose tools wait for signals.
    Signals,
    /// Worlds whose tools register compensations.
    Compensations,
    /// Worlds whose tools have races and timeouts.
    Races,
    /// Worlds whose tools ask while they also wait for something else.
    Questions,
    /// Worlds whose tools call tools.
    Children,
    /// Worlds whose tools fail in their first attempt, while the tools that they called run.
    RunningChildren,
    /// Worlds with a schedule.
    Schedule,
    /// Worlds in which ends and questions are published.
    Notifications,
    /// Worlds in which a record stream reports records that wait for a worker.
    Stream,
    /// Worlds in which store and queue are one database.
    OneDatabase,
    /// Worlds in which calls are to start later.
    LaterStarts,
    /// Worlds whose clients read filtered lists.
    FilteredLists,
    /// Worlds whose server recovers unfinished tasks.
    Sweeps,
    /// Worlds whose tools wait for longer than they may take.
    LongWaits,
    /// Worlds whose clients resume failed tasks.
    Resumptions,
}

/// One line for each fault: the mistake, its name, the promise that it breaks, and the worlds in which it shows, if not
/// in all.
macro_rules! planted_faults {
    (@worlds) => { ShowsIn::AnyWorld };
    (@worlds $worlds:ident) => { ShowsIn::$worlds };
    ($($(#[doc = $what:literal])+ $fault:ident breaks $promise:ident $(in $worlds:ident)?;)+) => {
        /// A mistake that an implementation could make. Each is named with the promise that it breaks, and counts as
        /// found only when the checker of that promise reports it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum PlantedFault {
            $($(#[doc = $what])+ $fault,)+
        }

        impl PlantedFault {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$fault,)+];

            /// The worlds in which it shows.
            #[must_use]
            pub const fn shows_in(self) -> ShowsIn {
                match self {
                    $(Self::$fault => planted_faults!(@worlds $($worlds)?),)+
                }
            }

            /// The promise that it breaks.
            #[must_use]
            pub const fn breaks(self) -> Promise {
                match self {
                    $(Self::$fault => Promise::$promise,)+
                }
            }
        }
    };
}

planted_faults! {
    // A wrong transition: `Task::apply` with its input or its answer changed.

    /// Any attempt may write, not only the latest.
    StaleAttemptWrites breaks StaleCannotWrite;
    /// A task that has ended may be cancelled or timed out again.
    EndedTaskEndsAgain breaks EndsOnce;
    /// A claim or a resend does not wait for the end of the lease.
    LeaseNeverChecked breaks StaleCannotWrite;
    /// A claim does not raise the attempt.
    AttemptNotRaised breaks StaleCannotWrite;
    /// Nothing ever expires: not for reads, writes, lists or keys.
    ExpiryIgnored breaks ExpiredIsNotFound;
    /// Attempts may fail without limit.
    RetriesNotCounted breaks FailuresAreCounted;
    /// A heartbeat sets a task that has ended back to running.
    ProgressOverwritesTheEnd breaks EndsOnce;
    /// The expiry of a task that ends late is not extended.
    EndDoesNotExtendRetention breaks ExpiredIsNotFound;
    /// A longer retention is confirmed, and nothing changes.
    RetentionNotExtended breaks ExpiredIsNotFound;
    /// A longer retention is counted from now instead of from the end of the task.
    RetentionShortened breaks ExpiredIsNotFound;
    /// A task that has not ended can be forgotten.
    UnfinishedTaskForgotten breaks AcceptedStaysOnRecord;
    /// Forgetting a task is confirmed, and the task stays.
    ForgetDoesNothing breaks ExpiredIsNotFound;

    // The same in one write of an adapter: a condition is missing, or a field is not written.

    /// The fence is missing in the write that finishes a task.
    StaleFinishAccepted breaks StaleCannotWrite;
    /// The write that claims a task does not check the lease.
    ClaimIgnoresTheLease breaks StaleCannotWrite;
    /// The writes that cancel or finish a task do not check whether it has ended.
    EndIsOverwritten breaks EndsOnce;
    /// A heartbeat is accepted, but the lease is not stored.
    LeaseNotStored breaks LiveWorkerKeepsLease;
    /// An expired task can be written.
    ExpiredIsWritten breaks ExpiredIsNotFound;
    /// The write that claims a task does not check whether its later start has come.
    LaterStartIgnored breaks StartsAtItsMoment in LaterStarts;
    /// A suspension does not note that its attempt has ended.
    AttemptNotNoted breaks AttemptsAreNoted;

    /// A claim forgets which questions were open, so that no client can answer them while the attempt runs.
    QuestionsForgotten breaks AnswersAreFinal in Questions;
    /// A suspension does not see that its question was answered while its attempt ran.
    AnsweredIsAskedAgain breaks AnswersAreFinal in Questions;

    // A model of a store or a queue that breaks its port's promise.

    /// The reader of unfinished tasks passes over those that no worker has ever claimed.
    UnclaimedNotSwept breaks EndsWithoutPolls in Sweeps;
    /// A refused write is reported as applied.
    RefusalIsSuccess breaks StaleCannotWrite;
    /// An expired task can be read.
    ExpiredIsRead breaks ExpiredIsNotFound;
    /// A read returns the record as it was one write ago.
    StaleReads breaks RepliesMatchTheRecord;
    /// A read that begins at the very time of a write returns the record as it was before that write.
    FreshWriteNotRead breaks ReadsAreMonotonic;
    /// A read does not check the owner.
    GetOfAnyOwner breaks OwnersSeeOnlyTheirOwn;
    /// A list does not check the owner.
    ListOfAnyOwner breaks OwnersSeeOnlyTheirOwn;
    /// A filtered list has tasks that its filter does not take.
    FilterIgnored breaks FilteredListsAreWhole in FilteredLists;
    /// A page of a filtered list begins one task too late.
    FilteredPageSkipsOne breaks FilteredListsAreWhole in FilteredLists;
    /// A page of a filtered list begins with the last task of the page before it.
    FilteredPageRepeats breaks FilteredListsAreWhole in FilteredLists;
    /// A creation replaces the record with the same id.
    CreateOverwrites breaks EndsOnce;
    /// The idempotency key is not looked up.
    KeyNotLookedUp breaks SameKeySameTask;
    /// The idempotency key is looked up without its owner.
    KeyOfAnyOwner breaks SameKeySameTask;
    /// The idempotency key is accepted with any request.
    KeyTakesAnyRequest breaks SameKeySameTask;
    /// New tasks are not counted.
    OpenNotCounted breaks QuotaIsRight;
    /// A cancelled task is counted as unfinished forever.
    CounterKeptOnCancel breaks QuotaIsRight;
    /// A step that is recorded again replaces the earlier record.
    StepOverwritten breaks StepsAreRecordedOnce;
    /// An answer that is recorded again replaces the earlier one.
    AnswerOverwritten breaks AnswersAreFinal;
    /// The journal is read without its last entry.
    JournalCutShort breaks StepsAreRecordedOnce;
    /// A part is truncated.
    PartCut breaks NothingIsTruncated;
    /// Parts of different attempts overwrite each other.
    PartsShareAName breaks NothingIsTruncated;
    /// The queue drops its dead letters.
    DeadLettersVanish breaks ContinuesWithoutPolls;
    /// A message is deleted when it is delivered.
    ReceiveDeletes breaks ContinuesWithoutPolls;
    /// A deletion is confirmed, and the message stays.
    DeletedMessageStays breaks BecomesIdle;

    // A mistake in the engine, imitated by a port between the engine and the model.

    /// The message is sent before the record is written.
    MessageBeforeRecord breaks RecordBeforeMessage;
    /// A worker writes no heartbeat, and does not keep its message hidden.
    LeaseNotRenewed breaks LiveWorkerKeepsLease;
    /// A worker continues although its heartbeat was refused because the task has ended.
    CancelIgnored breaks CancelStopsTheTool;
    /// A client is notified that its task is cancelled, and nothing is written.
    CancelNotWritten breaks RepliesMatchTheRecord;
    /// A poll recovers nothing.
    RecoveryNever breaks EndsInTime;
    /// Every poll sends a message again.
    RecoveryWithoutBound breaks ResendsAreBounded;
    /// The record names a result in parts, and the worker dies before it writes them.
    PartsAfterRecord breaks NothingIsTruncated;
    /// An attempt does not use the steps that are recorded.
    StepRunAgain breaks StepsAreRecordedOnce;
    /// An attempt does not use the failed tries that are recorded.
    TriesForgotten breaks StepsAreRecordedOnce;
    /// An attempt that lost the race for a step passes its own value to its tool.
    StepGivesItsOwnValue breaks StepsAreRecordedOnce;
    /// An attempt does not use the answers that are recorded.
    AnswerAskedAgain breaks AnswersAreFinal;
    /// An answer is accepted, and not recorded.
    AnswerWithoutRecord breaks AnswersAreFinal;
    /// An answer is recorded, and does not start an attempt.
    AnswerWithoutMessage breaks ContinuesWithoutPolls;
    /// The caller's idempotency key is not passed on.
    KeyNotPassedOn breaks SameKeySameTask;
    /// A task is to start later, and no message comes then.
    LaterStartForgotten breaks ContinuesWithoutPolls in LaterStarts;
    /// A task waits past its deadline, and the message for its deadline comes when it has expired.
    DeadlineMessageTooLate breaks EndsWithoutPolls in LongWaits;
    /// A task sleeps, and no message will wake it.
    SleepForgotten breaks ContinuesWithoutPolls;
    /// An attempt treats every recorded sleep as ended.
    SleepCutShort breaks SleepsLastAsAsked;
    /// A growing interval between polls begins again with each attempt.
    PollIntervalRestarts breaks PollsKeepTheirInterval;
    /// Each pause between polls is recorded.
    PollIsRecorded breaks PollsAreNotRecorded;
    /// No message is sent for the cleanup of a cancelled task.
    CleanupNotSent breaks CleansUp;
    /// A task is cleaned while its attempt may still run.
    CleanupBesideTheTool breaks CleansUp;
    /// A completed task is cleaned.
    CompletedIsCleaned breaks CleansUp;
    /// The replay of a task that is to be undone does not get the recorded steps.
    UndoneWithoutRecord breaks Undoes in Compensations;
    /// An attempt continues with another branch of a race than the one that it has recorded.
    OtherBranchOnRecord breaks StepsAreRecordedOnce in Races;
    /// The branches that lost a race do not replay what they had seen.
    LosersForgotten breaks Undoes in Races;
    /// Dead letters are deleted unread.
    DeadLetterDropped breaks ContinuesWithoutPolls;
    /// The message of a task that another worker holds is deleted.
    LeasedMessageDropped breaks ContinuesWithoutPolls;
    /// A message that came early is deleted, and not sent again.
    EarlyMessageDropped breaks ContinuesWithoutPolls;
    /// A worker does not stop at the deadline.
    ///
    /// An approximation: the claim gives the worker a task whose deadline is far away, so that it is never reached. The
    /// limit of the attempt itself, if there is one, still applies; in the engine the same mistake could lose both.
    DeadlineIgnored breaks DeadlineStopsTheTool;
    /// Attempts after the first do not get the arguments of the call.
    ArgumentsLost breaks NothingIsTruncated;
    /// Variables are reported as set, and are not written.
    VariablesNotWritten breaks VariablesAreKept;
    /// A heartbeat says how much is left to do, and not how much is done.
    ProgressCountsDown breaks ProgressOnlyGrows;
    /// A task whose tool crashes fails at once.
    CrashIsTheEnd breaks FailuresAreCounted;
    /// An attempt is to be retried, and no message is sent for it.
    RetryNotSent breaks ContinuesWithoutPolls;
    /// An attempt does not use the rounds that are recorded.
    RoundForgotten breaks EndsInTime;

    // The two halves of the race between a signal and the task that waits for it.

    /// A signal is recorded, and its task is not woken.
    SignalWithoutWake breaks SignalsWake in Signals;
    /// An attempt that waits for a signal suspends its task, and does not check once more whether it is there.
    SuspendedWithoutCheck breaks SignalsWake in Signals;
    /// A task is woken in the store, and no message is sent.
    WakeWithoutMessage breaks SignalsWake in Signals;

    // Tools that call tools.

    /// A call that is made again makes a second task.
    ChildMadeTwice breaks OneChildPerName in Children;
    /// Every child counts as one that has no grandparent.
    DepthNotCounted breaks DepthIsLimited in Children;
    /// A tool waits in its attempt for the tool that it called.
    ChildAwaitedInAttempt breaks CallsWaitWithoutAttempt in Children;
    /// The end of a child is not recorded for the parent.
    EndNotToldToParent breaks ParentsHearTheEnd in Children;
    /// A parent is notified that its child was cancelled, however it ended.
    EndOfChildMadeUp breaks ParentsHearTheEnd in Children;
    /// The cancellation of a parent does not cancel its children.
    CancelStopsAtParent breaks CancelReachesAll in Children;
    /// A child does not check whether its parent has ended.
    ParentNotChecked breaks CancelReachesAll in Children;
    /// An attempt does not cancel the children that it has made, when its task ends.
    AttemptForgetsItsChildren breaks CancelReachesAll in RunningChildren;

    // A schedule that is not kept.

    /// A time whose task is there already gets a second one.
    TimeMadeTwice breaks TimesAreOneTask in Schedule;
    /// A poll does not note that a time was handled.
    TimeNotNoted breaks TimesAreOneTask in Schedule;
    /// A poll does not find the task of the time before.
    OverlapNotSeen breaks OverlapsAreLeftOut in Schedule;
    /// Each time counts as handled.
    EachTimeCountsAsHandled breaks TimesAreKept in Schedule;

    // Notifications that are lost.

    /// A task that is cancelled leaves no notification.
    CancelNotPublished breaks EndsArePublished in Notifications;
    /// Notifications are removed before they are passed on.
    NotificationsRemovedWhenRead breaks EndsArePublished in Notifications;
    /// Only the first endpoint is notified.
    SecondEndpointNotTold breaks EndsArePublished in Notifications;

    // The record stream, which reports records that wait for a worker.

    /// A record that could not be treated counts as treated.
    UntreatedRecordDropped breaks EndsWithoutPolls in Stream;
    /// The record stream does not report a record that waits for its later start.
    LaterStartNotHeardOf breaks EndsWithoutPolls in Stream;
    /// A message is noted as sent again, and is not sent.
    ResentWithoutMessage breaks EndsWithoutPolls in Stream;

    // A failed task that is resumed wrongly.

    /// A task that continues a failed one takes over one step too few.
    ResumedWithOneTooFew breaks ResumesAtTheFailure in Resumptions;
    /// A task that continues a failed one takes over a step that began after the failure.
    ResumedWithOneTooMany breaks ResumesAtTheFailure in Resumptions;
    /// A task that continues a failed one takes over the failure.
    FailureTakenOver breaks ResumesAtTheFailure in Resumptions;
    /// The attempts of a task that continues a failed one do not read what it has taken over.
    ResumedRunsAgain breaks ResumesAtTheFailure in Resumptions;
    /// A failed task is forgotten when it is resumed.
    ResumedIsForgotten breaks FailedTaskStays in Resumptions;
    /// The idempotency key of a request to resume a task is not passed on.
    ResumedTwice breaks SameKeySameTask in Resumptions;

    // A store that is one with the queue.

    /// A creation says that it has sent the message, although it did not.
    SentWithoutMessage breaks ContinuesWithoutPolls in OneDatabase;
    /// A creation that is refused sends its message nevertheless.
    MessageWithoutRecord breaks RecordBeforeMessage in OneDatabase;

    // Permits of running attempts that are counted wrongly.

    /// An attempt gets a permit although its owner has none left.
    FullOwnerRuns breaks AttemptsAreLimited in LimitedAttempts;
    /// The permit of an attempt is free some seconds before its time has ended.
    PermitFreeTooEarly breaks AttemptsAreLimited in LimitedAttempts;
    /// An attempt that lost its task gives back the permit of the next attempt.
    PermitOfAnotherGivenBack breaks AttemptsAreLimited in LimitedAttempts;
    /// The permit of a worker that died is never free again.
    DeadAttemptKeepsPermit breaks EndsInTime in LimitedAttempts;
}
