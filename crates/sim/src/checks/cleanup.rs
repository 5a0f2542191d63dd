//! Checkers of the cleanup of tasks that did not end with success.

use longhaul_core::{Cleanup, ResultKind, State, Task, TaskKey, Timestamp};
use longhaul_testkit::models::{Promise, StoreModel};

use super::state::Checks;

impl Checks {
    /// The author's code begins to clean up. Returns how often it has begun by now.
    pub(crate) fn cleanup_begins(&mut self, key: &TaskKey) -> u32 {
        let (name, slack_ms) = (self.name(key), self.heartbeat_ms + 8 * self.latency_ms + self.skew_ms);
        let Some(trace) = self.trace(key) else { return 0 };
        trace.cleanups += 1;
        let cleanups = trace.cleanups;
        let wrong = match trace.latest() {
            Some(task) if !ended_without_success(task) => {
                Some(format!("{name} is cleaned although it is {:?}", task.state))
            }
            Some(_) | None => None,
        };
        let running: Vec<usize> =
            trace.attempts.iter().filter(|attempt| attempt.tool_runs).map(|attempt| attempt.actor).collect();
        if let Some(what) = wrong {
            self.fail(Promise::CleansUp, what);
        }
        // A worker that had trouble a short time ago, or that lost its lease, may not have noticed the end.
        if running.iter().any(|actor| self.disturbed_until_ms(*actor) + slack_ms < self.now_ms()) {
            self.fail(Promise::CleansUp, format!("{name} is cleaned while its tool runs"));
        }
        cleanups
    }

    /// The cleanup has succeeded.
    pub(crate) fn cleanup_ends(&mut self, key: &TaskKey) {
        if let Some(trace) = self.trace(key) {
            trace.is_cleaned = true;
        }
    }

    /// At the end of the run, each cleanup has succeeded or was given up.
    pub(crate) fn must_be_clean(&mut self, store: &StoreModel, keys: &[TaskKey], now: Timestamp) {
        for key in keys {
            let Some(task) = store.peek(key).filter(|task| !task.has_expired(now)) else { continue };
            let is_cleaned = self.trace(key).is_some_and(|trace| trace.is_cleaned);
            let is_due = task.cleanup != Cleanup::None && ended_without_success(task);
            if is_due && !is_cleaned && task.cleanup != Cleanup::GivenUp {
                self.fail(Promise::CleansUp, format!("{} was not cleaned: {:?}", self.name(key), task.cleanup));
            }
        }
    }
}

/// Whether the task has ended, and its tool did not succeed.
fn ended_without_success(task: &Task) -> bool {
    match &task.state {
        State::Cancelled | State::Failed { .. } => true,
        State::Completed { kind, .. } => *kind == ResultKind::ToolError,
        State::Queued | State::Running { .. } | State::Sleeping { .. } | State::InputRequired { .. } => false,
    }
}
