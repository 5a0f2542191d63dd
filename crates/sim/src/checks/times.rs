//! Checkers of schedules.

use longhaul_core::{Task, Timestamp};
use longhaul_testkit::models::{Promise, SCHEDULED_TOOL};

use super::super::kernel::EPOCH_MS;
use super::super::schedule_plan::Overlaps;
use super::state::{Checks, Trace};

impl Checks {
    /// A poll has handled everything that was due.
    pub(crate) fn polled(&mut self, begun_ms: u64) {
        let at_ms = self.now_ms();
        if let Some(times) = &mut self.times {
            times.polls.push((begun_ms, at_ms));
        }
    }

    /// The call of a task that the schedule made.
    pub(super) fn scheduled_call(&self, task: &Task) -> Option<usize> {
        self.times.as_ref().map(|times| times.plan.call).filter(|_| task.tool == SCHEDULED_TOOL)
    }

    /// A task is created, perhaps by the schedule.
    pub(super) fn check_time(&mut self, task: &Task) {
        let at_ms = self.now_ms();
        if self.scheduled_call(task).is_none() {
            return;
        }
        let time = task.id.begins_at();
        if self.scheduled().any(|(held, _)| held == time) {
            self.fail(Promise::TimesAreOneTask, format!("the schedule makes a second task for {}", said(time)));
        }
        let Some(plan) = self.times.as_ref().map(|times| times.plan.clone()) else { return };
        let is_time = time.as_ms().is_multiple_of(plan.every_ms) && time.as_ms() <= EPOCH_MS + at_ms + self.skew_ms;
        let late_ms = (EPOCH_MS + at_ms).saturating_sub(time.as_ms());
        let is_latest = !self.is_calm || late_ms < plan.every_ms + self.lease_ms;
        let is_in_time = !self.is_calm || late_ms < plan.made_up_within_ms.max(LATE_MS) + self.lease_ms;
        if !is_time || !is_latest || !is_in_time {
            let what = format!("the schedule makes a task for {}, {late_ms} ms later", said(time));
            self.fail(Promise::TimesAreKept, what);
        }
        let runs = self.scheduled().any(|(_, trace)| trace.ended.is_none());
        if plan.overlap == Overlaps::LeftOut && self.is_calm && runs {
            let what = format!("the schedule makes a task for {}, and the one before has not ended", said(time));
            self.fail(Promise::OverlapsAreLeftOut, what);
        }
    }

    /// At the end of a calm world, each scheduled time that a poll came for in time has its task, or was left out.
    pub(crate) fn must_have_kept_times(&mut self) {
        let Some(times) = self.times.as_ref().filter(|_| self.is_calm) else { return };
        let every_ms = times.plan.every_ms;
        let window_ms = times.plan.made_up_within_ms.max(LATE_MS);
        let first = times.polls.iter().map(|(_, over_ms)| EPOCH_MS + over_ms).min().unwrap_or(u64::MAX);
        let last = times.polls.iter().map(|(begun_ms, _)| EPOCH_MS + begun_ms).max().unwrap_or(0);
        let mut due = (first.div_ceil(every_ms)..=last / every_ms).map(|number| number * every_ms);
        let forgotten = due.find(|time| {
            let seen = times.polls.iter().find(|(begun_ms, _)| EPOCH_MS + begun_ms >= *time);
            let in_time = seen.is_some_and(|(_, over_ms)| EPOCH_MS + over_ms < time + every_ms.min(window_ms));
            let has_task = self.scheduled().any(|(held, _)| held.as_ms() == *time);
            in_time && !has_task && !self.is_left_out(*time)
        });
        if let Some(time) = forgotten {
            let what = format!("the schedule has made no task for {}", said(Timestamp::from_ms(time)));
            self.fail(Promise::TimesAreKept, what);
        }
    }

    /// Whether an earlier task ran at this time, or may have run when a poll came.
    fn is_left_out(&self, time: u64) -> bool {
        let leaves_out = self.times.as_ref().is_some_and(|times| times.plan.overlap == Overlaps::LeftOut);
        let ran = |trace: &Trace| trace.ended.is_none_or(|(ended_ms, _)| EPOCH_MS + ended_ms >= time);
        leaves_out && self.scheduled().any(|(held, trace)| held.as_ms() < time && ran(trace))
    }

    /// The tasks of the schedule, with their times.
    fn scheduled(&self) -> impl Iterator<Item = (Timestamp, &Trace)> {
        let is_scheduled = |trace: &&Trace| trace.latest().is_some_and(|task| task.tool == SCHEDULED_TOOL);
        self.traces.iter().filter(is_scheduled).map(|trace| (trace.key.id.begins_at(), trace))
    }
}

/// A run that is later than this counts as missed.
const LATE_MS: u64 = 120_000;

fn said(time: Timestamp) -> String {
    format!("the time {} s", time.as_ms().saturating_sub(EPOCH_MS) / 1_000)
}
