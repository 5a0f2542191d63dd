//! Planted faults: mistakes that an implementation could make, to prove that the checkers find them.
//!
//! None of them is in the product. A fault is a store, a queue or a tool runner of the test kit that lies: a transition
//! whose input or answer is changed (`transition.rs`), a model that breaks its port's promise (`store.rs`,
//! `queue.rs`, `places.rs`), or a port between the engine and the model (`lying/`) that does what an engine with the mistake would
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

            /// Whether it shows only where the legs of an owner are limited.
            #[must_use]
            pub const fn is_of_places(self) -> bool {
                matches!(
                    self,
                    Self::FullOwnerRuns
                        | Self::PlaceFreeTooEarly
                        | Self::PlaceOfAnotherGivenBack
                        | Self::DeadLegKeepsPlace
                )
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
    /// Legs may fail without limit.
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
    /// What has expired can be written.
    ExpiredIsWritten breaks ExpiredIsNotFound;
    /// A suspension does not note that its leg has ended.
    LegNotNoted breaks LegsAreNoted;

    // A model of a store or a queue that breaks its port's promise.

    /// A refused write is reported as applied.
    RefusalIsSuccess breaks StaleCannotWrite;
    /// What has expired can be read.
    ExpiredIsRead breaks ExpiredIsNotFound;
    /// A read returns the record as it was one write ago.
    StaleReads breaks RepliesMatchTheRecord;
    /// A read does not check the owner.
    GetOfAnyOwner breaks OwnersSeeOnlyTheirOwn;
    /// A list does not check the owner.
    ListOfAnyOwner breaks OwnersSeeOnlyTheirOwn;
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

    // A mistake in the engine, imitated by a port between the engine and the model.

    /// The message is sent before the record is written.
    MessageBeforeRecord breaks RecordBeforeMessage;
    /// A worker writes no heartbeat, and does not keep its message hidden.
    LeaseNotRenewed breaks LiveWorkerKeepsLease;
    /// A worker continues although its heartbeat was refused because the task has ended.
    CancelIgnored breaks CancelStopsTheTool;
    /// A client is told that its task is cancelled, and nothing is written.
    CancelNotWritten breaks RepliesMatchTheRecord;
    /// A poll recovers nothing.
    RecoveryNever breaks EndsInTime;
    /// Every poll sends a message again.
    RecoveryWithoutBound breaks ResendsAreBounded;
    /// The record names a result in parts, and the worker dies before it writes them.
    PartsAfterRecord breaks NothingIsTruncated;
    /// A leg does not use the steps that are on record.
    StepRunAgain breaks StepsAreRecordedOnce;
    /// A leg that lost the race for a step passes its own value to its tool.
    StepGivesItsOwnValue breaks StepsAreRecordedOnce;
    /// A leg does not use the answers that are on record.
    AnswerAskedAgain breaks EndsInTime;
    /// An answer is accepted, and not recorded.
    AnswerWithoutRecord breaks AnswersAreFinal;
    /// An answer is recorded, and does not start a leg.
    AnswerWithoutMessage breaks ContinuesWithoutPolls;
    /// The caller's idempotency key is not passed on.
    KeyNotPassedOn breaks SameKeySameTask;
    /// A task sleeps, and no message will wake it.
    SleepForgotten breaks ContinuesWithoutPolls;
    /// A leg treats every sleep on record as over.
    SleepCutShort breaks SleepsLastAsAsked;
    /// A growing interval between looks begins again with each leg.
    LookIntervalRestarts breaks LooksKeepTheirInterval;
    /// Each pause between looks is recorded.
    LookIsRecorded breaks LooksAreNotRecorded;
    /// No message is sent for the cleaning of a cancelled task.
    CleaningNotSent breaks CleansUp;
    /// A task is cleaned while its leg may still run.
    CleaningBesideTheTool breaks CleansUp;
    /// A completed task is cleaned.
    CompletedIsCleaned breaks CleansUp;
    /// Dead letters are deleted unread.
    DeadLetterDropped breaks ContinuesWithoutPolls;
    /// The message of a task that another worker holds is deleted.
    LeasedMessageDropped breaks ContinuesWithoutPolls;
    /// A message that came early is deleted, and not sent again.
    EarlyMessageDropped breaks ContinuesWithoutPolls;
    /// A worker does not stop at the deadline.
    ///
    /// An approximation: the claim gives the worker a task whose deadline is far away, so that it is never reached. The
    /// limit of the leg itself, if there is one, still applies; in the engine the same mistake could lose both.
    DeadlineIgnored breaks DeadlineStopsTheTool;
    /// Legs after the first do not get the arguments of the call.
    ArgumentsLost breaks NothingIsTruncated;
    /// Variables are reported as set, and are not written.
    VariablesNotWritten breaks VariablesAreKept;
    /// A task whose tool crashes fails at once.
    CrashIsTheEnd breaks FailuresAreCounted;
    /// A leg is to be retried, and no message is sent for it.
    RetryNotSent breaks ContinuesWithoutPolls;
    /// A leg does not use the rounds that are on record.
    RoundForgotten breaks EndsInTime;

    // Places of running legs that are counted wrongly. Their worlds are those with limited legs.

    /// A leg gets a place although its owner has none left.
    FullOwnerRuns breaks LegsAreLimited;
    /// The place of a leg is free some seconds before its time is over.
    PlaceFreeTooEarly breaks LegsAreLimited;
    /// A leg that lost its task gives back the place of the next leg.
    PlaceOfAnotherGivenBack breaks LegsAreLimited;
    /// The place of a worker that died is never free again.
    DeadLegKeepsPlace breaks EndsInTime;
}
