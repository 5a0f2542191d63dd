//! Transitions that are wrong on purpose: [`Task::apply`] with its input or its answer changed.

use longhaul_core::{Lease, LeaseToken, Refusal, State, Task, TaskEvent, TaskRecord, Timestamp};

use super::planted::PlantedFault;

/// What a store with the planted fault makes of `event`; what the domain says where none of the faults here is planted.
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
    let mut event = event.clone();
    match fault {
        PlantedFault::StaleAttemptWrites => set_attempt(&mut event, task.attempt),
        PlantedFault::StaleFinishAccepted => {
            if matches!(event, TaskEvent::Finish { .. }) && !task.has_ended() {
                set_attempt(&mut event, task.attempt);
                record.state = held_by_nobody(now);
            }
        }
        PlantedFault::EndedTaskEndsAgain => {
            if task.has_ended() && matches!(event, TaskEvent::Cancel | TaskEvent::TimeOut) {
                record.state = State::Queued;
            }
        }
        PlantedFault::EndIsOverwritten => {
            if task.has_ended() && matches!(event, TaskEvent::Cancel | TaskEvent::Finish { .. }) {
                set_attempt(&mut event, task.attempt);
                record.state = held_by_nobody(now);
            }
        }
        PlantedFault::ProgressOverwritesTheEnd => {
            if task.has_ended() && matches!(event, TaskEvent::Heartbeat { .. }) {
                set_attempt(&mut event, task.attempt);
                record.state = held_by_nobody(now);
            }
        }
        PlantedFault::LeaseNeverChecked => {
            if matches!(event, TaskEvent::Claim { .. } | TaskEvent::Nudge { .. }) {
                end_the_lease(&mut record, now);
            }
        }
        PlantedFault::ClaimIgnoresTheLease => {
            if matches!(&record.state, State::Running { lease } if now < lease.until)
                && matches!(event, TaskEvent::Claim { .. })
            {
                record.state = State::Queued;
            }
        }
        PlantedFault::ExpiryIgnored | PlantedFault::ExpiredIsWritten => {
            record.expires_at = record.expires_at.max(now.plus_ms(1));
        }
        PlantedFault::RetriesNotCounted => {
            if matches!(event, TaskEvent::Claim { .. } | TaskEvent::Retry { .. }) {
                record.terms.tries_max = u32::MAX;
            }
        }
        PlantedFault::UnfinishedTaskForgotten => {
            if event == TaskEvent::Forget {
                record.state = State::Cancelled;
            }
        }
        _ => {}
    }
    (record, event)
}

/// The answer as the faulty transition gives it, with what was only forged for its input set right.
fn changed_answer(
    fault: PlantedFault,
    task: &Task,
    event: &TaskEvent,
    mut next: TaskRecord,
    now: Timestamp,
) -> TaskRecord {
    match fault {
        PlantedFault::LeaseNeverChecked => {
            if let TaskEvent::Nudge { .. } = event {
                next.state = task.state.clone();
            }
        }
        PlantedFault::AttemptNotRaised => next.attempt = task.attempt,
        PlantedFault::RetriesNotCounted => next.terms.tries_max = task.terms.tries_max,
        PlantedFault::ExpiryIgnored | PlantedFault::ExpiredIsWritten => {
            if next.expires_at == now.plus_ms(1) {
                next.expires_at = task.expires_at;
            }
        }
        PlantedFault::EndDoesNotExtendRetention => {
            if next.ended_at != task.ended_at {
                next.expires_at = task.expires_at;
            }
        }
        PlantedFault::RetentionNotExtended => {
            if let TaskEvent::Keep { .. } = event {
                next = task.record().clone();
            }
        }
        PlantedFault::RetentionShortened => {
            if let TaskEvent::Keep { keep_ms } = event {
                next.expires_at = now.plus_ms(*keep_ms);
            }
        }
        PlantedFault::ForgetDoesNothing => {
            if *event == TaskEvent::Forget {
                next = task.record().clone();
            }
        }
        PlantedFault::UnfinishedTaskForgotten => {
            if *event == TaskEvent::Forget {
                next.state = task.state.clone();
            }
        }
        PlantedFault::LeaseNotStored => {
            if let TaskEvent::Heartbeat { .. } = event {
                next.state = task.state.clone();
            }
        }
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
        | TaskEvent::Cancel
        | TaskEvent::Nudge { .. }
        | TaskEvent::GiveUp
        | TaskEvent::TimeOut
        | TaskEvent::Keep { .. }
        | TaskEvent::Forget => {}
    }
}

fn end_the_lease(record: &mut TaskRecord, now: Timestamp) {
    if let State::Running { lease } = &mut record.state {
        lease.until = lease.until.min(now);
    }
}

const fn held_by_nobody(now: Timestamp) -> State {
    State::Running { lease: Lease { until: now, token: LeaseToken::from_random([0; 16]) } }
}
