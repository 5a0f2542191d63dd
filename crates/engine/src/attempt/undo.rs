//! Compensations: what undoes the work of a tool whose task did not end with success.

use std::pin::pin;
use std::task::Poll;

use longhaul_core::{EntryKind, FailureKind, State as TaskState, Suspension, limits};

use super::Retry;
use super::compensations::{Compensate, Compensation, Phase};
use crate::limits::REPLAY_MS_MAX;
use crate::suspension::{Driven, Reason, Suspended};
use crate::{Attempt, Cleaned};

impl Attempt {
    /// Registers what is to be done if the task ends otherwise than with success. It is a step of this name, which runs
    /// after that end, and after all that are registered later. Nothing is written: the replay of the tool registers it
    /// again. So it also covers a step that began after this, and may have run.
    pub async fn on_failure(&self, name: &str, retry: Retry, work: Compensate) {
        self.check_name(EntryKind::Step, name).await;
        if let Some((kind, message)) = self.register(name, retry, work) {
            self.fail(kind, message).await
        }
    }

    /// Registers a compensation, or says why it cannot be.
    fn register(&self, name: &str, retry: Retry, work: Compensate) -> Option<(FailureKind, String)> {
        let is_step = self.has_named(EntryKind::Step, name);
        let mut state = self.0.compensations.lock();
        if state.registered.len() >= limits::ENTRIES_MAX {
            let message = format!("a task registers at most {} compensations", limits::ENTRIES_MAX);
            return Some((FailureKind::TooLarge, message));
        }
        if is_step || !state.names.insert(name.to_owned()) {
            let message = format!(
                "the compensation `{name}` has the name of a step or of another compensation; give each its own"
            );
            return Some((FailureKind::Misuse, message));
        }
        state.ahead.remove(name);
        state.registered.push(Compensation { name: name.to_owned(), retry, work });
        None
    }

    /// Whether this attempt only replays what is recorded.
    pub(crate) fn is_replay(&self) -> bool {
        self.0.compensations.replayed_until().is_some()
    }

    /// Stays pending: a replay has come to the end of the record, in this branch of the tool.
    pub(crate) async fn stay_at_the_end<T>(&self) -> T {
        self.0.compensations.lock().is_at_the_end = true;
        self.0.suspend.wake();
        std::future::pending().await
    }

    /// Drives the tool in a replay, until it ends or is at the end of its record.
    pub(super) async fn drive_replay<F: Future>(&self, tool: F) -> Driven<F::Output> {
        let mut tool = pin!(self.0.suspend.drive(tool));
        let mut limit = pin!(self.0.engine.ports.clock.sleep_ms(REPLAY_MS_MAX));
        let mut is_over = false;
        std::future::poll_fn(move |context| {
            if let Poll::Ready(driven) = tool.as_mut().poll(context) {
                return Poll::Ready(driven);
            }
            is_over = is_over || limit.as_mut().poll(context).is_ready();
            let state = self.0.compensations.lock();
            let has_replayed = state.is_at_the_end && state.ahead.is_empty() && state.reading == 0;
            if has_replayed || is_over {
                let suspension = Suspension::Yield;
                return Poll::Ready(Driven::Suspended(Suspended(Reason::Suspend { suspension, signals: Vec::new() })));
            }
            Poll::Pending
        })
        .await
    }

    /// Runs the compensations that a [replay](crate::Ended::replay) has registered, the last first. One that is given
    /// up does not keep the others from running. `replayed` says how the tool was driven, and whether it succeeded.
    pub async fn undo(&self, replayed: Driven<bool>) -> Cleaned {
        if let Driven::Suspended(Suspended(Reason::Retry(reason))) = replayed {
            return Cleaned::Unfinished { reason };
        }
        if matches!(replayed, Driven::Ended(true)) && self.has_failed_itself() {
            tracing::warn!(task_id = %self.task().id, tool = self.task().tool, "the replay of a tool that failed has \
                succeeded: it does not do the same each time");
            self.0.engine.observer().replay_differs(self.task());
        }
        if let Some(reason) = self.begin_undo(&replayed) {
            return Cleaned::Failed { reason };
        }
        match self.0.suspend.drive(self.run_compensations()).await {
            Driven::Ended(failed) if failed.is_empty() => Cleaned::Done,
            Driven::Ended(failed) => Cleaned::GivenUp { reason: failed.join("; ") },
            Driven::Suspended(Suspended(reason)) => self.undone_later(reason),
        }
    }

    /// Ends the replay. Returns why it cannot be relied on, if something held the tool up before a recorded step. A
    /// tool that is at the end without having come there is another one by now.
    fn begin_undo(&self, replayed: &Driven<bool>) -> Option<String> {
        let mut state = self.0.compensations.lock();
        state.phase = Phase::Undo;
        let reason = format!("the replay of the tool did not come to the recorded step `{}`", state.ahead.first()?);
        if !state.is_at_the_end && matches!(replayed, Driven::Suspended(_)) {
            return Some(reason);
        }
        let (task_id, tool) = (self.task().id, &self.task().tool);
        tracing::warn!(%task_id, tool, reason, "the task is undone without it");
        None
    }

    /// Whether the tool itself ended its task with an error.
    fn has_failed_itself(&self) -> bool {
        match &self.task().state {
            TaskState::Completed { .. } => true,
            TaskState::Failed { failure } => failure.kind == FailureKind::Tool,
            TaskState::Queued
            | TaskState::Running { .. }
            | TaskState::Sleeping { .. }
            | TaskState::InputRequired { .. }
            | TaskState::Cancelled => false,
        }
    }

    /// Runs all compensations, and returns why some were given up.
    async fn run_compensations(&self) -> Vec<String> {
        let mut failed = Vec::new();
        while let Some(Compensation { name, retry, work }) = self.0.compensations.take_last() {
            if let Err(error) = self.step_with_tries(&name, retry, work).await {
                failed.push(format!("`{name}`: {error}"));
            }
        }
        failed
    }

    fn undone_later(&self, reason: Reason) -> Cleaned {
        match reason {
            Reason::Suspend {
                suspension: Suspension::Timer(until) | Suspension::Input { until: Some(until), .. },
                ..
            } => Cleaned::Waits { until },
            Reason::Suspend { suspension: Suspension::Yield | Suspension::Input { until: None, .. }, .. } => {
                Cleaned::Waits { until: self.now() }
            }
            Reason::Retry(reason) => Cleaned::Unfinished { reason },
            Reason::Fail(_, reason) => Cleaned::Failed { reason },
        }
    }
}
