//! The rules for one change, judged by the record alone.

use longhaul_core::{FailureKind, State, Suspension, Task, TaskEvent, Timestamp};
use longhaul_testkit::models::Promise;

use super::state::Checks;

impl Checks {
    /// Consecutive attempts that die or fail are counted and bounded, and no task fails before that bound.
    pub(super) fn check_failures(&mut self, before: &Task, after: &Task, event: &TaskEvent) {
        let key = before.key();
        let consecutive_failures_max = before.terms.consecutive_failures_max;
        let Some(trace) = self.trace(&key) else { return };
        let failed = match event {
            TaskEvent::Claim { .. } => {
                trace.attempts_in_a_row += 1;
                matches!(before.state, State::Running { .. })
            }
            TaskEvent::Retry { .. } => true,
            TaskEvent::Suspend { .. } => {
                trace.attempts_in_a_row = 0;
                false
            }
            _ => false,
        };
        trace.failed_attempts += u32::from(failed);
        let (in_a_row, failed_attempts) = (trace.attempts_in_a_row, trace.failed_attempts);
        let advanced = trace.attempt(before.attempt).is_some_and(|attempt| attempt.advanced);
        if in_a_row > consecutive_failures_max {
            let what = format!(
                "{} is in attempt {in_a_row} in a row without an advance; {consecutive_failures_max} are allowed",
                self.name(&key)
            );
            self.fail(Promise::FailuresAreCounted, what);
        }
        let State::Failed { failure } = &after.state else { return };
        if failure.kind != FailureKind::RetriesExhausted || ended(before) {
            return;
        }
        if failed_attempts + 1 < consecutive_failures_max {
            let what = format!(
                "{} failed after {} failed attempts; {consecutive_failures_max} are allowed",
                self.name(&key),
                failed_attempts + 1
            );
            self.fail(Promise::FailuresAreCounted, what);
        }
        let orderly = matches!(event, TaskEvent::Finish { .. });
        let actor = self.trace(&key).and_then(|trace| trace.attempt(before.attempt)).map_or(0, |attempt| attempt.actor);
        if orderly
            && advanced
            && consecutive_failures_max > 1
            && self.disturbed_until_ms(actor) + self.lease_ms < self.now_ms()
        {
            let what = format!("{} failed although its last attempt got further than the ones before", self.name(&key));
            self.fail(Promise::FailuresAreCounted, what);
        }
    }
}

/// Whether the task has ended, by its state alone.
pub(super) const fn ended(task: &Task) -> bool {
    matches!(task.record().state, State::Completed { .. } | State::Failed { .. } | State::Cancelled)
}

/// The rule that one change breaks, judged by the record alone.
pub(super) fn broken_by(before: &Task, after: &Task, event: &TaskEvent, now: Timestamp) -> Option<(Promise, String)> {
    if before.expires_at <= now {
        return Some((Promise::ExpiredIsNotFound, "was written after it had expired".to_owned()));
    }
    if let TaskEvent::ExtendRetention { .. } | TaskEvent::Forget = event {
        return retention_broken_by(before, after, event, now);
    }
    if let TaskEvent::BeginCleanup { .. } | TaskEvent::EndCleanup { .. } | TaskEvent::Resend { .. } = event
        && ended(before)
    {
        return cleanup_broken_by(before, after);
    }
    if ended(before) {
        return (before != after)
            .then(|| (Promise::EndsOnce, format!("changed from {:?} after its end", before.state)));
    }
    let kept_until_ms = now.as_ms() + after.terms.retention_ms;
    if ended(after) && after.expires_at.as_ms() < kept_until_ms {
        let what = "ended late, and its result is not retained for as long as agreed".to_owned();
        return Some((Promise::ExpiredIsNotFound, what));
    }
    if after.expires_at < before.expires_at {
        return Some((Promise::ExpiredIsNotFound, "expires earlier than agreed".to_owned()));
    }
    let moments = |task: &Task| (task.created_at, task.not_before);
    let fixed = |task: &Task| (task.key(), task.tool.clone(), task.request.clone(), task.terms, moments(task));
    if fixed(before) != fixed(after) {
        return Some((
            Promise::NothingIsTruncated,
            "its key, tool, request, terms, creation time or start changed".to_owned(),
        ));
    }
    let rise = after.attempt.wrapping_sub(before.attempt);
    match event {
        TaskEvent::Claim { .. } if rise != 1 => {
            Some((Promise::StaleCannotWrite, format!("a claim raised the attempt by {rise}")))
        }
        TaskEvent::Claim { .. } => claim_broken_by(before, now),
        TaskEvent::Heartbeat { attempt, .. }
        | TaskEvent::SetVariables { attempt, .. }
        | TaskEvent::Suspend { attempt, .. }
        | TaskEvent::Retry { attempt, .. }
        | TaskEvent::Finish { attempt, .. }
            if *attempt != before.attempt || !matches!(before.state, State::Running { .. }) =>
        {
            let what = format!("attempt {attempt} wrote, and attempt {} is the latest", before.attempt);
            Some((Promise::StaleCannotWrite, what))
        }
        TaskEvent::Suspend { suspension: Suspension::Timer(until), .. }
            if after.state != (State::Sleeping { until: *until }) =>
        {
            Some((Promise::SleepsLastAsAsked, "a sleep is not recorded".to_owned()))
        }
        TaskEvent::TimeOut if now.as_ms() < deadline_ms(before) => {
            Some((Promise::EndsInTime, "timed out before its deadline".to_owned()))
        }
        TaskEvent::RetriesExhausted => match &before.state {
            State::Running { lease }
                if lease.until <= now && before.failures + 1 >= before.terms.consecutive_failures_max =>
            {
                None
            }
            _ => Some((Promise::FailuresAreCounted, "failed although retries were left".to_owned())),
        },
        _ if rise != 0 => Some((Promise::StaleCannotWrite, "the attempt changed without a claim".to_owned())),
        _ => None,
    }
}

/// The rule that a write for the cleanup of a task that has ended breaks.
fn cleanup_broken_by(before: &Task, after: &Task) -> Option<(Promise, String)> {
    let same = before.state == after.state && before.attempt == after.attempt && before.expires_at == after.expires_at;
    (!same).then(|| (Promise::EndsOnce, "changed when only its cleanup was to change".to_owned()))
}

/// The rule that a change of the retention breaks.
fn retention_broken_by(before: &Task, after: &Task, event: &TaskEvent, now: Timestamp) -> Option<(Promise, String)> {
    // These change how long a task is retained, and nothing else.
    let same = before.state == after.state && before.attempt == after.attempt && before.request == after.request;
    if *event == TaskEvent::Forget && !ended(before) {
        return Some((Promise::AcceptedStaysOnRecord, "was forgotten before its end".to_owned()));
    }
    if !same {
        return Some((Promise::EndsOnce, "changed when only its retention was to change".to_owned()));
    }
    let kept = match event {
        TaskEvent::ExtendRetention { retention_ms } => {
            let from = after.ended_at.unwrap_or_else(|| after.deadline());
            after.expires_at >= before.expires_at.max(from.plus_ms(*retention_ms))
        }
        _ => after.expires_at <= now,
    };
    (!kept).then(|| (Promise::ExpiredIsNotFound, "is not retained for as long as requested".to_owned()))
}

/// The longest run counts from the creation, or from a later start.
fn deadline_ms(task: &Task) -> u64 {
    task.not_before.unwrap_or(task.created_at).as_ms() + task.terms.run_ms
}

fn claim_broken_by(before: &Task, now: Timestamp) -> Option<(Promise, String)> {
    match &before.state {
        State::Running { lease } if now < lease.until => {
            Some((Promise::StaleCannotWrite, "was claimed while another attempt held its lease".to_owned()))
        }
        State::Sleeping { until } if before.attempt == 0 && now < *until => {
            Some((Promise::StartsAtItsMoment, "was claimed before its start".to_owned()))
        }
        State::Sleeping { until } | State::InputRequired { until: Some(until), .. } if now < *until => {
            Some((Promise::SleepsLastAsAsked, "was claimed before its time".to_owned()))
        }
        State::InputRequired { until: None, .. } => {
            Some((Promise::AnswersAreFinal, "was claimed before it was answered".to_owned()))
        }
        _ if now.as_ms() >= deadline_ms(before) => {
            Some((Promise::DeadlineStopsTheTool, "was claimed after its deadline".to_owned()))
        }
        _ => None,
    }
}
