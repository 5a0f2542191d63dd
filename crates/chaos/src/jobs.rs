//! Calls whose tools start jobs in other systems.

use serde_json::{Value, json};

use crate::dice::Dice;
use crate::faults::Form;

/// How long a job takes that is cancelled: longer than it is waited for.
const CANCELLED_MS: u64 = 3_600_000;

/// How a job is started, and how its end is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum System {
    /// Over HTTP; a repeated start is recognised.
    Repeatable,
    /// Over HTTP; a repeated start would be another job, and the started job can be found.
    Once,
    /// In Step Functions.
    Execution,
    /// Over HTTP; the system sends the result.
    CallsBack,
}

/// How it is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    /// With a result.
    Done,
    /// With an error.
    Failed,
    /// Its task is cancelled after so many milliseconds.
    Cancelled(u64),
}

/// A job of another system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Job {
    pub(crate) system: System,
    pub(crate) ending: Ending,
    /// How long it takes.
    pub(crate) seconds: u64,
}

impl Job {
    /// The name in reports.
    pub(crate) const fn name(self) -> &'static str {
        match (self.ending, self.system) {
            (Ending::Cancelled(_), _) => "job cancelled",
            (Ending::Failed, _) => "job that fails",
            (Ending::Done, System::Repeatable) => "job, repeatable",
            (Ending::Done, System::Once) => "job, not repeatable",
            (Ending::Done, System::Execution) => "job, execution",
            (Ending::Done, System::CallsBack) => "job that calls back",
        }
    }

    pub(crate) fn roll(form: Form, dice: &mut Dice) -> Self {
        let system = match (form, dice.index(4)) {
            (_, 0) => System::Repeatable,
            (_, 1) | (Form::Gateway, 2) => System::Once,
            (_, 2) => System::CallsBack,
            // There is no emulator.
            (Form::Local, _) => System::Once,
            _ => System::Execution,
        };
        let ending = match (system, dice.index(8)) {
            // It is never stopped: its tool has no code for that.
            (System::CallsBack, _) => Ending::Done,
            (_, 0) => Ending::Failed,
            (_, 1 | 2) => Ending::Cancelled(dice.between(0, 3_000)),
            _ => Ending::Done,
        };
        Self { system, ending, seconds: dice.between(0, 5) }
    }

    /// The tool, and its arguments.
    pub(crate) fn call(self, name: &str) -> (&'static str, Value) {
        let tool = match self.system {
            System::Repeatable => "job_repeatable",
            System::Once => "job_once",
            System::Execution => "job_execution",
            System::CallsBack => "job_calls_back",
        };
        let end = if self.ending == Ending::Failed { "failed" } else { "done" };
        let ms = if self.cancelled_after_ms().is_some() { CANCELLED_MS } else { self.seconds * 1_000 };
        (tool, json!({"name": name, "ms": ms, "s": ms / 1_000, "end": end}))
    }

    /// After how long it is cancelled.
    pub(crate) const fn cancelled_after_ms(self) -> Option<u64> {
        match self.ending {
            Ending::Cancelled(after_ms) => Some(after_ms),
            Ending::Done | Ending::Failed => None,
        }
    }
}
