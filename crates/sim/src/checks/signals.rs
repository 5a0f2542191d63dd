//! The checker of tools that wait for signals. In a calm world, a task continues soon after the signal that it waits
//! for is recorded.

use longhaul_core::{EntryKind, State, Task, TaskEvent, TaskKey};
use longhaul_testkit::models::Promise;

use super::state::{Checks, Signals, Trace};

impl Checks {
    /// The tool waits for a signal.
    pub(crate) fn signal_begins(&mut self, key: &TaskKey, name: &str) {
        if let Some(trace) = self.trace(key) {
            trace.signals.awaited.push(name.to_owned());
        }
    }

    /// A record changed: an attempt began or ended, or another party changed it.
    pub(super) fn check_wake(&mut self, after: &Task, event: &TaskEvent) {
        let at_ms = self.now_ms();
        let key = after.key();
        let bound_ms = self.lease_ms * 10;
        let is_calm = self.is_calm;
        let Some(trace) = self.trace(&key) else { return };
        let late_ms = trace.signals.there_since_ms.map(|since_ms| at_ms.saturating_sub(since_ms));
        match event {
            TaskEvent::Claim { .. } => {
                trace.signals = Signals::default();
                if let Some(late_ms) = late_ms.filter(|late_ms| is_calm && *late_ms > bound_ms) {
                    let what = format!(
                        "{} continued {late_ms} ms after the signal that it waits for was there",
                        self.name(&key)
                    );
                    self.fail(Promise::SignalsWake, what);
                }
            }
            TaskEvent::Heartbeat { .. }
            | TaskEvent::SetVariables { .. }
            | TaskEvent::Suspend { .. }
            | TaskEvent::Retry { .. }
            | TaskEvent::Finish { .. }
            | TaskEvent::Answer { .. }
            | TaskEvent::Wake { .. }
            | TaskEvent::Cancel
            | TaskEvent::Resend { .. }
            | TaskEvent::RetriesExhausted
            | TaskEvent::TimeOut
            | TaskEvent::ExtendRetention { .. }
            | TaskEvent::Forget
            | TaskEvent::BeginCleanup { .. }
            | TaskEvent::EndCleanup { .. } => note(trace, after, at_ms),
        }
    }

    /// A signal may be recorded now.
    pub(super) fn signal_recorded(&mut self, key: &TaskKey) {
        let at_ms = self.now_ms();
        let Some(trace) = self.trace(key) else { return };
        if let Some(task) = trace.latest().cloned() {
            note(trace, &task, at_ms);
        }
    }
}

/// Notes since when the task waits although its signal is recorded.
fn note(trace: &mut Trace, task: &Task, at_ms: u64) {
    let waits = match &task.state {
        State::Sleeping { .. } => task.failures == 0,
        State::InputRequired { until, .. } => until.is_some(),
        State::Queued | State::Running { .. } | State::Completed { .. } | State::Failed { .. } | State::Cancelled => {
            false
        }
    };
    let Trace { entries, signals, .. } = trace;
    let is_there = entries.iter().any(|entry| entry.kind == EntryKind::Signal && signals.awaited.contains(&entry.name));
    signals.there_since_ms = if waits && is_there { signals.there_since_ms.or(Some(at_ms)) } else { None };
}
