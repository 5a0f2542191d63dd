//! Planted faults: mistakes that an implementation could make, to prove that the checkers find them.
//!
//! None of them is in the product. A fault is a store, a queue or a tool runner of the test kit that lies: a transition
//! whose input or answer is changed (`transition.rs`), a model that breaks its port's promise (`store.rs`,
//! `queue.rs`), or a port between the engine and the model (`lying/`) that does what an engine with the mistake would
//! do there.

use super::promise::Promise;

/// One line for each fault: what is wrong, its name, and the promise that it breaks.
macro_rules! planted_faults {
    ($($(#[doc = $what:literal])+ $fault:ident breaks $promise:ident;)+) => {
        /// A mistake that an implementation could make. Each is named with the promise that it breaks, and counts as
        /// found only when the checker of that promise reports it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum PlantedFault {
            $($(#[doc = $what])+ $fault,)+
        }

        impl PlantedFault {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$fault,)+];

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
    /// No leg is one too many.
    RetriesNotCounted breaks TriesAreCounted;
    /// A heartbeat takes a task that has ended back to work.
    ProgressOverwritesTheEnd breaks EndsOnce;
    /// A task that ends late is not kept for longer.
    EndDoesNotExtendRetention breaks ExpiredIsNotFound;
    /// A longer retention is agreed to, and nothing changes.
    RetentionNotExtended breaks ExpiredIsNotFound;
    /// A longer retention begins now instead of at the end of the task.
    RetentionShortened breaks ExpiredIsNotFound;
    /// A task that has not ended can be forgotten.
    UnfinishedTaskForgotten breaks AcceptedIsKept;
    /// A task is said to be forgotten, and stays.
    ForgetDoesNothing breaks ExpiredIsNotFound;

    // The same in one write of an adapter: a condition is missing, or a field is not written.

    /// The fence is missing in the write that finishes a task.
    StaleFinishAccepted breaks StaleCannotWrite;
    /// The write that claims a task does not look at the lease.
    ClaimIgnoresTheLease breaks StaleCannotWrite;
    /// The writes that cancel or finish a task do not look whether it has ended.
    EndIsOverwritten breaks EndsOnce;
    /// A heartbeat is accepted, but the lease is not stored.
    LeaseNotStored breaks LivingKeepsLease;
    /// What has expired can be written.
    ExpiredIsWritten breaks ExpiredIsNotFound;

    // A model of a store or a queue that breaks its port's promise.

    /// A refused write is reported as done.
    RefusalIsSuccess breaks StaleCannotWrite;
    /// What has expired can be read.
    ExpiredIsRead breaks ExpiredIsNotFound;
    /// A read gives the record as it was one write ago.
    StaleReads breaks RepliesMatchTheRecord;
    /// A read does not look at the owner.
    GetOfAnyOwner breaks OwnersSeeTheirOwn;
    /// A list does not look at the owner.
    ListOfAnyOwner breaks OwnersSeeTheirOwn;
    /// A creation replaces the record of the same id.
    CreateOverwrites breaks EndsOnce;
    /// The idempotency key is not looked up.
    KeyNotLookedUp breaks SameKeySameTask;
    /// The idempotency key is looked up without its owner.
    KeyOfAnyOwner breaks SameKeySameTask;
    /// The idempotency key is accepted with any request.
    KeyTakesAnyRequest breaks SameKeySameTask;
    /// New tasks are not counted.
    OpenNotCounted breaks QuotaIsRight;
    /// A cancelled task is counted as unfinished for ever.
    CounterKeptOnCancel breaks QuotaIsRight;
    /// A step that is recorded again replaces the earlier record.
    StepOverwritten breaks StepsAreRecordedOnce;
    /// An answer that is recorded again replaces the earlier one.
    AnswerOverwritten breaks AnswersAreFinal;
    /// The journal is read without its last entry.
    JournalCutShort breaks StepsAreRecordedOnce;
    /// A part is cut.
    PartCut breaks NothingIsCut;
    /// Parts of different attempts overwrite each other.
    PartsShareAName breaks NothingIsCut;
    /// The queue drops its dead letters.
    DeadLettersVanish breaks GoesOnWithoutPolls;
    /// A message is gone once it was handed over.
    ReceiveDeletes breaks GoesOnWithoutPolls;

    // A mistake of the engine, played by a port between the engine and the model.

    /// The message is sent before the record is written.
    MessageBeforeRecord breaks RecordBeforeMessage;
    /// A worker writes no heartbeat, and does not keep its message hidden.
    LeaseNotRenewed breaks LivingKeepsLease;
    /// A worker goes on although its heartbeat was refused because the task has ended.
    CancelIgnored breaks CancelStopsTheTool;
    /// A client is told that its task is cancelled, and nothing is written.
    CancelNotWritten breaks RepliesMatchTheRecord;
    /// A poll recovers nothing.
    RecoveryNever breaks EndsInTime;
    /// Every poll sends a message again.
    RecoveryWithoutBound breaks ResendsAreBounded;
    /// The record names a result in parts, and the worker dies before it writes them.
    PartsAfterRecord breaks NothingIsCut;
    /// A leg does not use the steps that are on record.
    StepRunAgain breaks StepsAreRecordedOnce;
    /// A leg that lost the race for a step gives its tool its own value.
    StepGivesItsOwnValue breaks StepsAreRecordedOnce;
    /// A leg does not use the answers that are on record.
    AnswerAskedAgain breaks EndsInTime;
    /// An answer counts, and is not recorded.
    AnswerWithoutRecord breaks AnswersAreFinal;
    /// An answer is recorded, and starts no leg.
    AnswerWithoutMessage breaks GoesOnWithoutPolls;
    /// The caller's idempotency key is not passed on.
    KeyNotPassedOn breaks SameKeySameTask;
    /// A task sleeps, and no message will wake it.
    SleepForgotten breaks GoesOnWithoutPolls;
    /// A leg takes every sleep on record for over.
    SleepCutShort breaks SleepsAreSlept;
    /// Dead letters are deleted unread.
    DeadLetterDropped breaks GoesOnWithoutPolls;
    /// The message of a task that another worker holds is deleted.
    LeasedMessageDropped breaks GoesOnWithoutPolls;
    /// A message that came early is deleted, and not sent on.
    EarlyMessageDropped breaks GoesOnWithoutPolls;
    /// A worker does not stop at the deadline.
    ///
    /// An approximation: the claim gives the worker a task whose deadline is far away, so that its watch never ends.
    /// The end of the leg itself, if there is one, still counts; in the engine the same mistake could lose both.
    DeadlineIgnored breaks DeadlineStopsTheTool;
    /// Legs after the first do not get the arguments of the call.
    ArgumentsLost breaks NothingIsCut;
    /// Variables are said to be set, and are not written.
    VariablesNotWritten breaks VariablesAreKept;
    /// A tool that crashes is given up at once.
    CrashIsTheEnd breaks TriesAreCounted;
    /// A leg is to be tried again, and no message is sent for that.
    RetryNotSent breaks GoesOnWithoutPolls;
    /// A leg does not use the rounds that are on record.
    RoundForgotten breaks EndsInTime;
}
