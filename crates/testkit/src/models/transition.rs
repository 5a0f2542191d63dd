//! Transitions that are wrong on purpose: [`Task::apply`] with its input or its answer changed.

use longhaul_core::{Lease, LeaseToken, Refusal, State, Task, TaskEvent, TaskRecord, Timestamp};

use super::planted::PlantedFault;

/// How a store with the planted fault answers `event`; the domain's answer if the fault is not one of those here.
pub(super) fn apply(
    planted: Option<PlantedFault>,
    task: &Task,
    event: &TaskEvent,
    now: Timestamp,
) -> Result<Task, Refusal> {
    let Some(fault) = planted else { return task.apply(event, now) };
    let (forged, event) = changed_input(fault, task, event, now);
    let next = Task::restore(forged).apply(&event, now)?;
    Ok(Task::restore(changed_answer(fault, task, &event, next.into_record(), now)))
}

/// The record and the event as the faulty transition sees them.
fn changed_input(fault: PlantedFault, task: &Task, event: &TaskEvent, now: Timestamp) -> (TaskRecord, TaskEvent) {
    let mut record = task.record().clone();
    let mut changed = event.clone();
    match (fault, event) {
        (PlantedFault::StaleAttemptWrites, _) => set_attempt(&mut changed, task.attempt),
        (PlantedFault::StaleFinishAccepted, TaskEvent::Finish { .. }) if !task.has_ended() => {
            set_attempt(&mut changed, task.attempt);
            record.state = held_by_nobody(now);
        }
        (PlantedFault::EndIsOverwritten, TaskEvent::Cancel | TaskEvent::Finish { .. })
        | (PlantedFault::ProgressOverwritesTheEnd, TaskEvent::Heartbeat { .. })
            if task.has_ended() =>
        {
            set_attempt(&mut changed, task.attempt);
            record.state = held_by_nobody(now);
        }
        (PlantedFault::EndedTaskEndsAgain, TaskEvent::Cancel | TaskEvent::TimeOut) if task.has_ended() => {
            record.state = State::Queued;
        }
        (PlantedFault::LeaseNeverChecked, TaskEvent::Claim { .. } | TaskEvent::Resend { .. }) => {
            end_the_lease(&mut record, now);
        }
        (PlantedFault::LaterStartIgnored, TaskEvent::Claim { .. }) if task.awaited_start().is_some() => {
            record.state = State::Queued;
        }
        (PlantedFault::ClaimIgnoresTheLease, TaskEvent::Claim { .. }) if is_leased(task, now) => {
            record.state = State::Queued;
        }
        (PlantedFault::ExpiryIgnored | PlantedFault::ExpiredIsWritten, _) => {
            record.expires_at = record.expires_at.max(now.plus_ms(1));
        }
        (PlantedFault::AnsweredIsAskedAgain, TaskEvent::Suspend { .. }) => record.answered.clear(),
        (PlantedFault::RetriesNotCounted, TaskEvent::Claim { .. } | TaskEvent::Retry { .. }) => {
            record.terms.consecutive_failures_max = u32::MAX;
        }
        (PlantedFault::UnfinishedTaskForgotten, TaskEvent::Forget)
        | (PlantedFault::CompletedIsCleaned, TaskEvent::BeginCleanup { .. } | TaskEvent::EndCleanup { .. }) => {
            record.state = State::Cancelled;
        }
        _ => {}
    }
    (record, changed)
}

/// The answer as the faulty transition gives it. A change of the input alone is undone.
fn changed_answer(
    fault: PlantedFault,
    task: &Task,
    event: &TaskEvent,
    mut next: TaskRecord,
    now: Timestamp,
) -> TaskRecord {
    match (fault, event) {
        (PlantedFault::LeaseNeverChecked, TaskEvent::Resend { .. })
        | (PlantedFault::UnfinishedTaskForgotten, TaskEvent::Forget)
        | (PlantedFault::CompletedIsCleaned, TaskEvent::BeginCleanup { .. } | TaskEvent::EndCleanup { .. })
        | (PlantedFault::LeaseNotStored, TaskEvent::Heartbeat { .. }) => next.state = task.state.clone(),
        (PlantedFault::AttemptNotNoted, TaskEvent::Suspend { .. }) => next.attempts.past = task.attempts.past.clone(),
        (PlantedFault::QuestionsForgotten, TaskEvent::Claim { .. }) => next.asked.clear(),
        (PlantedFault::AttemptNotRaised, _) => next.attempt = task.attempt,
        (PlantedFault::RetriesNotCounted, _) => {
            next.terms.consecutive_failures_max = task.terms.consecutive_failures_max
        }
        (PlantedFault::ExpiryIgnored | PlantedFault::ExpiredIsWritten, _) if next.expires_at == now.plus_ms(1) => {
            next.expires_at = task.expires_at;
        }
        (PlantedFault::EndDoesNotExtendRetention, _) if next.ended_at != task.ended_at => {
            next.expires_at = task.expires_at;
        }
        (PlantedFault::RetentionShortened, TaskEvent::ExtendRetention { retention_ms }) => {
            next.expires_at = now.plus_ms(*retention_ms)
        }
        (PlantedFault::RetentionNotExtended, TaskEvent::ExtendRetention { .. })
        | (PlantedFault::ForgetDoesNothing, TaskEvent::Forget) => next = task.record().clone(),
        _ => {}
    }
    next
}

/// Makes `event` one of the latest attempt.
const fn set_attempt(event: &mut TaskEvent, latest: u32) {
    match event {
        TaskEvent::Heartbeat { attempt, .. }
        | TaskEvent::SetVariables { attempt, .. }
        | TaskEvent::Suspend { attempt, .. }
        | TaskEvent::Retry { attempt, .. }
        | TaskEvent::Finish { attempt, .. } => *attempt = latest,
        TaskEvent::Claim { .. }
        | TaskEvent::Answer { .. }
        | TaskEvent::Wake { .. }
        | TaskEvent::Cancel
        | TaskEvent::Resend { .. }
        | TaskEvent::RetriesExhausted
        | TaskEvent::TimeOut
        | TaskEvent::ExtendRetention { .. }
        | TaskEvent::Forget
        | TaskEvent::BeginCleanup { .. }
        | TaskEvent::EndCleanup { .. } => {}
    }
}

fn is_leased(task: &Task, now: Timestamp) -> bool {
    matches!(&task.state, State::Running { lease } if now < lease.until)
}

fn end_the_lease(record: &mut TaskRecord, now: Timestamp) {
    if let State::Running { lease } = &mut record.state {
        lease.until = lease.until.min(now);
    }
}

const fn held_by_nobody(now: Timestamp) -> State {
    State::Running { lease: Lease { until: now, token: LeaseToken::from_random([0; 16]) } }
}
