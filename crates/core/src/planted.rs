//! Faults that can be planted in the domain and the engine, to prove that the simulation's checkers find them.
//!
//! Without the feature `planted`, [`planted`] is `false` at compile time and nothing of this is left in a program.

/// What the domain or the engine could get wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each name says it, and the place that asks for it shows it")]
pub enum Fault {
    FenceOff,
    TerminalNotTerminal,
    LeaseNeverChecked,
    AttemptNotRaised,
    ExpiryIgnored,
    TriesNotCounted,
    ProgressOverwritesTheEnd,
    EndDoesNotExtendTheLife,
    MessageBeforeRecord,
    LeaseNotRenewed,
    CancelIgnored,
    CancelOnlyTold,
    RecoveryNever,
    RecoveryWithoutBound,
    PartsAfterRecord,
    StepRunAgain,
    StepGivesItsOwnValue,
    AnswerAskedAgain,
    AnswerWithoutRecord,
    AnswerWithoutMessage,
    KeyForgotten,
    SleepForgotten,
    SleepCutShort,
    DeadLetterDropped,
    LeasedMessageDropped,
    EarlyMessageDropped,
    DeadlineIgnored,
    ArgumentsLost,
    VariablesNotWritten,
    CrashIsTheEnd,
    RetryNotSent,
    RoundForgotten,
    KeptAsBefore,
    KeptForLess,
    ForgottenUnfinished,
    ForgottenLater,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 36] = [
        Self::FenceOff,
        Self::TerminalNotTerminal,
        Self::LeaseNeverChecked,
        Self::AttemptNotRaised,
        Self::ExpiryIgnored,
        Self::TriesNotCounted,
        Self::ProgressOverwritesTheEnd,
        Self::EndDoesNotExtendTheLife,
        Self::MessageBeforeRecord,
        Self::LeaseNotRenewed,
        Self::CancelIgnored,
        Self::CancelOnlyTold,
        Self::RecoveryNever,
        Self::RecoveryWithoutBound,
        Self::PartsAfterRecord,
        Self::StepRunAgain,
        Self::StepGivesItsOwnValue,
        Self::AnswerAskedAgain,
        Self::AnswerWithoutRecord,
        Self::AnswerWithoutMessage,
        Self::KeyForgotten,
        Self::SleepForgotten,
        Self::SleepCutShort,
        Self::DeadLetterDropped,
        Self::LeasedMessageDropped,
        Self::EarlyMessageDropped,
        Self::DeadlineIgnored,
        Self::ArgumentsLost,
        Self::VariablesNotWritten,
        Self::CrashIsTheEnd,
        Self::RetryNotSent,
        Self::RoundForgotten,
        Self::KeptAsBefore,
        Self::KeptForLess,
        Self::ForgottenUnfinished,
        Self::ForgottenLater,
    ];
}

/// Whether `fault` is planted on this thread.
#[cfg(not(feature = "planted"))]
#[must_use]
#[inline(always)]
pub const fn planted(_fault: Fault) -> bool {
    false
}

#[cfg(feature = "planted")]
pub use switch::{plant, planted};

#[cfg(feature = "planted")]
mod switch {
    use std::cell::Cell;

    use super::Fault;

    thread_local! {
        static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    /// Whether `fault` is planted on this thread.
    #[must_use]
    pub fn planted(fault: Fault) -> bool {
        PLANTED.get() == Some(fault)
    }

    /// Plants `fault` on this thread, in place of an earlier one.
    pub fn plant(fault: Option<Fault>) {
        PLANTED.set(fault);
    }
}
