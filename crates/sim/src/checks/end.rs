//! Checkers of what holds at the end, when the world is quiescent.

use std::sync::Arc;

use longhaul_core::{Cleanup, FailureKind, State, Task, TaskKey, Timestamp};
use longhaul_testkit::models::{Promise, StoreModel};

use super::super::plan::{CallPlan, Care, Ending};
use super::state::Checks;

impl Checks {
    /// The time is up: every task that a client waits for must have ended.
    pub(crate) fn must_have_ended(&mut self, store: &StoreModel, keys: &[TaskKey], care: Care, now: Timestamp) {
        for key in keys {
            let Some(task) = store.peek(key).filter(|task| !task.has_expired(now)) else { continue };
            if task.has_ended() {
                continue;
            }
            let promise = match care {
                Care::Polls => Promise::EndsInTime,
                Care::Nobody => Promise::ContinuesWithoutPolls,
                Care::Server | Care::Stream => Promise::EndsWithoutPolls,
            };
            let what =
                format!("{} has not ended, although no faults are injected any more: {:?}", self.name(key), task.state);
            self.fail(promise, what);
        }
    }

    /// Every end has a reason.
    pub(crate) fn ends_have_reasons(&mut self) {
        let wrong: Vec<(TaskKey, Promise, String)> = self
            .traces
            .iter()
            .filter_map(|trace| {
                let task = trace.latest()?;
                let call = self.calls.get(trace.call)?;
                let (promise, what) = unexpected(call, &task.state)?;
                Some((trace.key, promise, what))
            })
            .collect();
        for (key, promise, what) in wrong {
            self.fail(promise, format!("{} {what}", self.name(&key)));
        }
    }

    /// When the last message for the deadline of a task with cleanup is found superfluous, if it is not earlier.
    pub(crate) fn last_deadline(&self) -> Option<Timestamp> {
        let ended = self.traces.iter().filter_map(|trace| trace.latest()).filter(|task| task.has_ended());
        ended.filter(|task| task.cleanup != Cleanup::None).map(|task| task.deadline()).max()
    }

    /// No message is left, and no tool runs.
    pub(crate) fn must_rest(&mut self, store: &StoreModel, messages: &[TaskKey]) {
        let is_over = |task: &Arc<Task>| task.has_ended() && !task.needs_cleanup();
        let latest = |key: &TaskKey| {
            let forgotten =
                || self.traces.iter().find(|trace| trace.key == *key).and_then(|trace| trace.latest().cloned());
            store.peek(key).cloned().or_else(forgotten)
        };
        let left = messages.iter().find(|key| latest(key).is_none_or(|task| is_over(&task))).copied();
        if let Some(key) = left {
            let what = format!("a message for {} is still there, long after its end", self.name(&key));
            self.fail(Promise::BecomesIdle, what);
        }
        let runs = self
            .traces
            .iter()
            .find(|trace| trace.ended.is_some() && trace.attempts.iter().any(|attempt| attempt.tool_runs));
        if let Some(key) = runs.map(|trace| trace.key) {
            let what = format!("a tool of {} still runs, long after the task's end", self.name(&key));
            self.fail(Promise::CancelStopsTheTool, what);
        }
    }
}

/// What is wrong with this end, given what the tool does.
fn unexpected(call: &CallPlan, state: &State) -> Option<(Promise, String)> {
    let gives_errors = matches!(call.ending, Ending::Error(_));
    match state {
        State::Completed { .. } => gives_errors
            .then(|| (Promise::EndsInTime, "is completed, although its tool only returns errors".to_owned())),
        State::Failed { failure } => match failure.kind {
            FailureKind::Tool => (!gives_errors)
                .then(|| (Promise::EndsInTime, "failed with an error that its tool never returns".to_owned())),
            FailureKind::TimedOut if call.ends_by_itself() && call.has_time() => {
                Some((Promise::EndsInTime, "timed out, although its tool had plenty of time".to_owned()))
            }
            FailureKind::RetriesExhausted | FailureKind::TimedOut => None,
            FailureKind::Corrupt => {
                Some((Promise::NothingIsTruncated, format!("cannot be read any more: {}", failure.message)))
            }
            FailureKind::TooLarge | FailureKind::Misuse => Some((
                Promise::EndsInTime,
                format!("failed for a reason that its tool does not cause: {}", failure.message),
            )),
        },
        State::Queued
        | State::Running { .. }
        | State::Sleeping { .. }
        | State::InputRequired { .. }
        | State::Cancelled => None,
    }
}
