//! Faults of an adapter, planted in the models to see that the checkers find them.

/// What an adapter could get wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// A stale attempt may finish the task.
    FenceOff,
    /// A claim does not look at the lease.
    ConditionIgnored,
    /// A refused write is reported as done.
    RefusalIsSuccess,
    /// A task that has ended may end again.
    EndIsNotTheEnd,
    /// A heartbeat is taken, but the lease is not stored.
    LeaseNotStored,
    /// What has expired can be read.
    ExpiredIsRead,
    /// What has expired can be written.
    ExpiredIsWritten,
    /// A read gives the record as it was one write ago.
    StaleReads,
    /// A read does not look at the owner.
    GetOfAnyOwner,
    /// A list does not look at the owner.
    ListOfAnyOwner,
    /// A creation replaces the record of the same id.
    CreateOverwrites,
    /// The idempotency key is not looked up.
    KeyForgotten,
    /// The idempotency key is looked up without its owner.
    KeyOfAnyOwner,
    /// The idempotency key is taken with any request.
    KeyTakesAnyRequest,
    /// New tasks are not counted.
    OpenNotCounted,
    /// A cancelled task is counted as unfinished for ever.
    CounterKeptOnCancel,
    /// A step that is recorded again replaces the earlier record.
    StepOverwritten,
    /// An answer that is recorded again replaces the earlier one.
    AnswerOverwritten,
    /// The journal is read without its last entry.
    JournalCutShort,
    /// A part is cut.
    PartCut,
    /// Parts of different attempts overwrite each other.
    PartsShareAName,
    /// Dead letters are dropped.
    DeadLettersVanish,
    /// A message is gone once it was handed over.
    ReceiveDeletes,
}

impl Defect {
    /// All of them.
    pub const ALL: [Self; 23] = [
        Self::FenceOff,
        Self::ConditionIgnored,
        Self::RefusalIsSuccess,
        Self::EndIsNotTheEnd,
        Self::LeaseNotStored,
        Self::ExpiredIsRead,
        Self::ExpiredIsWritten,
        Self::StaleReads,
        Self::GetOfAnyOwner,
        Self::ListOfAnyOwner,
        Self::CreateOverwrites,
        Self::KeyForgotten,
        Self::KeyOfAnyOwner,
        Self::KeyTakesAnyRequest,
        Self::OpenNotCounted,
        Self::CounterKeptOnCancel,
        Self::StepOverwritten,
        Self::AnswerOverwritten,
        Self::JournalCutShort,
        Self::PartCut,
        Self::PartsShareAName,
        Self::DeadLettersVanish,
        Self::ReceiveDeletes,
    ];
}
