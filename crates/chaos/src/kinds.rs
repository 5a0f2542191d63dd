//! The calls of clients.

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

/// A long text has 1 KiB, doubled up to so often: 512 KiB, which are kept in two parts.
const KEPT_DOUBLED: u64 = 9;

/// The called tool.
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
    /// A text of so many KiB, which the tool records and returns.
    Kept(u64),
    /// A tool that continues after its deadline.
    Late,
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
            Self::Kept(_) => "long text",
            Self::Late => "deadline",
            Self::Cancelled(_) => "cancelled",
            Self::CancelledFamily(_) => "cancelled calls",
            Self::Write => "not repeatable",
            Self::Look => "repeatable",
            Self::Job(job) => job.name(),
        }
    }

    pub(crate) fn roll(form: Form, dice: &mut Dice) -> Self {
        match (form, dice.between(0, 28)) {
            (_, 20..=24) => Self::Job(Job::roll(form, dice)),
            (Form::Gateway, 0..=13) => Self::Write,
            (Form::Gateway, _) => Self::Look,
            (_, 0..=5) => Self::Steps(dice.between(1, 30)),
            (_, 6..=8) => Self::Nap(dice.between(50, 5_000)),
            (_, 9..=11) => Self::Ask,
            (_, 12 | 13) => Self::Family(dice.between(1, 12)),
            (_, 14 | 15) => Self::Callback,
            (_, 16) => Self::Fail,
            (_, 17) => Self::CancelledFamily(dice.between(0, 2_000)),
            (_, 25 | 26) => Self::Kept(1 << dice.between(0, KEPT_DOUBLED)),
            (_, 27 | 28) => Self::Late,
            (_, _) => Self::Cancelled(dice.between(0, 2_000)),
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
            Self::Kept(kib) => ("keep", json!({"name": name, "text": text(name, kib)})),
            Self::Late => ("late", json!({"name": name})),
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
            _ => None,
        }
    }

    /// How many other tools it calls, and how many steps each of these has.
    pub(crate) fn children(self) -> Option<(u64, u64)> {
        match self {
            Self::Family(children) => Some((children, u64::from(CHILD_STEPS))),
            Self::CancelledFamily(_) => Some((CANCELLED_CHILDREN, CANCELLED_STEPS)),
            _ => None,
        }
    }

    /// The job that it is, if it is one.
    pub(crate) const fn job(self) -> Option<Job> {
        match self {
            Self::Job(job) => Some(job),
            _ => None,
        }
    }
}

/// The name of a call's call.
pub(crate) fn child(name: &str, number: u64) -> String {
    format!("{name}.{number}")
}

/// The text of a call, of so many KiB. No two lines are alike, and a cut at any byte may be inside a character.
pub(crate) fn text(name: &str, kib: u64) -> String {
    let bytes = usize::try_from(kib * 1024).unwrap_or(usize::MAX);
    let (mut text, mut line) = (String::new(), 0_u64);
    while text.len() < bytes {
        text.push_str(&format!("{name} {line} äß€…😀\n"));
        line += 1;
    }
    text.truncate(text.floor_char_boundary(bytes));
    text
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn a_text_is_as_long_as_asked_and_of_its_call() {
        for kib in [1, 512] {
            let of_a = text("a", kib);
            assert!((kib * 1024 - 4..=kib * 1024).contains(&(of_a.len() as u64)));
            assert_ne!(of_a, text("b", kib));
        }
    }
}
