//! Checkers for the end of a run, when the world is quiescent.

use std::collections::BTreeSet;

use longhaul_core::{FailureKind, State, Task, TaskKey, Timestamp};
use longhaul_testkit::models::{Promise, StoreModel};

use super::super::kernel::EPOCH_MS;
use super::super::plan::{CallPlan, Care, Ending, Plan};
use super::state::{Checks, Trace};

/// How long a settled world may take to end a task that is past its deadline.
const LEASES_TO_END: u64 = 10;

impl Checks {
    /// The time is up: every task that a client waits for must have ended.
    pub(crate) fn must_have_ended(&mut self, store: &StoreModel, keys: &[TaskKey], care: Care, now: Timestamp) {
        for key in keys {
            let Some(task) = store.peek(key).filter(|task| !task.has_expired(now)) else { continue };
            if task.has_ended() {
                continue;
            }
            let what =
                format!("{} has not ended, although no faults are injected any more: {:?}", self.name(key), task.state);
            self.fail(ended_by(care), what);
        }
    }

    /// Fails if an unfinished task that a client waits for has expired since all was settled. The server must have been
    /// up, with time to find the task past its deadline.
    pub(crate) fn must_not_have_expired(&mut self, keys: &[TaskKey], plan: &Plan, now: Timestamp) {
        let settled = Timestamp::from_ms(EPOCH_MS + plan.chaos_ms + plan.settling_ms());
        let time_ms = plan.skew_ms_max() + plan.settings.lease_ms * LEASES_TO_END;
        let is_waited_for = |key: &TaskKey| plan.care != Care::Polls || keys.contains(key);
        let is_lost = |task: &Task| {
            !task.has_ended()
                && task.has_expired(now)
                && task.expires_at >= task.deadline().max(settled).plus_ms(time_ms)
        };
        let latest = self.traces.iter().filter_map(|trace| trace.latest());
        let lost = latest.filter(|task| is_waited_for(&task.key()) && is_lost(task)).map(|task| task.key()).next();
        if let Some(key) = lost {
            let what = format!("{} has expired, and never ended", self.name(&key));
            self.fail(ended_by(plan.care), what);
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

    /// The tasks that have ended: there is nothing left to do for them.
    pub(crate) fn over(&self, store: &StoreModel) -> BTreeSet<TaskKey> {
        let latest = |trace: &Trace| store.peek(&trace.key).or_else(|| trace.latest()).cloned();
        let is_over = |trace: &&Trace| latest(trace).is_none_or(|task| task.has_ended() && !task.needs_cleanup());
        self.traces.iter().filter(is_over).map(|trace| trace.key).collect()
    }

    /// No message is left of the tasks in `over`, which ended long ago, and none of their tools runs. Other tasks,
    /// which no client waits for, may have ended just now.
    pub(crate) fn must_rest(&mut self, over: &BTreeSet<TaskKey>, messages: &[TaskKey]) {
        let is_known = |key: &TaskKey| self.traces.iter().any(|trace| trace.key == *key);
        let left = messages.iter().find(|key| over.contains(*key) || !is_known(key)).copied();
        if let Some(key) = left {
            let what = format!("a message for {} is still there, long after its end", self.name(&key));
            self.fail(Promise::BecomesIdle, what);
        }
        let runs = self
            .traces
            .iter()
            .find(|trace| over.contains(&trace.key) && trace.attempts.iter().any(|attempt| attempt.tool_runs));
        if let Some(key) = runs.map(|trace| trace.key) {
            let what = format!("a tool of {} still runs, long after the task's end", self.name(&key));
            self.fail(Promise::CancelStopsTheTool, what);
        }
    }
}

/// The promise about the end of tasks, by the part that ensures it.
const fn ended_by(care: Care) -> Promise {
    match care {
        Care::Polls => Promise::EndsInTime,
        Care::Nobody => Promise::ContinuesWithoutPolls,
        Care::Server | Care::Stream => Promise::EndsWithoutPolls,
    }
}

/// The fault of this end, given what the tool does.
fn unexpected(call: &CallPlan, state: &State) -> Option<(Promise, String)> {
    let gives_errors = matches!(call.ending, Ending::Error(_));
    match state {
        State::Completed { .. } => gives_errors
            .then(|| (Promise::EndsInTime, "is completed, although its tool only returns errors".to_owned())),
        State::Failed { failure } => match failure.kind {
            FailureKind::Tool => (!gives_errors && !call.fails_in_a_step())
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
