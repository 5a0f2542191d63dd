//! What clients call.

use longhaul_chaos::CHILD_STEPS;
use longhaul_client::Call;
use serde_json::{Map, Value, json};

use crate::dice::Dice;
use crate::faults::Form;
use crate::jobs::Job;

/// How many steps a call has that is cancelled.
pub(crate) const CANCELLED_STEPS: u64 = 60;

/// How many other tools a call calls that is cancelled.
pub(crate) const CANCELLED_CHILDREN: u64 = 5;

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Steps.
    Steps(u64),
    /// A sleep between two steps.
    Nap(u64),
    /// A question.
    Ask,
    /// A tool that calls so many others, and waits for them.
    Family(u64),
    /// A callback.
    Callback,
    /// A tool that fails.
    Fail,
    /// Many steps, cancelled after so many milliseconds.
    Cancelled(u64),
    /// A tool that calls others, cancelled after so many milliseconds.
    CancelledFamily(u64),
    /// A call through the gateway that must not be repeated.
    Write,
    /// A call through the gateway that may be.
    Look,
    /// A job of another system.
    Job(Job),
}

impl Kind {
    /// The name in reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Steps(_) => "steps",
            Self::Nap(_) => "sleep",
            Self::Ask => "question",
            Self::Family(_) => "calls of tools",
            Self::Callback => "callback",
            Self::Fail => "failure",
            Self::Cancelled(_) => "cancelled",
            Self::CancelledFamily(_) => "cancelled calls",
            Self::Write => "not repeatable",
            Self::Look => "repeatable",
            Self::Job(job) => job.name(),
        }
    }

    pub(crate) fn roll(form: Form, dice: &mut Dice) -> Self {
        match (form, dice.between(0, 24)) {
            (_, 20..) => Self::Job(Job::roll(form, dice)),
            (Form::Gateway, 0..=13) => Self::Write,
            (Form::Gateway, _) => Self::Look,
            (Form::Local | Form::Instances | Form::Deployed, 0..=5) => Self::Steps(dice.between(1, 30)),
            (Form::Local | Form::Instances | Form::Deployed, 6..=8) => Self::Nap(dice.between(50, 5_000)),
            (Form::Local | Form::Instances | Form::Deployed, 9..=11) => Self::Ask,
            (Form::Local | Form::Instances | Form::Deployed, 12 | 13) => Self::Family(dice.between(1, 12)),
            (Form::Local | Form::Instances | Form::Deployed, 14 | 15) => Self::Callback,
            (Form::Local | Form::Instances | Form::Deployed, 16) => Self::Fail,
            (Form::Local | Form::Instances | Form::Deployed, 17) => Self::CancelledFamily(dice.between(0, 2_000)),
            (Form::Local | Form::Instances | Form::Deployed, _) => Self::Cancelled(dice.between(0, 2_000)),
        }
    }

    pub(crate) fn call(self, name: &str) -> Call {
        let (tool, arguments) = match self {
            Self::Steps(steps) => ("steps", json!({"name": name, "steps": steps})),
            Self::Cancelled(_) => ("steps", json!({"name": name, "steps": CANCELLED_STEPS})),
            Self::Nap(ms) => ("nap", json!({"name": name, "ms": ms})),
            Self::Ask => ("ask", json!({"name": name})),
            Self::Family(children) => ("family", json!({"name": name, "children": children, "steps": CHILD_STEPS})),
            Self::CancelledFamily(_) => {
                ("family", json!({"name": name, "children": CANCELLED_CHILDREN, "steps": CANCELLED_STEPS}))
            }
            Self::Callback => ("wait", json!({"name": name})),
            Self::Fail => ("fail", json!({"name": name})),
            Self::Write => ("write", json!({"name": name})),
            Self::Look => ("look", json!({"name": name})),
            Self::Job(job) => job.call(name),
        };
        let arguments: Map<String, Value> = arguments.as_object().cloned().unwrap_or_default();
        Call::new(tool, arguments)
    }

    /// After how long it is cancelled.
    pub(crate) const fn cancelled_after_ms(self) -> Option<u64> {
        match self {
            Self::Cancelled(after_ms) | Self::CancelledFamily(after_ms) => Some(after_ms),
            Self::Job(job) => job.cancelled_after_ms(),
            Self::Steps(_)
            | Self::Nap(_)
            | Self::Ask
            | Self::Family(_)
            | Self::Callback
            | Self::Fail
            | Self::Write
            | Self::Look => None,
        }
    }

    /// How many other tools it calls, and how many steps each of these has.
    pub(crate) fn children(self) -> Option<(u64, u64)> {
        match self {
            Self::Family(children) => Some((children, u64::from(CHILD_STEPS))),
            Self::CancelledFamily(_) => Some((CANCELLED_CHILDREN, CANCELLED_STEPS)),
            Self::Steps(_)
            | Self::Nap(_)
            | Self::Ask
            | Self::Callback
            | Self::Fail
            | Self::Cancelled(_)
            | Self::Write
            | Self::Look
            | Self::Job(_) => None,
        }
    }

    /// The job that it is, if it is one.
    pub(crate) const fn job(self) -> Option<Job> {
        match self {
            Self::Job(job) => Some(job),
            Self::Steps(_)
            | Self::Nap(_)
            | Self::Ask
            | Self::Family(_)
            | Self::Callback
            | Self::Fail
            | Self::Cancelled(_)
            | Self::CancelledFamily(_)
            | Self::Write
            | Self::Look => None,
        }
    }
}

/// The name of a call's call.
pub(crate) fn child(name: &str, number: u64) -> String {
    format!("{name}.{number}")
}
